"""Servers as a kind of subjects: the handlers of their commands, and the work between commands."""

import logging
from collections.abc import Callable, Iterable
from importlib import import_module
from pkgutil import iter_modules

from compute_agent import servers
from compute_agent.contract.build import InstanceSpec
from compute_agent.contract.messages import SERVER
from compute_agent.engine.handlers import SubjectKind
from compute_agent.engine.outbox import Outbox
from compute_agent.engine.store import StateStore, SubjectRecord
from compute_agent.engine.subjects import Subject
from compute_agent.servers.base import HANDLERS
from compute_agent.servers.power_tracker import PowerTracker
from compute_agent.servers.records import ServerRecords
from compute_agent.servers.removal import Removal
from compute_agent.servers.services import HostServices
from compute_agent.virt.driver import Guest

log = logging.getLogger(__name__)

for _module in iter_modules(servers.__path__):  # handlers register themselves when their module is imported
    import_module(f"{servers.__name__}.{_module.name}")


class Servers(SubjectKind):
    """The servers of one host."""

    kind = SERVER

    def __init__(self, host: HostServices, store: StateStore, outbox: Outbox, busy: Callable[[Subject], bool]) -> None:
        """``busy`` returns whether a command for the subject is running or waiting."""
        self.records = ServerRecords(store)
        self.powers = PowerTracker(outbox, lambda uuid: busy(Subject(SERVER, uuid)))
        self.handlers = {body: handler(host, self.records, self.powers) for body, handler in HANDLERS.items()}
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
        removal = Removal(self._host, record.subject.id, record.generation)
        await removal.all()
        if removal.complete:
            self.powers.forget(record.subject.id)
        return removal.complete
