"""Firmware states of shelved servers that are missing or no longer needed."""

import uuid
from collections.abc import Iterator

from provisioning.common.database.prepared import Prepared
from provisioning.compute.host_link.firmware_states import has_state
from provisioning.compute.models import FirmwareState, Instance
from provisioning.compute.states import VmState
from provisioning.doctor.finding import Finding, Repair, check
from provisioning.doctor.repairs import moment_of, named

MAY_NEED_IT: tuple[VmState, ...] = (VmState.SHELVED, VmState.SHELVED_OFFLOADED, VmState.SOFT_DELETED, VmState.ERROR)
OFFLOADED = Prepared(
    lambda: Instance.objects.filter(vm_state=VmState.SHELVED_OFFLOADED, firmware_state=None).order_by("id")
)
STALE = Prepared(
    lambda: (
        FirmwareState.objects.select_related("instance")
        .filter(instance__task_state=None)
        .exclude(instance__vm_state__in=MAY_NEED_IT)
        .order_by("instance_id")
    )
)


@check("firmware_states")
def firmware_states() -> Iterator[Finding]:
    """Find offloaded servers without their firmware state, and states of servers that are not shelved."""
    for row in OFFLOADED():
        if has_state(row):
            sentence = "It is offloaded, but its firmware state is missing: it will have new UEFI variables and TPM."
            yield Finding("warning", named(row), sentence, evidence=moment_of(row))
    for state in STALE():
        sentence = "Its firmware state is stored although it is not shelved."
        repair = _remove(state.instance_id)
        yield Finding("warning", named(state.instance), sentence, "Delete the state.", repair, state.digest)


def _remove(instance_id: uuid.UUID) -> Repair:
    def repair() -> str | None:
        rows = FirmwareState.objects.filter(instance_id=instance_id, instance__task_state=None)
        deleted, _ = rows.exclude(instance__vm_state__in=MAY_NEED_IT).delete()
        return "The state was deleted." if deleted else None

    return repair
