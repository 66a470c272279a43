"""Interfaces in which a guest and its record differ."""

from collections.abc import Callable, Iterator

from django.db.models import F

from provisioning.common.context import system_context
from provisioning.common.errors import ConflictError
from provisioning.common.prepared import Prepared
from provisioning.compute.models import InterfaceDifference
from provisioning.compute.states import VmState
from provisioning.compute.upkeep import interface_decisions
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
DECIDE = "Operators decide at /admin/compute/interfacedifference/: let the server have it, or take it out of the guest."


@check("guest_interfaces")
def guest_interfaces() -> Iterator[Finding]:
    """Find interfaces that only the guest or only the record has, and those that servers were given back."""
    for row in DIFFERENCES():
        subject, what = f"instance {row.instance_id}", f"the interface {row.mac_address} (port {row.port_id})"
        where = f"Its guest on host {row.host.name}"
        evidence = (row.pk, row.kind)
        if row.kind == EXTRA:
            sentence = f"{where} has {what}, and the record has not. {row.reason} It is left alone. {DECIDE}"
            yield Finding("error", subject, sentence, evidence=evidence)
        elif row.kind == MISSING:
            mend = _mend(interface_decisions.plug_in, row, "It is plugged in again.")
            yield Finding("error", subject, f"{where} has not {what}.", "Plug it in again.", mend, evidence)
        else:
            mend = _mend(interface_decisions.acknowledge, row, "It is reported no more.")
            sentence = f"{where} has {what}: records are lost. {row.reason}"
            yield Finding("warning", subject, sentence, "Take note, and report it no more.", mend, evidence)


def _mend(decide: Callable[..., None], row: InterfaceDifference, said: str) -> Callable[[], str | None]:
    def work() -> str | None:
        try:
            decide(system_context(), row)
        except ConflictError:
            return None
        return said

    return work
