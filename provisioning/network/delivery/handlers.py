"""Networks, routers, floating IPs and security groups as subjects of hosts: what follows from how commands end."""

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from compute_agent.contract.messages import AgentEvent
from compute_agent.contract.network import FLOATING_IP, NETWORK, ROUTER, SECURITY_GROUP
from provisioning.hosts.models import HostCommand
from provisioning.hosts.subjects import Reported, Subject, SubjectHandler, register
from provisioning.network.announcements import announce
from provisioning.network.delivery import sending
from provisioning.network.marks import HOST, mark
from provisioning.network.models import Delivery, FloatingIP, Network, Router, SecurityGroup

Told = list[Delivery]
"""What hosts were told of one subject."""


class DocumentHandler(SubjectHandler[Told]):
    """What is the same for the four kinds."""

    model: ClassVar[type[Any]]
    says = True
    """Whether the records say how their hosts are."""

    def load(self, ids: Collection[uuid.UUID]) -> Mapping[uuid.UUID, Told]:
        found: defaultdict[uuid.UUID, Told] = defaultdict(list)
        for row in sending.lock(self.kind, ids):
            found[row.subject_id].append(row)
        return found

    def take_steps(self, subject: Told, steps: Sequence[Reported]) -> None:
        """Nobody watches the steps."""

    def take_life(self, subject: Told, command: HostCommand, until: datetime) -> None:
        """Nothing waits for it until then."""

    def take_end(self, subject: Told, event: AgentEvent, command: HostCommand) -> None:
        row = next((row for row in subject if row.host_id == command.host_id), None)
        if row is None:
            return
        failed = event.kind == "failed" and event.error_code != "superseded"
        error = event.message or event.error_code if failed else ""
        if sending.ended(row, command, error=error):
            mark(self.kind, [row.subject_id])
        elif failed:
            row.digest = "?"
            row.save(update_fields=["digest"])
        self.note(row.subject_id, [each for each in subject if each.digest])
        if not row.digest and not self.model._base_manager.filter(pk=row.subject_id).exists():
            row.delete()

    def note(self, subject_id: uuid.UUID, told: Told) -> None:
        """Write down at the record whether its hosts are as they were told."""
        if not self.says:
            return
        error = next((row.error for row in told if row.error), "")
        status = "ERROR" if error else self.status(told)
        rows: Any = self.model._base_manager.filter(pk=subject_id)
        for row in rows.exclude(status=status, error=error):
            rows.update(status=status, error=error)
            announce(row)

    def status(self, told: Told) -> str:
        """Return the status of a record whose hosts have not failed."""
        return "ACTIVE"

    def owned_by(self, host_id: uuid.UUID) -> Iterable[Subject]:
        rows = Delivery.objects.filter(host_id=host_id, kind=self.kind).exclude(digest="")
        return [
            Subject(self.kind, key, generation)
            for key, generation in rows.order_by("subject_id").values_list("subject_id", "generation")
        ]

    def compare_documents(self, host_id: uuid.UUID, known: Mapping[uuid.UUID, int]) -> None:
        rows = Delivery.objects.select_for_update().filter(host_id=host_id, kind=self.kind)
        for row in rows.order_by("subject_id"):
            if not sending.as_told(row, known):
                sending.tell_again(row)
                mark(self.kind, [row.subject_id])


class NetworkHandler(DocumentHandler):
    """Networks, and what hosts need altogether."""

    kind = NETWORK
    model = Network

    def compare_documents(self, host_id: uuid.UUID, known: Mapping[uuid.UUID, int]) -> None:
        super().compare_documents(host_id, known)
        mark(HOST, [host_id])

    def moved(self, host_id: uuid.UUID) -> None:
        told = Delivery.objects.filter(host_id=host_id, kind=self.kind).exclude(digest="")
        mark(self.kind, told.values_list("subject_id", flat=True))


class RouterHandler(DocumentHandler):
    """Routers: ACTIVE, or ERROR while a host could not be brought to one."""

    kind = ROUTER
    model = Router


class FloatingIpHandler(DocumentHandler):
    """Floating IPs: ACTIVE while a host bears them."""

    kind = FLOATING_IP
    model = FloatingIP

    def status(self, told: Told) -> str:
        return "ACTIVE" if any(row.command_id is None for row in told) else "DOWN"


class SecurityGroupHandler(DocumentHandler):
    """Security groups: they have no status, so that what hosts say of them is not kept."""

    kind = SECURITY_GROUP
    model = SecurityGroup
    says = False


for _handler in (SecurityGroupHandler(), NetworkHandler(), RouterHandler(), FloatingIpHandler()):
    register(_handler)
