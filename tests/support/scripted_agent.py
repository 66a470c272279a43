"""A stand-in for a host's agent without a socket: takes commands from the records and reports to the inbox."""

from __future__ import annotations

import hashlib
import itertools
import secrets
import time
import uuid
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass, field
from typing import Any, ClassVar
from unittest import mock

import msgspec
from django.conf import settings
from django.db import connection
from django.utils import timezone

from compute_agent.contract.build import InstanceSpec
from compute_agent.contract.commands import (
    AttachInterfaceRequest,
    BuildRequest,
    CommandBody,
    DestroyRequest,
    DetachInterfaceRequest,
    PowerRequest,
    RebuildRequest,
    ReceiveGuestRequest,
    RescueRequest,
    ResizeRequest,
    ReturnGuestRequest,
    RevertResizeRequest,
    SendGuestRequest,
    SnapshotRequest,
    UnrescueRequest,
    spec_of,
)
from compute_agent.contract.hardware import every_trait
from compute_agent.contract.messages import (
    CONTRACT_VERSION,
    DOCUMENTS,
    SERVER,
    AgentEvent,
    Command,
    Enrol,
    GuestState,
    Hello,
    Leftover,
    Owned,
    ResourceAudit,
)
from compute_agent.contract.migration import (
    ADDRESS,
    PORT,
    RECEIVER_TRAIT,
    KeepLiveRequest,
    ReceiveLiveRequest,
    SendLiveRequest,
)
from compute_agent.contract.moves import ORIGIN, GuestOrigin, SentDisk
from compute_agent.contract.network import ForgetRequest
from compute_agent.contract.power import PowerState
from compute_agent.contract.steps import BUILD_STEPS, COPY_DISK, LISTEN
from compute_agent.contract.volume import (
    VOLUME,
    VOLUME_COPY,
    BackupVolumeRequest,
    RestoreVolumeRequest,
    UploadVolumeRequest,
)
from compute_agent.network.state.documents import vni_of
from compute_agent.servers.audit import with_interfaces
from compute_agent.virt.errors import HostError
from compute_agent.virt.fake import state
from provisioning.common.context import cloud_in_project
from provisioning.common.errors import NovellaError
from provisioning.compute.disks.snapshot_images import is_ready
from provisioning.compute.host_link import firmware_states, image_transfers
from provisioning.hosts import audits, commands, enrolment, liveness, notifications, reports, versions
from provisioning.hosts.models import Host
from provisioning.images import services as images
from provisioning.volumes.host_link import image_transfers as volume_images
from tests.support.backup_host import BackupHost
from tests.support.remembered_volumes import RememberedVolumes
from tests.support.scripted_pool import ScriptedPool

MOVES_OF_GUESTS = (SendGuestRequest, ReceiveGuestRequest, ReceiveLiveRequest, SendLiveRequest, KeepLiveRequest)


@dataclass
class ScriptedAgent:
    """One host.  ``guests`` is its hypervisor: attempt and power state by instance."""

    host: Host
    guests: dict[str, tuple[int, PowerState]] = field(default_factory=dict)
    fences: dict[str, int] = field(default_factory=dict)
    sent: list[AgentEvent] = field(default_factory=list)
    left: list[Leftover] | None = None
    """What its audits say is left over; None: nothing is said of it."""
    seq: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    awaited: ClassVar[dict[str, tuple[ScriptedAgent, Command]]] = {}
    """Guest → the host that waits for it, and the command to do so."""
    addresses: ClassVar = itertools.count()
    """Of hosts that serve volumes: others reach them."""
    in_batches: ClassVar = True
    """Whether a build that goes well reports its steps together, as an agent does whose link was busy."""

    pools: dict[str, ScriptedPool] = field(default_factory=dict)
    """The pools of volumes that it serves, by their ids."""
    backups: BackupHost | None = None
    """Its hand for backups; None: they are said to be done without data."""
    failing: dict[str, str] = field(default_factory=dict)
    """Kind of command about a volume → why the next one fails."""
    documents: dict[tuple[str, str], tuple[int, Any]] = field(default_factory=dict)
    """What it was told of networks and the like: kind and id → generation and document."""
    digests: dict[tuple[str, str], str] = field(default_factory=dict)
    """The digests of the documents, by kind and id."""
    memory: RememberedVolumes = field(default_factory=RememberedVolumes)
    """Changes of volumes that it has seen, by the agent's own code."""
    specs: dict[str, InstanceSpec] | None = None
    """What its guests are made of, by instance, once it is to tell of their interfaces; None: it does not."""
    macs: dict[str, list[str]] = field(default_factory=dict)
    """The hardware addresses of those guests."""
    firmware: dict[str, bytes] = field(default_factory=dict)
    """The packed firmware states of its guests, by instance, once they were sent or brought."""
    used: set[tuple[str, str]] = field(default_factory=set)
    """Kind and id of the networks and groups that its guests need."""

    @classmethod
    def join(
        cls,
        name: str,
        *,
        vcpus: int = 8,
        memory_mb: int = 8192,
        disk_gb: int = 100,
        zone: str = "nova",
        documents: bool = False,
    ) -> ScriptedAgent:
        """Enrol a new host with this capacity and nothing reserved; ``documents``: it is told of networks, too.

        The services write the first one of a kind; later ones get its row, with a name and a credential of their own.
        """
        ratios = settings.RAM_ALLOCATION_RATIO, settings.DISK_ALLOCATION_RATIO, settings.RESERVED_HOST_DISK_GB
        kind = connection.vendor, vcpus, memory_mb, disk_gb, documents, *ratios
        if kind in _joined and not Host.objects.filter(name=name).exists():
            host = copy(_joined[kind])
            host.id, host.name, host.hypervisor_hostname, host.availability_zone = uuid.uuid4(), name, name, zone
            host.credential_digest, host.last_seen_at = secrets.token_hex(32), timezone.now()
            host.save(force_insert=True)
            notifications.notify(host, "create")
            return cls(host)
        agent = cls._make(name, zone, vcpus, memory_mb, disk_gb, documents=documents)
        _joined[kind] = copy(agent.host)
        return agent

    @classmethod
    def _make(cls, name: str, zone: str, vcpus: int, memory_mb: int, disk_gb: int, *, documents: bool) -> ScriptedAgent:
        token = enrolment.create_join_token(name)
        host = enrolment.enrol(Enrol(join_token=token, host=name, credential=secrets.token_hex(32)))
        Host.objects.filter(id=host.id).update(reserved_memory_mb=0, cpu_allocation_ratio=1.0, availability_zone=zone)
        agent = cls(host)
        # Thousands of tests begin with a host, and a new one has nothing that could be compared with the records.
        with mock.patch.object(liveness, "compare"), mock.patch.object(audits, "compare"):
            liveness.connected(host.id, Hello(host=name))
            audits.audit(host.id, agent.audit(vcpus, memory_mb, disk_gb))
        Host.objects.filter(id=host.id).update(contract_version=CONTRACT_VERSION if documents else DOCUMENTS - 1)
        agent.host = Host.objects.get(id=host.id)
        return agent

    def audit(self, vcpus: int, memory_mb: int, disk_gb: int) -> ResourceAudit:
        return ResourceAudit(
            vcpus=vcpus,
            memory_mb=memory_mb,
            disk_gb=disk_gb,
            memory_mb_used=0,
            disk_gb_used=0,
            vcpus_used=0,
            running_vms=len(self.guests),
            hypervisor_type="fake",
            hypervisor_version=1,
            hypervisor_hostname=self.host.name,
            guests=self.states(),
            leftovers=self.left,
            host_ip=self.host.host_ip,
            pools=[pool.state() for pool in self.pools.values()] or None,
            traits=[*every_trait(), RECEIVER_TRAIT],
        )

    def measured(self, **values: Any) -> None:
        """Send another audit; ``values``: what it says besides."""
        host = Host.objects.get(id=self.host.id)
        report = self.audit(host.vcpus_total, host.memory_mb_total, host.disk_gb_total)
        audits.audit(host.id, msgspec.structs.replace(report, **values))

    def states(self) -> list[GuestState]:
        states = [
            GuestState(instance_id=key, attempt=value[0], power_state=value[1]) for key, value in self.guests.items()
        ]
        if self.specs is None:
            return states
        return with_interfaces(states, self.macs, self.specs)

    def _describe(self, key: str, body: CommandBody) -> None:
        """Keep what a guest is made of, as an agent does: no interface goes but by the command to take it out."""
        spec = spec_of(body)
        if self.specs is None or spec is None:
            return
        macs = self.macs.get(key, [])
        match body:
            case BuildRequest() | ReceiveGuestRequest() | RebuildRequest():
                macs = [port.mac_address for port in spec.ports]
            case AttachInterfaceRequest(port=port):
                macs = [*macs, port.mac_address]
            case DetachInterfaceRequest(port=port):
                macs = [mac for mac in macs if mac != port.mac_address]
        known = self.specs[key].ports if key in self.specs else []
        kept = [port for port in known if port.mac_address in macs]
        kept = [port for port in kept if port.id not in {each.id for each in spec.ports}]
        self.specs[key], self.macs[key] = msgspec.structs.replace(spec, ports=[*spec.ports, *kept]), macs

    def hello(self, **values: Any) -> None:
        """Come back: say which guests there are."""
        liveness.connected(self.host.id, Hello(host=self.host.name, guests=self.states(), **values))
        if not values.keys() & {"documents", "contract"}:  # as ``join`` has it
            Host.objects.filter(id=self.host.id).update(contract_version=self.host.contract_version)

    def listed(self) -> list[Owned]:
        """List the documents as an agent does in ``Hello`` and in audits."""
        return [
            Owned(
                subject_kind=kind,
                subject_id=key,
                generation=generation,
                digest=self.digests.get((kind, key), ""),
                in_use=(kind, key) in self.used,
                vni=vni_of(document),
            )
            for (kind, key), (generation, document) in self.documents.items()
        ]

    def take(self, *, acknowledge: bool = True, begin: bool = True) -> list[Command]:
        """Receive what was commanded and not acknowledged, and ``begin`` to carry it out."""
        # A host that is told of no networks is recorded with an older contract, but carries out everything.
        older = self.host.contract_version < DOCUMENTS
        waiting = commands.pending(self.host.id) if older else versions.commands_for(self.host.id)
        if acknowledge:
            commands.acknowledge(self.host.id, [command.id for command in waiting])
            if begin:
                self._send(*(self._event(command, "begun") for command in waiting))
        return waiting

    def work(self) -> int:
        """Carry out everything that is commanded, well; returns how many commands there were."""
        done = 0
        while waiting := self.take(begin=False):
            for command in waiting:
                self.carry_out(command)
                done += 1
        return done

    def carry_out(self, command: Command) -> None:
        """Carry out one command as a host does: fenced by attempts, with a report for each step and one for the end."""
        key = command.subject_id
        if command.generation < self.fences.get(key, 0):
            self.report_superseded(command)
            return
        self.fences[key] = command.generation
        self._describe(key, command.body)
        match command.body:
            case BuildRequest() as body:
                self._build(command, body)
            case DestroyRequest():
                self.guests.pop(key, None)
                self.firmware.pop(key, None)
                self.report(command, "finished", power_state=PowerState.NOSTATE)
            case SnapshotRequest() as body:
                self._snapshot(command, body)
            case body if isinstance(body, MOVES_OF_GUESTS):
                self.migrate(command)
            case ForgetRequest():
                self.documents.pop((command.subject_kind, key), None)
                self.report(command, "finished")
            case body if command.subject_kind in (VOLUME, VOLUME_COPY):
                self.carry_out_of_volume(command, body)
            case body if command.subject_kind != SERVER:
                document = getattr(body, command.subject_kind)
                self.documents[command.subject_kind, key] = (command.generation, document)
                self.digests[command.subject_kind, key] = body.digest
                self.report(command, "finished")
            case body:
                self._finish(command, body)

    def _build(self, command: Command, body: BuildRequest) -> None:
        key = command.subject_id
        if self.in_batches:
            self._send(*self._steps(command))
        else:
            self.steps(command)
        if body.firmware_state:
            self.firmware[key] = firmware_states.packed_state(self.host.id, uuid.UUID(key), body.firmware_state)
        power = PowerState.RUNNING if body.start else PowerState.SHUTDOWN
        self.guests[key] = (command.generation, power)
        self.report(command, "finished", power_state=power)

    def _send_guest(self, command: Command, body: SendGuestRequest) -> None:
        key = command.subject_id
        if body.firmware_state:
            self.send_firmware(command)
        self.guests[key] = (self.guests[key][0], PowerState.SHUTDOWN)
        origin = GuestOrigin(disks=[SentDisk(name="root", size=1 << 20)], base="sha512-ab", port=10_900)
        detail = {ORIGIN: msgspec.json.encode(origin).decode()}
        self.report(command, "finished", power_state=PowerState.SHUTDOWN, detail=detail)

    def _receive(self, command: Command, body: ReceiveGuestRequest) -> None:
        key = command.subject_id
        if body.firmware_state:
            self.firmware[key] = firmware_states.packed_state(self.host.id, uuid.UUID(key), body.firmware_state)
        power = PowerState.RUNNING if body.start else PowerState.SHUTDOWN
        self.guests[key] = (command.generation, power)
        self.report(command, "finished", power_state=power)

    def migrate(self, command: Command) -> None:
        """Carry out a command of a move to another host."""
        match command.body:
            case SendGuestRequest() as body:
                self._send_guest(command, body)
            case ReceiveGuestRequest() as body:
                self._receive(command, body)
            case ReceiveLiveRequest():
                self.listens(command)
            case SendLiveRequest():
                self.departs(command)
            case _:
                self.guests[command.subject_id] = (self.guests[command.subject_id][0], PowerState.RUNNING)
                self.report(command, "finished", power_state=PowerState.RUNNING)

    def listens(self, command: Command, port: int = 11832) -> None:
        """Report that a guest can be sent here."""
        self.awaited[command.subject_id] = (self, command)
        now, where = time.time(), {ADDRESS: self.host.host_ip, PORT: str(port)}
        self.report(command, "step", step=LISTEN, started_at=now, finished_at=now, detail=where)

    def departs(self, command: Command) -> None:
        """Send a guest to the host that waits for it; both report the end, the receiver first."""
        key = command.subject_id
        target, receive = self.awaited.pop(key)
        power = self.guests[key][1]
        target.guests[key] = (receive.generation, power)
        target.report(receive, "finished", power_state=power)
        self.guests[key] = (self.guests[key][0], PowerState.SHUTDOWN)
        self.report(command, "finished", power_state=PowerState.NOSTATE)

    def _snapshot(self, command: Command, body: SnapshotRequest) -> None:
        try:
            if body.image_id:
                self.copied(command)
                self.send(command, body)
            if body.firmware_state:
                self.send_firmware(command)
        except NovellaError as error:
            self.report(command, "failed", error_code="upload_failed", message=error.message)
            return
        self._finish(command, body)

    def _finish(self, command: Command, body: CommandBody) -> None:
        key = command.subject_id
        power = power_after(body, self.guests.get(key, (0, PowerState.NOSTATE))[1])
        self.guests[key] = (command.generation, power)
        self.report(command, "finished", power_state=power)

    def report_superseded(self, command: Command) -> None:
        newest = {"generation": str(self.fences[command.subject_id])}
        self.report(command, "failed", error_code="superseded", message="A newer command was seen.", detail=newest)

    def serve(self, *pools: ScriptedPool) -> ScriptedPool:
        """Serve these pools from now on, or one of its own; returns the first."""
        for pool in pools or (ScriptedPool(),):
            self.pools[pool.id] = pool
        self.host.host_ip = self.host.host_ip or f"198.51.100.{next(self.addresses) % 250 + 1}"
        self.measured()
        return next(iter(self.pools.values()))

    def carry_out_of_volume(self, command: Command, body: Any) -> None:
        """Carry out a command about a volume, or fail it as ``failing`` says."""
        fenced = command.subject_kind == VOLUME
        known = self.memory.refuses(body) if fenced else None
        if known is not None:
            detail = {"known": msgspec.json.encode(known).decode()}
            self.report(command, "failed", error_code="superseded", message="A newer command was seen.", detail=detail)
            return
        if fenced:
            self.memory.begin(body)
        message = self.failing.pop(str(type(body).__struct_config__.tag), None)
        if message is not None:
            self.report(command, "failed", error_code="failed", message=message)
            return
        if self.backups is not None and isinstance(body, BackupVolumeRequest | RestoreVolumeRequest):
            self.carry_out_of_backup(command, body)
            return
        if isinstance(body, UploadVolumeRequest):
            image = volume_images.image_to_send(self.host.id, uuid.UUID(body.image_id), uuid.UUID(body.image_id))
            images.upload(cloud_in_project(image.project_id), image.id, [state.qcow2(body.volume.size_gb << 30)])
            self.report(command, "finished")
            return
        detail = self.pools[body.volume.pool_id].carry_out(body)
        if fenced:
            self.memory.end(command.subject_id, body)
        self.report(command, "finished", detail=detail)

    def carry_out_of_backup(self, command: Command, body: BackupVolumeRequest | RestoreVolumeRequest) -> None:
        """Carry out a backup or a restore by the agent's own code."""
        assert self.backups is not None
        try:
            detail = self.backups.carry_out(body)
        except (NovellaError, HostError) as error:
            self.report(command, "failed", error_code="failed", message=error.message)
        else:
            self.report(command, "finished", detail=detail)

    def steps(self, command: Command, upto: str = BUILD_STEPS[-1]) -> None:
        """Report the steps of a build up to one of them, each as soon as it is done."""
        for event in self._steps(command, upto):
            self._send(event)

    def _steps(self, command: Command, upto: str = BUILD_STEPS[-1]) -> Iterator[AgentEvent]:
        for step in BUILD_STEPS[: BUILD_STEPS.index(upto) + 1]:
            now = time.time()
            yield self._event(command, "step", step=step, started_at=now, finished_at=now)

    def copied(self, command: Command) -> None:
        """Report that the copy of a disk is made."""
        now = time.time()
        self.report(command, "step", step=COPY_DISK, started_at=now, finished_at=now)

    def send(self, command: Command, body: SnapshotRequest) -> None:
        """Send an empty disk as the data of the image that is wanted, as the agents' address takes it."""
        image = image_transfers.image_to_send(self.host.id, uuid.UUID(command.subject_id), uuid.UUID(body.image_id))
        if not is_ready(image.id):
            images.upload(cloud_in_project(image.project_id), image.id, [state.qcow2(1 << 30)])

    def send_firmware(self, command: Command) -> None:
        """Send the firmware state of the guest, as the agents' address takes it."""
        key = command.subject_id
        packed = self.firmware.setdefault(key, f"firmware of {key}".encode())
        firmware_states.store(self.host.id, uuid.UUID(key), hashlib.sha256(packed).hexdigest(), packed)

    def fail(self, command: Command, message: str, *, retryable: bool, after: str | None = None) -> None:
        """Report a build that failed in the step behind ``after`` and is undone."""
        if after is not None:
            self.steps(command, upto=after)
        self.guests.pop(command.subject_id, None)
        self.report(command, "failed", error_code="host_failed", message=message, retryable=retryable)

    def power(self, instance_id: uuid.UUID, state: PowerState) -> None:
        """A guest's power changes by itself."""
        attempt = self.guests[str(instance_id)][0]
        self.guests[str(instance_id)] = (attempt, state)
        self._send(
            AgentEvent(
                seq=next(self.seq),
                subject_kind=SERVER,
                subject_id=str(instance_id),
                generation=attempt,
                kind="power",
                power_state=state,
            )
        )

    def report(self, command: Command, kind: str, **values: object) -> None:
        self._send(self._event(command, kind, **values))

    def report_together(self, commands: Iterable[Command], kind: str, **values: object) -> None:
        """Report the same on several commands in one frame."""
        self._send(*(self._event(command, kind, **values) for command in commands))

    def _event(self, command: Command, kind: str, **values: object) -> AgentEvent:
        return AgentEvent(
            seq=next(self.seq),
            subject_kind=command.subject_kind,
            subject_id=command.subject_id,
            generation=command.generation,
            kind=kind,  # type: ignore[arg-type]
            command_id=command.id,
            **{"finished_at": time.time(), **values},  # type: ignore[arg-type]
        )

    def _send(self, *events: AgentEvent) -> None:
        self.sent += events
        reports.receive(self.host.id, events)

    def repeat_everything(self) -> None:
        """Send every report again, as after a lost acknowledgement."""
        reports.receive(self.host.id, self.sent)


_joined: dict[tuple[Any, ...], Host] = {}
"""The first host by all that its row depends on."""


def power_after(body: CommandBody, before: int) -> int:
    """The power state of a guest after a command that was carried out well."""
    match body:
        case PowerRequest(action="pause"):
            return PowerState.PAUSED
        case PowerRequest(action="stop" | "suspend") | SnapshotRequest(stop=True):
            return PowerState.SHUTDOWN
        case PowerRequest() | RescueRequest() | UnrescueRequest():
            return PowerState.RUNNING
        case ReturnGuestRequest(start=start):
            return PowerState.RUNNING if start else PowerState.SHUTDOWN
        case RebuildRequest(start=start) | ResizeRequest(start=start) | RevertResizeRequest(start=start):
            return PowerState.RUNNING if start else PowerState.SHUTDOWN
    return before
