"""Servers as subjects of hosts' reports."""

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from django.db.models import UUIDField

from compute_agent.contract.cpu import RunningCpu
from compute_agent.contract.messages import SERVER, AgentEvent, GuestState
from provisioning.common.database.lookups import Among, Ids
from provisioning.common.database.prepared import Prepared
from provisioning.common.values.ids import read_id
from provisioning.compute.host_link import volume_commands
from provisioning.compute.inbound import reports
from provisioning.compute.models import Instance, MoveAllocation
from provisioning.compute.records.migration_records import OPEN
from provisioning.compute.state_machine import state
from provisioning.compute.states import VmState
from provisioning.compute.upkeep import kept_interfaces, leftovers, moved_disks, reconcile, strange_disks
from provisioning.cpus.services import by_guest, record
from provisioning.hosts.models import HostCommand, Leftover
from provisioning.hosts.subjects import Reported, Subject, SubjectHandler

_THERE = Prepared(lambda ids: Instance.objects.filter(Among("id", ids)).values_list("id", flat=True), ids=Ids())
_ONE = Prepared(lambda key: Instance.objects.select_related("host").filter(id=key), key=UUIDField())


class ServerHandler(SubjectHandler[Instance]):
    """Processes the hosts' reports about servers."""

    kind = SERVER

    def load(self, ids: Collection[uuid.UUID]) -> Mapping[uuid.UUID, Instance]:
        state.lock(ids)
        if len(ids) == 1:
            return {row.id: row for key in ids for row in _ONE(key=key)}
        return {row.id: row for row in Instance.objects.select_related("host").filter(id__in=ids)}

    def record_steps(self, subject: Instance, steps: Sequence[Reported]) -> None:
        reports.record_steps(subject, steps)

    def heartbeat(self, subject: Instance, command: HostCommand, until: datetime) -> None:
        reports.heartbeat(subject, command, until)

    def heartbeat_beside(self, subject: Instance, command: HostCommand, until: datetime) -> None:
        volume_commands.goes_on(command, until)

    def record_progress(self, subject: Instance, event: AgentEvent, command: HostCommand) -> None:
        reports.record_progress(subject, event, command)

    def process_end(self, subject: Instance, event: AgentEvent, command: HostCommand) -> None:
        reports.process_end(subject, event, command)

    def process_change(self, host_id: uuid.UUID, subject: Instance, event: AgentEvent) -> None:
        if event.kind == "posted":
            reports.store_password(host_id, subject, event)
        elif event.kind == "lease":
            reports.record_lease(host_id, subject, event)
        else:
            reports.record_power(host_id, subject, event)

    def owned_by(self, host_id: uuid.UUID) -> Iterable[Subject]:
        """Return the servers of a host, including servers that are being deleted, and servers of which it is the second
        host in a move; without deleted servers that only wait for the host's confirmation.
        """
        rows = Instance.objects.filter(host_id=host_id).exclude(vm_state=VmState.DELETED).order_by("id")
        seconds = MoveAllocation.objects.filter(host_id=host_id, migration__status__in=OPEN).order_by("instance_id")
        result = [*rows.values_list("id", "attempt"), *seconds.values_list("instance_id", "attempt")]
        return [Subject(SERVER, key, attempt) for key, attempt in result]

    def compare(self, host_id: uuid.UUID, guests: Sequence[GuestState], *, complete: bool) -> None:
        reconcile.compare(host_id, guests, complete=complete)
        moved_disks.follow(host_id, guests, complete=complete)
        strange_disks.send_detachments(host_id, guests, complete=complete)
        kept_interfaces.compare(host_id, guests, complete=complete)

    def record_cpus(self, host_id: uuid.UUID, cpus: Sequence[RunningCpu]) -> None:
        guests = by_guest(cpus)
        here = Instance.objects.filter(host_id=host_id, id__in=guests).values_list("id", flat=True)
        record(host_id, {key: guests[key] for key in here})

    def unknown(self, guests: Sequence[GuestState]) -> Iterable[uuid.UUID]:
        ids = {parsed for guest in guests if (parsed := read_id(guest.instance_id)) is not None}
        return ids - set(_THERE(ids=ids))

    def clear(self, host_id: uuid.UUID, rows: Sequence[Leftover]) -> None:
        leftovers.clear(host_id, rows)
