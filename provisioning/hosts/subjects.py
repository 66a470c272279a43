"""The kinds of subjects that hosts are commanded about, each with the handler of its reports."""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from compute_agent.contract.messages import AgentEvent, GuestState, Owned
from compute_agent.contract.volume import KnownVolume, PoolState
from provisioning.common.wired import Wired
from provisioning.hosts.models import HostCommand, Leftover

S = TypeVar("S")
MOST_DIGITS = 19
"""Numbers of so many digits may not fit into 64 bits."""


class Subject(NamedTuple):
    """The resource that a command is about, in one generation.

    A service raises the generation when older commands and reports about the thing are to mean nothing any more.
    """

    kind: str
    id: uuid.UUID
    generation: int


Reported = tuple[AgentEvent, HostCommand]
"""A report, and the unfinished command that it is about."""


class SubjectHandler(ABC, Generic[S]):
    """What a service does with what hosts say of its subjects.

    Every method is called inside a transaction.  ``subject`` is the service's own record, locked by ``load``.
    """

    kind: ClassVar[str]

    @abstractmethod
    def load(self, ids: Collection[uuid.UUID]) -> Mapping[uuid.UUID, S]:
        """Lock these subjects until the transaction ends, then read them; unknown ones are left out."""

    @abstractmethod
    def take_steps(self, subject: S, steps: Sequence[Reported]) -> None:
        """Take steps of commands that are being carried out."""

    @abstractmethod
    def take_life(self, subject: S, command: HostCommand, until: datetime) -> None:
        """Hear that a host works on a command, and until when it is waited for now."""

    def take_life_beside(self, subject: S, command: HostCommand, until: datetime) -> None:
        """Hear the same of a command that belongs to no task of the subject: something else may wait for it."""

    @abstractmethod
    def take_end(self, subject: S, event: AgentEvent, command: HostCommand) -> None:
        """Take the end of a command (``finished`` or ``failed``), which is closed already.

        The subject may have a newer generation by now.
        """

    def take_state(self, host_id: uuid.UUID, subject: S, event: AgentEvent) -> None:
        """Take a change that no command made (``power``, ``posted``, ``lease``)."""

    def take_progress(self, subject: S, event: AgentEvent, command: HostCommand) -> None:
        """Hear how far a command is: ``detail`` may have ``done`` and ``total``, in bytes."""

    def take_pools(self, host_id: uuid.UUID, pools: Sequence[PoolState]) -> None:
        """Take which pools of volumes a host serves now."""

    def owned_by(self, host_id: uuid.UUID) -> Iterable[Subject]:
        """Return what a host holds by the records: an agent that starts anew undoes what is not among it."""
        return ()

    def compare(self, host_id: uuid.UUID, guests: Sequence[GuestState], *, complete: bool) -> None:
        """Bring the records and the guests that a host says it has together.

        ``complete`` (a ``Hello``): the list is all there is now; that of an audit may be stale.
        """

    def compare_documents(self, host_id: uuid.UUID, said: Mapping[uuid.UUID, Owned], *, complete: bool) -> None:
        """Bring the records and the documents of this kind that a host says it has together, by their subjects.

        ``complete`` as in ``compare``.  Not called when the host does not say what it has.
        """

    def compare_volumes(self, host_id: uuid.UUID, said: Sequence[KnownVolume]) -> None:
        """Bring the records and what a host knows of volumes together; not called when the host does not say."""

    def moved(self, host_id: uuid.UUID) -> None:
        """Hear that a host has another address among the hosts."""

    def unknown(self, guests: Sequence[GuestState]) -> Iterable[uuid.UUID]:
        """Return the guests of which no record knows anything; they are kept with the host's leftovers."""
        return ()

    def clear(self, host_id: uuid.UUID, leftovers: Sequence[Leftover]) -> None:
        """Command a host to remove what is left there of subjects that are over.

        ``leftovers`` bear the names of subjects of this kind, and two audits have seen them.
        """


HANDLERS = Wired[SubjectHandler[Any]]("The handlers of subjects")
"""That of the highest layer first: it locks its own rows before those of lower layers."""


def newest_of(event: AgentEvent) -> int | None:
    """Return the newest generation that the host of a ``superseded`` command has seen; None: it does not say."""
    text = event.detail.get("generation", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < MOST_DIGITS else None


def handler_of(kind: str) -> SubjectHandler[Any] | None:
    return next((handler for handler in HANDLERS if handler.kind == kind), None)
