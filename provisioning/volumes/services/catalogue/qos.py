"""QoS specs: the disk limits of volume types."""

from collections.abc import Collection, Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError
from provisioning.volumes.models import QosSpec, VolumeType
from provisioning.volumes.records import disk_limits
from provisioning.volumes.services.updates.limits import call_followers


def create_qos_spec(name: str, consumer: str, specs: Mapping[str, str]) -> QosSpec:
    """Create a QoS spec.  Raises ConflictError if the name exists, and InvalidInputError for limits that hypervisors
    cannot apply.
    """
    _check(consumer, specs, specs)
    try:
        with transaction.atomic():
            return QosSpec.objects.create(name=name, consumer=consumer, specs=dict(specs))
    except IntegrityError:
        raise ConflictError(f"QoS Specs {name} already exists.", field="name") from None


@transaction.atomic
def update_qos_spec(spec: QosSpec, changes: Mapping[str, Any]) -> QosSpec:
    """Add or update keys, and ``consumer``.  Raises InvalidInputError for limits that hypervisors cannot apply.

    Existing keys are only validated when the consumer changes from ``back-end``.
    """
    spec = _locked(spec)
    values, before = dict(changes), spec.consumer
    spec.consumer = values.pop("consumer", spec.consumer)
    spec.specs = {**spec.specs, **values}
    _check(spec.consumer, spec.specs if before == "back-end" else values, spec.specs)
    return _saved(spec)


@transaction.atomic
def delete_keys(spec: QosSpec, keys: Collection[str]) -> QosSpec:
    """Remove keys.  Raises NotFoundError for a missing key."""
    spec = _locked(spec)
    specs = dict(spec.specs)
    for key in keys:
        if specs.pop(key, None) is None:
            raise NotFoundError(f"QoS spec {spec.id} has no spec with key {key[:64]}.")
    spec.specs = specs
    return _saved(spec)


@transaction.atomic
def delete_qos_spec(spec: QosSpec, *, force: bool = False) -> None:
    """Delete a QoS spec.  ``force``: also remove it from its types; otherwise InvalidInputError is raised if a type
    uses it.
    """
    spec = _locked(spec)
    if force:
        _followed(spec)
        VolumeType.objects.filter(qos_spec=spec).update(qos_spec=None)
    elif VolumeType.objects.filter(qos_spec=spec).exists():
        raise InvalidInputError(f"QoS Specs {spec.id} is still associated with entities.")
    spec.delete()


@transaction.atomic
def associate(spec: QosSpec, volume_type: VolumeType) -> None:
    """Associate a QoS spec with a type.  Raises InvalidInputError if the type has another QoS spec."""
    if volume_type.qos_spec_id not in {None, spec.pk}:
        msg = f"Type {volume_type.id} is already associated with another qos specs: {volume_type.qos_spec_id}"
        raise InvalidInputError(msg)
    VolumeType.objects.filter(pk=volume_type.pk).update(qos_spec=spec, updated_at=timezone.now())
    call_followers([volume_type.pk])


@transaction.atomic
def disassociate(spec: QosSpec, volume_type: VolumeType | None = None) -> None:
    """Disassociate a QoS spec from a type, or (None) from all types."""
    rows = VolumeType.objects.filter(qos_spec=spec)
    if volume_type is not None:
        rows = rows.filter(pk=volume_type.pk)
    call_followers(list(rows.values_list("pk", flat=True)))
    rows.update(qos_spec=None, updated_at=timezone.now())


def _check(consumer: str, specs: Mapping[str, str], together: Mapping[str, str]) -> None:
    """Raise InvalidInputError for limits that hypervisors cannot apply.

    ``specs``: the new keys; ``together``: all keys of the spec. Keys that are not limits are not checked, and nothing
    is checked for the consumer ``back-end``.
    """
    if consumer == "back-end":
        return
    for name, value in specs.items():
        if name in disk_limits.NAMES and disk_limits.number_in(value) is None:
            expected = f"{name} must be a whole number from 0 to {disk_limits.LARGEST}"
            msg = f"Invalid input received: {expected}, not {str(value)[:64]!r}."
            raise InvalidInputError(msg, field=name)
    limits = disk_limits.limits_in(together, size_gb=1)
    lost = sorted(limits.keys() - disk_limits.kept(limits).keys())
    if lost:
        msg = (
            f"Invalid input received: a hypervisor cannot apply {lost[0]} with the others: it accepts a total or its"
            " parts; _max needs its limit and is at least that, _max_length needs _max, size_iops_sec an iops limit."
        )
        raise InvalidInputError(msg, field=lost[0])


def _locked(spec: QosSpec) -> QosSpec:
    qos_spec = QosSpec.objects.select_for_update().filter(pk=spec.pk).first()
    if qos_spec is None:
        raise NotFoundError(f"No such qos spec {spec.pk}.")
    return qos_spec


def _saved(spec: QosSpec) -> QosSpec:
    spec.updated_at = timezone.now()
    spec.save(update_fields=["consumer", "specs", "updated_at"])
    _followed(spec)
    return spec


def _followed(spec: QosSpec) -> None:
    """Queue a job that applies the changed limits to the guests of all volumes with this spec."""
    call_followers(list(VolumeType.objects.filter(qos_spec=spec).values_list("pk", flat=True)))
