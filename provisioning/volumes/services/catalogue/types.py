"""Volume types: their access, encryption and quotas, and the default types of projects."""

import uuid
from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError
from provisioning.quotas.services.limits import rename_resources
from provisioning.volumes.models import DefaultType, TypeEncryption, Volume, VolumeType, VolumeTypeAccess
from provisioning.volumes.pools import deleted_data
from provisioning.volumes.selectors.types import DEFAULT, default_type

PER_TYPE = ("volumes", "gigabytes", "snapshots")
"""Quotas that also exist for each type, as ``volumes_NAME``."""


def ensure_default_type() -> None:
    """Create Cinder's ``__DEFAULT__`` type if there are no types."""
    if not VolumeType.objects.exists():
        VolumeType.objects.get_or_create(name=DEFAULT, defaults={"description": "Default Volume Type"})


def create_type(
    name: str,
    *,
    description: str | None = None,
    is_public: bool = True,
    extra_specs: Mapping[str, str] | None = None,
) -> VolumeType:
    """Create a type.  Raises ConflictError if the name exists."""
    made = VolumeType(name=name, description=description, is_public=is_public, extra_specs=dict(extra_specs or {}))
    return _saved(made, force_insert=True)


@transaction.atomic
def update_type(volume_type: VolumeType, changes: Mapping[str, Any]) -> VolumeType:
    """Update ``name``, ``description`` or ``is_public``; quotas of the type are renamed with it."""
    old = volume_type.name
    new = str(changes.get("name", old))
    if new != old and old == DEFAULT:
        raise InvalidInputError(f"The name of {DEFAULT} cannot be changed.", field="name")
    for name, value in changes.items():
        setattr(volume_type, name, value)
    volume_type.updated_at = timezone.now()
    _saved(volume_type, update_fields=[*changes, "updated_at"])
    if new != old:
        rename_resources({f"{name}_{old}": f"{name}_{new}" for name in PER_TYPE})
    return volume_type


@transaction.atomic
def delete_type(volume_type: VolumeType) -> None:
    """Delete a type.  Raises InvalidInputError if it has volumes or groups, or is a default type."""
    volume_type = _locked(volume_type)
    _check_unused(volume_type, "Target volume type is still in use.")
    if volume_type.groups.exists():
        raise InvalidInputError("Target volume type is still in use.")
    if volume_type.name == DEFAULT or volume_type.defaults.exists():
        raise InvalidInputError(f"The volume type {volume_type.id} is a default volume type and cannot be deleted.")
    deleted_data.forget_type(volume_type)
    volume_type.delete()


@transaction.atomic
def set_extra_specs(volume_type: VolumeType, specs: Mapping[str, str]) -> VolumeType:
    """Add or update extra specs.  Raises InvalidInputError while the type has volumes."""
    volume_type = _locked(volume_type)
    _check_unused(volume_type, "Volume Type is currently in use.")
    volume_type.extra_specs = {**volume_type.extra_specs, **specs}
    return _touched(volume_type, "extra_specs")


@transaction.atomic
def delete_extra_spec(volume_type: VolumeType, key: str) -> None:
    """Remove an extra spec.  Raises NotFoundError, and InvalidInputError while the type has volumes."""
    volume_type = _locked(volume_type)
    _check_unused(volume_type, "Volume Type is currently in use.")
    specs = dict(volume_type.extra_specs)
    if specs.pop(key, None) is None:
        raise NotFoundError(f"Volume Type {volume_type.id} has no extra specs with key {key[:64]}.")
    volume_type.extra_specs = specs
    _touched(volume_type, "extra_specs")


def add_access(volume_type: VolumeType, project_id: uuid.UUID) -> None:
    """Give a project access to a type that is not public.  Raises ConflictError if it has access."""
    if volume_type.is_public:
        raise InvalidInputError("Type access modification is not applicable to public volume type.")
    try:
        with transaction.atomic():
            VolumeTypeAccess.objects.create(volume_type=volume_type, project_id=project_id)
    except IntegrityError:
        msg = f"Volume type access for {volume_type.id} / {project_id.hex} combination already exists."
        raise ConflictError(msg) from None


def remove_access(volume_type: VolumeType, project_id: uuid.UUID) -> None:
    """Remove a project's access to a type.  Raises NotFoundError if it has none."""
    if volume_type.is_public:
        raise InvalidInputError("Type access modification is not applicable to public volume type.")
    if not VolumeTypeAccess.objects.filter(volume_type=volume_type, project_id=project_id).delete()[0]:
        raise NotFoundError(f"Volume type access not found for {volume_type.id} / {project_id.hex} combination.")


@transaction.atomic
def create_encryption(volume_type: VolumeType, values: Mapping[str, Any]) -> TypeEncryption:
    """Enable encryption of new volumes of a type.  Raises InvalidInputError while the type has volumes."""
    volume_type = _locked(volume_type)
    _check_unused(volume_type, "Cannot create encryption specs. Volume type in use.")
    if TypeEncryption.objects.filter(volume_type=volume_type).exists():
        raise InvalidInputError(f"Volume type encryption for type {volume_type.id} already exists.")
    return TypeEncryption.objects.create(volume_type=volume_type, **values)


@transaction.atomic
def update_encryption(volume_type: VolumeType, changes: Mapping[str, Any]) -> TypeEncryption:
    """Update the encryption of new volumes of a type.  Raises InvalidInputError while the type has volumes."""
    volume_type = _locked(volume_type)
    _check_unused(volume_type, "Cannot update encryption specs. Volume type in use.")
    type_encryption = encryption_of(volume_type)
    for name, value in changes.items():
        setattr(type_encryption, name, value)
    type_encryption.updated_at = timezone.now()
    type_encryption.save(update_fields=[*changes, "updated_at"])
    return type_encryption


@transaction.atomic
def delete_encryption(volume_type: VolumeType) -> None:
    """Disable encryption of new volumes of a type.  Raises InvalidInputError while the type has volumes."""
    volume_type = _locked(volume_type)
    _check_unused(volume_type, "Cannot delete encryption specs. Volume type in use.")
    encryption_of(volume_type).delete()


def encryption_of(volume_type: VolumeType) -> TypeEncryption:
    """Return the encryption of a type.  Raises NotFoundError if its volumes are not encrypted."""
    type_encryption = TypeEncryption.objects.filter(volume_type=volume_type).first()
    if type_encryption is None:
        raise NotFoundError(f"Volume type encryption for type {volume_type.id} does not exist.")
    return type_encryption


def set_default_type(project_id: uuid.UUID, volume_type: VolumeType) -> DefaultType:
    """Set the default type of a project."""
    row, _ = DefaultType.objects.update_or_create(project_id=project_id, defaults={"volume_type": volume_type})
    return row


def unset_default_type(project_id: uuid.UUID) -> None:
    """Remove the default type of a project, so that the cloud's default applies; a missing one is ignored."""
    DefaultType.objects.filter(project_id=project_id).delete()


def default_type_of(project_id: uuid.UUID) -> VolumeType:
    """Return the effective default type of a project. Raises NotFoundError if there is none."""
    volume_type = default_type(project_id)
    if volume_type is None:
        raise NotFoundError("Default volume type can not be found.")
    return volume_type


def _saved(volume_type: VolumeType, **how: Any) -> VolumeType:
    try:
        with transaction.atomic():
            volume_type.save(**how)
    except IntegrityError:
        raise ConflictError(f"Volume Type {volume_type.name} already exists.", field="name") from None
    return volume_type


def _locked(volume_type: VolumeType) -> VolumeType:
    row = VolumeType.objects.select_for_update().filter(pk=volume_type.pk).first()
    if row is None:
        raise NotFoundError(f"Volume type {volume_type.pk} could not be found.")
    return row


def _touched(volume_type: VolumeType, *fields: str) -> VolumeType:
    volume_type.updated_at = timezone.now()
    volume_type.save(update_fields=[*fields, "updated_at"])
    return volume_type


def _check_unused(volume_type: VolumeType, message: str) -> None:
    if Volume.objects.filter(volume_type=volume_type).exists():
        raise InvalidInputError(message)
