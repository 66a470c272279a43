"""Group types and their specs."""

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError
from provisioning.volumes.models import GroupType


def create_group_type(
    name: str,
    *,
    description: str | None = None,
    is_public: bool = True,
    group_specs: Mapping[str, str] | None = None,
) -> GroupType:
    """Create a group type.  Raises ConflictError if the name exists."""
    made = GroupType(name=name, description=description, is_public=is_public, group_specs=dict(group_specs or {}))
    return _saved(made, force_insert=True)


def update_group_type(group_type: GroupType, changes: Mapping[str, Any]) -> GroupType:
    """Update ``name``, ``description`` or ``is_public``."""
    for name, value in changes.items():
        setattr(group_type, name, value)
    group_type.updated_at = timezone.now()
    return _saved(group_type, update_fields=[*changes, "updated_at"])


@transaction.atomic
def delete_group_type(group_type: GroupType) -> None:
    """Delete a group type.  Raises InvalidInputError if it is in use."""
    group_type = _locked(group_type)
    if group_type.groups.exists() or group_type.group_snapshots.exists():
        raise InvalidInputError(f"Target group type {group_type.id} is still in use.")
    group_type.delete()


@transaction.atomic
def set_group_specs(group_type: GroupType, specs: Mapping[str, str]) -> GroupType:
    """Add or update specs."""
    group_type = _locked(group_type)
    group_type.group_specs = {**group_type.group_specs, **specs}
    group_type.updated_at = timezone.now()
    group_type.save(update_fields=["group_specs", "updated_at"])
    return group_type


@transaction.atomic
def delete_group_spec(group_type: GroupType, key: str) -> None:
    """Remove a spec.  Raises NotFoundError."""
    group_type = _locked(group_type)
    specs = dict(group_type.group_specs)
    if specs.pop(key, None) is None:
        raise NotFoundError(f"Group Type {group_type.id} has no specs with key {key[:64]}.")
    group_type.group_specs = specs
    group_type.updated_at = timezone.now()
    group_type.save(update_fields=["group_specs", "updated_at"])


def _saved(group_type: GroupType, **how: Any) -> GroupType:
    try:
        with transaction.atomic():
            group_type.save(**how)
    except IntegrityError:
        raise ConflictError(f"Group Type {group_type.name} already exists.", field="name") from None
    return group_type


def _locked(group_type: GroupType) -> GroupType:
    row = GroupType.objects.select_for_update().filter(pk=group_type.pk).first()
    if row is None:
        raise NotFoundError(f"Group type {group_type.pk} could not be found.")
    return row
