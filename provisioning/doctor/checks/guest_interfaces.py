"""Interfaces that differ between a guest and its record."""

from collections.abc import Callable, Iterator

from django.db.models import F

from provisioning.common.context import system_context
from provisioning.common.database.prepared import Prepared
from provisioning.common.errors import ConflictError
from provisioning.compute.models import InterfaceDifference
from provisioning.compute.states import VmState
from provisioning.compute.upkeep import kept_interfaces
from provisioning.compute.upkeep.kept_interfaces import EXTRA, MISSING
from provisioning.doctor.finding import Finding, check

DIFFERENCES = Prepared(
    lambda: (
        InterfaceDifference.objects.filter(instance__host_id=F("host_id"))
        .exclude(instance__vm_state=VmState.DELETED)
        .select_related("host")
        .order_by("id")
    )
)
DECIDE = "Operators decide at /admin/compute/interfacedifference/: give it to the server, or detach it from the guest."


@check("guest_interfaces")
def guest_interfaces() -> Iterator[Finding]:
    """Find interfaces that only the guest or only the record has, and interfaces that were added to records again."""
    for row in DIFFERENCES():
        subject, what = f"instance {row.instance_id}", f"the interface {row.mac_address} (port {row.port_id})"
        where = f"Its guest on host {row.host.name}"
        evidence = (row.pk, row.kind)
        if row.kind == EXTRA:
            sentence = f"{where} has {what}, but the record does not. {row.reason} It is not touched. {DECIDE}"
            yield Finding("error", subject, sentence, evidence=evidence)
        elif row.kind == MISSING:
            repair = _repair(kept_interfaces.plug_in, row, "It was plugged in again.")
            yield Finding("error", subject, f"{where} does not have {what}.", "Plug it in again.", repair, evidence)
        else:
            repair = _repair(kept_interfaces.acknowledge, row, "It is no longer reported.")
            sentence = f"{where} has {what}: records are lost. {row.reason}"
            yield Finding("warning", subject, sentence, "Acknowledge it, and stop reporting it.", repair, evidence)


def _repair(decide: Callable[..., None], row: InterfaceDifference, result: str) -> Callable[[], str | None]:
    def work() -> str | None:
        try:
            decide(system_context(), row)
        except ConflictError:
            return None
        return result

    return work
