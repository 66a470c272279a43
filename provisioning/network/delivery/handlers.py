"""Handlers of networks, routers, floating IPs and security groups: process the results of hosts' commands."""

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from django.db.models import BigIntegerField, UUIDField

from compute_agent.contract.messages import AgentEvent, Owned
from compute_agent.contract.network import FLOATING_IP, NETWORK, ROUTER, SECURITY_GROUP
from provisioning.common.database.prepared import Prepared, PreparedDelete
from provisioning.hosts.models import HostCommand
from provisioning.hosts.subjects import Reported, Subject, SubjectHandler, newest_of
from provisioning.network.delivery import comparing, conditions, sending
from provisioning.network.models import Delivery, FloatingIP, Network, Router, SecurityGroup
from provisioning.network.records.marks import HOST, mark

Told = list[Delivery]
"""The deliveries of one subject."""
NEWER = "A host has a newer version than the records. The version of the records is sent again."


class DocumentHandler(SubjectHandler[Told]):
    """Base class of the four handlers."""

    model: ClassVar[type[Any]]

    def load(self, ids: Collection[uuid.UUID]) -> Mapping[uuid.UUID, Told]:
        result: defaultdict[uuid.UUID, Told] = defaultdict(list)
        for row in sending.lock(self.kind, ids):
            result[row.subject_id].append(row)
        return result

    def record_steps(self, subject: Told, steps: Sequence[Reported]) -> None:
        """Steps of these commands are not recorded."""

    def heartbeat(self, subject: Told, command: HostCommand, until: datetime) -> None:
        """These commands have no deadline."""

    def process_end(self, subject: Told, event: AgentEvent, command: HostCommand) -> None:
        row = next((row for row in subject if row.host_id == command.host_id), None)
        if row is None:
            return
        failed = event.kind == "failed"
        reason = event.message or event.error_code if failed else ""
        if failed and event.error_code == "superseded":
            again = sending.refused(row, command, newest_of(event), NEWER)
        elif not (again := sending.ended(row, command, error=reason)) and failed:
            row.digest = sending.UNKNOWN
            row.save(update_fields=["digest"])
        if again:
            mark(self.kind, [row.subject_id])
        conditions.note(self.kind, row.subject_id, subject)
        if not row.digest and not _THERE[self.kind](key=row.subject_id):
            _FORGET(id=row.id)

    def owned_by(self, host_id: uuid.UUID) -> Iterable[Subject]:
        rows = Delivery.objects.filter(host_id=host_id, kind=self.kind).exclude(digest="")
        return [
            Subject(self.kind, key, generation)
            for key, generation in rows.order_by("subject_id").values_list("subject_id", "generation")
        ]

    def compare_documents(self, host_id: uuid.UUID, reported: Mapping[uuid.UUID, Owned], *, complete: bool) -> None:
        comparing.compare(self.kind, host_id, reported, complete=complete)


class NetworkHandler(DocumentHandler):
    """Processes the reports about documents of networks. A ``Hello`` also marks the host, so that the host gets
    everything that it needs.
    """

    kind = NETWORK
    model = Network

    def compare_documents(self, host_id: uuid.UUID, reported: Mapping[uuid.UUID, Owned], *, complete: bool) -> None:
        super().compare_documents(host_id, reported, complete=complete)
        if complete:
            mark(HOST, [host_id])

    def moved(self, host_id: uuid.UUID) -> None:
        sent = Delivery.objects.filter(host_id=host_id, kind=self.kind).exclude(digest="")
        mark(self.kind, sent.values_list("subject_id", flat=True))


class RouterHandler(DocumentHandler):
    """Processes the reports about documents of routers."""

    kind = ROUTER
    model = Router


class FloatingIpHandler(DocumentHandler):
    """Processes the reports about documents of floating IPs."""

    kind = FLOATING_IP
    model = FloatingIP


class SecurityGroupHandler(DocumentHandler):
    """Processes the reports about documents of security groups."""

    kind = SECURITY_GROUP
    model = SecurityGroup


_THERE = {
    each.kind: Prepared(
        lambda key, model=each.model: model._base_manager.filter(pk=key).values_list("pk"), key=UUIDField()
    )
    for each in (NetworkHandler, RouterHandler, FloatingIpHandler, SecurityGroupHandler)
}
_FORGET = PreparedDelete(lambda id: Delivery.objects.filter(id=id), id=BigIntegerField())  # noqa: A006 - the column's name
