"""Servers whose guest is missing on its host."""

from collections.abc import Iterator

from provisioning.common.database.prepared import Prepared
from provisioning.compute.models import Instance
from provisioning.compute.states import PowerState, VmState
from provisioning.doctor.checks.allocations import AT_A_HOST, PLACED
from provisioning.doctor.finding import Finding, check
from provisioning.doctor.repairs import moment_of, named

GUESTLESS = Prepared(
    lambda: (
        Instance.objects.select_related("host")
        .filter(host__isnull=False, vm_state__in=[*AT_A_HOST, VmState.SOFT_DELETED], task_state=None)
        .filter(power_state=PowerState.NOSTATE.value)
        .order_by("id")
    )
)
HOSTLESS = Prepared(lambda: Instance.objects.filter(PLACED, host=None).order_by("id"))


@check("guests")
def guestless() -> Iterator[Finding]:
    """Find servers without a task whose host reported no guest for them, and servers that should have a host and have
    none.
    """
    for row in GUESTLESS():
        host = row.host.name if row.host else "?"
        sentence = (
            f"It is {row.vm_state}, but host {host} has no guest for it. Starting it creates the guest again from its"
            " disk, if the disk exists; otherwise rebuild or delete it."
        )
        yield Finding("warning", named(row), sentence, evidence=moment_of(row))
    for row in HOSTLESS():
        yield Finding("error", named(row), f"It is {row.vm_state}, but has no host. An operator may reset it to error.")
