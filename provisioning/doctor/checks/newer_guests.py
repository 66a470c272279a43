"""Guests that are newer than their records, and hosts that have not reported since the database was restored."""

from collections.abc import Iterator

from provisioning.common.database.prepared import Prepared
from provisioning.compute.host_link.newer_guests import OPEN
from provisioning.compute.models import NewerGuest
from provisioning.doctor.finding import Finding, check
from provisioning.hosts import restored
from provisioning.hosts.models import Host
from provisioning.volumes.models import PoolHost

UNSETTLED = Prepared(
    lambda: NewerGuest.objects.select_related("instance", "host").filter(acknowledged_at=None).order_by("id")
)
WAYS = (
    "It is not touched. Operators decide at /admin/compute/newerguest/: update the record, or delete the guest with its"
    " disk."
)


@check("newer_guests")
def newer_guests() -> Iterator[Finding]:
    """Find guests that are newer than their records, until an operator has acknowledged them.

    Such a guest proves that the database lost changes.
    """
    for row in UNSETTLED():
        where = f"on host {row.record_host}" if row.record_host else "on no host"
        sentence = (
            f"The record is older than host {row.host.name}: the host has attempt {row.attempt}, the record"
            f" had {row.record_attempt}, {row.record_state} {where}."
        )
        if row.outcome == OPEN:
            yield Finding("error", f"instance {row.instance_id}", f"{sentence} {WAYS}", evidence=(row.pk, row.outcome))
        else:
            text = f"{sentence} Now: {row.get_outcome_display()}. Acknowledge it at /admin/compute/newerguest/."
            yield Finding("warning", f"instance {row.instance_id}", text, evidence=(row.pk, row.outcome))


@check("restored_hosts")
def unheard() -> Iterator[Finding]:
    """Find hosts that have not reported their guests or volumes since the database was restored."""
    last = restored.latest()
    if last is None:
        return
    waiting = PoolHost.objects.filter(heard=False, pool__shared=True, host__forced_down=False)
    for host in Host.objects.exclude(credential_digest="").order_by("name"):
        pools = ", ".join(waiting.filter(host=host).order_by("pool__name").values_list("pool__name", flat=True))
        if host.last_seen_at is None or host.last_seen_at < last.at:
            sentence = "It has not reported since the records were restored: its guests are not compared yet."
        elif pools:
            sentence = "It has not reported its volumes since the records were restored."
        else:
            continue
        if pools:
            sentence += f" Unattached volumes of {pools} wait for it: it may have them open."
        yield Finding("note", f"host {host.name}", sentence)
