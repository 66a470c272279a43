"""Findings as rows: the resource that each is about, with its name and its page."""

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Model
from django.urls import reverse

from portal.common.statuses import Status
from provisioning.common.context import RequestContext
from provisioning.common.values.ids import read_id
from provisioning.compute.models import Instance
from provisioning.compute.states import VmState
from provisioning.doctor.finding import Finding
from provisioning.doctor.models import DoctorRun
from provisioning.hosts.models import Host
from provisioning.identity import policy
from provisioning.images.models import Image
from provisioning.network.models import FloatingIP, Network, Port, Router, SecurityGroup, Subnet
from provisioning.volumes.models import Backup, Snapshot, StoragePool, Volume

KINDS: Mapping[str, type[Model]] = {
    "instance": Instance,
    "volume": Volume,
    "snapshot": Snapshot,
    "backup": Backup,
    "image": Image,
    "network": Network,
    "subnet": Subnet,
    "port": Port,
    "router": Router,
    "floating IP": FloatingIP,
    "security group": SecurityGroup,
}
"""First words of a finding's subject → the model of the id that follows."""
WORK = "#work"
"""The part of the page about workers, the queue and periodic work."""
_OF_WORK = re.compile(r"(workers|queue|periodic work)\b")
SEVERITY = {
    "error": Status("Error", "bad", "exclamation-octagon-fill"),
    "warning": Status("Warning", "warn", "exclamation-triangle-fill"),
}


@dataclass(frozen=True, slots=True)
class Trouble:
    """A finding about a part of the cloud: the part's kind, its name, and the address of its page (empty if it has no
    page).
    """

    severity: Status
    kind: str
    name: str
    address: str
    sentence: str


def troubles_of(
    context: RequestContext, findings: Sequence[Finding], examined: DoctorRun | None = None
) -> list[Trouble]:
    """Return the findings with their things, with one query for each kind among them."""
    known = _Subjects(findings)
    admin = policy.allows(context, "novella:admin")
    result = []
    for each in findings:
        kind, name, address = known.thing(each.subject)
        if not address:
            report = ("admin:doctor_doctorrun_change", [examined.pk]) if examined else None
            address = reverse(report[0], args=report[1]) if report else reverse("admin:doctor_doctorrun_changelist")
        if not admin and address.startswith(reverse("admin:index")):
            address = ""
        result.append(Trouble(SEVERITY[each.severity], kind, name, address, each.sentence))
    return result


class _Subjects:
    """The resources that the subjects of findings name."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        subjects = {each.subject for each in findings}
        ids: dict[str, set[uuid.UUID]] = {}
        for subject in subjects:
            kind, _, text = subject.rpartition(" ")
            key = read_id(text) if kind in KINDS else None
            if key is not None:
                ids.setdefault(kind, set()).add(key)
        self._rows = {
            (kind, key): row
            for kind, keys in ids.items()
            for key, row in KINDS[kind]._default_manager.in_bulk(list(keys)).items()
        }
        named = {subject.partition(" ")[2] for subject in subjects if subject.startswith(("host ", "agent "))}
        self._hosts = dict(Host.objects.filter(name__in=named).values_list("name", "id")) if named else {}
        pools = {subject.removeprefix("pool ") for subject in subjects if subject.startswith("pool ")}
        self._pools = dict(StoragePool.objects.filter(name__in=pools).values_list("name", "id")) if pools else {}

    def thing(self, subject: str) -> tuple[str, str, str]:
        """Return the kind, the name and the page of a finding's subject; no page: the subject is only in the report."""
        kind, _, name = subject.partition(" ")
        if kind in {"host", "agent"}:
            key = self._hosts.get(name)
            refused = f"{reverse('dashboard:hosts')}#refused" if kind == "agent" else ""
            return kind, name, reverse("dashboard:host", args=[key]) if key else refused
        if kind == "pool":
            key = self._pools.get(name)
            return kind, name, reverse("dashboard:pool", args=[key]) if key else ""
        if subject == "webhook":
            return "", subject, reverse("admin:notifications_delivery_changelist")
        if _OF_WORK.match(subject):
            return "", subject, WORK
        kind, _, text = subject.rpartition(" ")
        row = self._rows.get((kind, read_id(text))) if kind in KINDS else None
        return ("", subject, "") if row is None else (kind, str(row), page_of(row))


def page_of(row: Model) -> str:
    """Return the address of a record's page for operators: of an instance in the dashboard, unless it is deleted."""
    if isinstance(row, Instance) and row.vm_state != VmState.DELETED:
        return reverse("dashboard:instance", args=[row.pk])
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])
