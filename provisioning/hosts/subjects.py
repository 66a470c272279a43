"""The kinds of subjects of commands to hosts, each with a handler of its reports."""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from compute_agent.contract.cpu import RunningCpu
from compute_agent.contract.messages import AgentEvent, GuestState, Owned
from compute_agent.contract.volume import KnownVolume, PoolState
from provisioning.common.wired import Wired
from provisioning.hosts.models import HostCommand, Leftover

S = TypeVar("S")
MOST_DIGITS = 19
"""Numbers with this many digits may not fit into 64 bits."""


class Subject(NamedTuple):
    """The resource that a command is about, in one generation.

    A service raises the generation to invalidate older commands and reports about the resource.
    """

    kind: str
    id: uuid.UUID
    generation: int


Reported = tuple[AgentEvent, HostCommand]
"""A report and its unfinished command."""


class SubjectHandler(ABC, Generic[S]):
    """A service's handler of hosts' reports about its subjects.

    Every method is called inside a transaction.  ``subject`` is the service's own record, locked by ``load``.
    """

    kind: ClassVar[str]

    @abstractmethod
    def load(self, ids: Collection[uuid.UUID]) -> Mapping[uuid.UUID, S]:
        """Lock these subjects until the transaction ends, then read them; ids without a subject are omitted."""

    @abstractmethod
    def record_steps(self, subject: S, steps: Sequence[Reported]) -> None:
        """Process reported steps of running commands."""

    @abstractmethod
    def heartbeat(self, subject: S, command: HostCommand, until: datetime) -> None:
        """Process a heartbeat of a command: a report that its host works on it. ``until`` is its new deadline."""

    def heartbeat_beside(self, subject: S, command: HostCommand, until: datetime) -> None:
        """Process a heartbeat of a command that was sent with ``beside``: no task of the subject waits for it."""

    @abstractmethod
    def process_end(self, subject: S, event: AgentEvent, command: HostCommand) -> None:
        """Process the end of a command (``finished`` or ``failed``); the command is already recorded as ended.

        The subject may have a newer generation by now.
        """

    def process_change(self, host_id: uuid.UUID, subject: S, event: AgentEvent) -> None:
        """Process a change that no command caused (``power``, ``posted``, ``lease``)."""

    def record_progress(self, subject: S, event: AgentEvent, command: HostCommand) -> None:
        """Process the progress of a command: ``detail`` may have ``done`` and ``total``, in bytes."""

    def record_pools(self, host_id: uuid.UUID, pools: Sequence[PoolState]) -> None:
        """Process the list of volume pools that a host serves."""

    def record_cpus(self, host_id: uuid.UUID, cpus: Sequence[RunningCpu]) -> None:
        """Process the processors of a host's running guests."""

    def owned_by(self, host_id: uuid.UUID) -> Iterable[Subject]:
        """Return the subjects on a host according to the records. When its agent starts, the agent removes all other
        subjects.
        """
        return ()

    def compare(self, host_id: uuid.UUID, guests: Sequence[GuestState], *, complete: bool) -> None:
        """Reconcile the records with the guests that a host reports.

        ``complete`` is True for the list in a ``Hello``, which is complete and current; the list in an audit may be
        stale.
        """

    def compare_documents(self, host_id: uuid.UUID, reported: Mapping[uuid.UUID, Owned], *, complete: bool) -> None:
        """Reconcile the records with the documents of this kind that a host reports; ``reported``: subject → document.

        ``complete`` as in ``compare``. Not called if the host does not report documents.
        """

    def compare_volumes(self, host_id: uuid.UUID, reported: Sequence[KnownVolume]) -> None:
        """Reconcile the records with the volumes that a host knows; not called if the host does not report them."""

    def moved(self, host_id: uuid.UUID) -> None:
        """Process a change of a host's address."""

    def unknown(self, guests: Sequence[GuestState]) -> Iterable[uuid.UUID]:
        """Return the ids of guests without a record; the caller records them as leftovers."""
        return ()

    def clear(self, host_id: uuid.UUID, leftovers: Sequence[Leftover]) -> None:
        """Command a host to remove leftovers of subjects that no longer exist.

        Each leftover belongs to a subject of this kind, and two audits have reported it.
        """


HANDLERS = Wired[SubjectHandler[Any]]("The handlers of subjects")
"""Ordered by layer, the highest first, because a higher layer locks its rows before those of lower layers."""


def newest_of(event: AgentEvent) -> int | None:
    """Return the newest generation that the host of a ``superseded`` command has seen; None if not reported."""
    text = event.detail.get("generation", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < MOST_DIGITS else None


def handler_of(kind: str) -> SubjectHandler[Any] | None:
    return next((handler for handler in HANDLERS if handler.kind == kind), None)
