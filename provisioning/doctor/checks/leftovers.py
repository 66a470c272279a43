"""Domains, disks, interfaces and leases on hosts that belong to no server there, as last reported."""

import uuid
from collections import Counter
from collections.abc import Iterator

from compute_agent.contract.messages import SERVER
from provisioning.compute.models import Instance
from provisioning.compute.upkeep.leftovers import is_left_over, is_newer_here, send_removal
from provisioning.doctor.finding import Finding, Repair, check, number
from provisioning.doctor.repairs import of_instance
from provisioning.hosts.leftovers import settled
from provisioning.hosts.models import Leftover

FOREIGN = "foreign_domain"
MOST_LISTED = 20
"""Maximum number of findings without a repair for each host, so that one host does not hide the others."""
WORDS = {
    "guest": "a guest",
    "domain": "a guest whose definition the host has lost",
    "folder": "a directory of disks",
    "disk": "a disk",
    "root_disk": "a root disk in its pool",
    "seed": "a config drive",
    "tap": "a network interface",
    "lease": "a DHCP lease",
    "plug": "plugged interfaces",
}


@check("leftovers")
def leftovers() -> Iterator[Finding]:
    """Find leftovers on hosts. Domains that Novella did not create are counted and not touched."""
    foreign: dict[str, list[str]] = {}
    strange = Counter[str]()
    rows = list(settled().filter(subject_kind=SERVER).select_related("host").order_by("host__name", "kind", "name"))
    known = Instance.objects.in_bulk({row.subject_id for row in rows if row.subject_id is not None})
    for row in rows:
        if row.kind == FOREIGN:
            foreign.setdefault(row.host.name, []).append(row.name)
        else:
            instance = known.get(row.subject_id) if row.subject_id else None
            if instance is None or row.kind == "domain" or _is_reported(row, instance):
                finding = _left_over(row, instance)
                strange[row.host.name] += finding.repair is None
                if finding.repair is not None or strange[row.host.name] <= MOST_LISTED:
                    yield finding
    for host, many in strange.items():
        if many > MOST_LISTED:
            sentence = f"It has {many - MOST_LISTED} more leftovers. They are not touched."
            yield Finding("warning", f"host {host}", sentence, evidence="more")
    for host, names in foreign.items():
        listed = ", ".join(names[:5]) + (" …" if len(names) > 5 else "")
        sentence = f"It has {number(len(names), 'guest')} that Novella did not create and does not touch: {listed}."
        yield Finding("note", f"host {host}", sentence)


def _is_reported(row: Leftover, instance: Instance) -> bool:
    """Return whether a server's leftover is reported.

    The server's own host keeps data that is newer than the record, so such data is reported on other hosts only.
    """
    return is_left_over(row, instance) or (instance.host_id != row.host_id and is_newer_here(row, instance))


def _left_over(row: Leftover, instance: Instance | None) -> Finding:
    what = WORDS.get(row.kind, row.kind)
    subject, evidence = f"host {row.host.name}", (row.kind, row.name)
    if instance is None:
        whose = f"of the server {row.subject_id}, which has no record" if row.subject_id else "of no server"
        sentence = f"It has {what} ({row.name}) {whose}. It is not touched: the records may be lost."
        return Finding("warning", subject, sentence, evidence=evidence)
    if is_newer_here(row, instance):
        sentence = (
            f"It has {what} ({row.name}) of the server {instance.id}, and it is newer than the"
            " record: records are lost. It is not touched; keep the disk, or delete it manually."
        )
        return Finding("warning", subject, sentence, evidence=evidence)
    if not is_left_over(row, instance):
        sentence = f"It has {what} ({row.name}) of the server {instance.id}, which is {instance.vm_state} on this host."
        return Finding("note", subject, sentence, evidence=evidence)
    where = "deleted" if instance.deleted_at else "not on this host"
    sentence = f"It has {what} ({row.name}) of the server {instance.id}, which is {where}."
    return Finding("warning", subject, sentence, "Ask the host to remove it.", _ask(row, instance.id), evidence)


def _ask(leftover: Leftover, instance_id: uuid.UUID) -> Repair:
    def work(instance: Instance) -> str | None:
        row = Leftover.objects.filter(pk=leftover.pk).first()
        if row is None or not is_left_over(row, instance):
            return None
        send_removal(row.host_id, instance)
        return f"Host {leftover.host.name} was asked to remove everything of the server."

    return of_instance(instance_id, work)
