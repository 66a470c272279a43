"""Servers as a kind of subjects: the handlers of their commands, and the work between commands."""

import logging
from collections.abc import Callable, Iterable
from typing import Any

from compute_agent.contract.build import InstanceSpec
from compute_agent.contract.messages import SERVER
from compute_agent.engine.handlers import SubjectKind
from compute_agent.engine.outbox import Outbox
from compute_agent.engine.store import StateStore, SubjectRecord
from compute_agent.engine.subjects import Subject
from compute_agent.servers.base import ServerHandler
from compute_agent.servers.build import Build, Rebuild
from compute_agent.servers.guest_disks import ExtendFileSystem, MountDisk, Trim
from compute_agent.servers.interfaces import AttachInterface, DetachInterface, RefreshPorts
from compute_agent.servers.migration import Keep, Receive, Send
from compute_agent.servers.moves import ReceiveGuest, ReturnGuest, SendGuest
from compute_agent.servers.power import CrashDump, Password, Power
from compute_agent.servers.power_tracker import PowerTracker
from compute_agent.servers.records import ServerRecords
from compute_agent.servers.removal import Destroy, Removal
from compute_agent.servers.rescue import Rescue, Unrescue
from compute_agent.servers.resize import ConfirmResize, Resize, RevertResize
from compute_agent.servers.services import HostServices
from compute_agent.servers.snapshot import Snapshot
from compute_agent.servers.volumes import AttachVolume, DetachVolume, RefreshVolume, SwapVolume
from compute_agent.virt.driver import Guest

log = logging.getLogger(__name__)

HANDLERS: tuple[type[ServerHandler[Any]], ...] = (
    AttachInterface,
    AttachVolume,
    Build,
    ConfirmResize,
    CrashDump,
    Destroy,
    DetachInterface,
    DetachVolume,
    ExtendFileSystem,
    Keep,
    MountDisk,
    Password,
    Power,
    Rebuild,
    Receive,
    ReceiveGuest,
    RefreshPorts,
    RefreshVolume,
    Rescue,
    Resize,
    ReturnGuest,
    RevertResize,
    Send,
    SendGuest,
    Snapshot,
    SwapVolume,
    Trim,
    Unrescue,
)
"""The handlers of all commands for servers; each class names the type of the command's body."""


def by_body(handlers: Iterable[type[ServerHandler[Any]]]) -> dict[type, type[ServerHandler[Any]]]:
    """Return type of a command's body → handler. Raises TypeError if two handlers have the same type."""
    result: dict[type, type[ServerHandler[Any]]] = {}
    for handler in handlers:
        if result.setdefault(handler.body, handler) is not handler:
            raise TypeError(f"There are two handlers of {handler.body.__name__}.")
    return result


class Servers(SubjectKind):
    """The servers of one host."""

    kind = SERVER

    def __init__(self, host: HostServices, store: StateStore, outbox: Outbox, busy: Callable[[Subject], bool]) -> None:
        """``busy`` returns whether a command for the subject is running or waiting."""
        self.records = ServerRecords(store)
        self.powers = PowerTracker(outbox, lambda uuid: busy(Subject(SERVER, uuid)))
        self.handlers = {body: handler(host, self.records, self.powers) for body, handler in by_body(HANDLERS).items()}
        self._host = host
        self._store = store

    def load(self, guests: Iterable[Guest]) -> list[InstanceSpec]:
        """Load the guests of the hypervisor, and return the specs whose network must be restored."""
        here = {guest.uuid: guest for guest in guests}
        for guest in here.values():
            self._store.adopt(Subject(SERVER, guest.uuid), guest.attempt)
        self.powers.load(here.values())
        specs = self.records.specs() | self.records.being_attached()
        for uuid in here.keys() - specs.keys():
            log.warning("Server %s is here, but its description is lost; its network is not restored.", uuid)
        return [spec for uuid, spec in specs.items() if uuid in here]

    def settled(self, subject_id: str) -> None:
        self.powers.settle(subject_id)

    async def sweep(self, record: SubjectRecord) -> bool:
        # The server may be on another host, with its root disk; the portal orders the removal of what then remains.
        removal = Removal(self._host, record.subject.id, record.generation, keep_root=True)
        await removal.all()
        if removal.complete:
            self.powers.forget(record.subject.id)
        return removal.complete
