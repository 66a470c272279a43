"""What registers with the engine: the kinds of subjects, and the handlers of their commands."""

import abc
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from compute_agent.contract.commands import CommandBody
from compute_agent.engine.context import CommandContext
from compute_agent.engine.outcomes import Failure, Outcome
from compute_agent.engine.store import SubjectRecord

B = TypeVar("B", bound=CommandBody)


class CommandHandler(abc.ABC, Generic[B]):
    """How commands of one kind of body are carried out."""

    heavy = False
    """Whether it moves much data: it waits for one of the host's workers."""
    makes = False
    """Whether it makes the subject: a command of a newer generation stops it, and its steps are announced."""
    removes = False
    """Whether it takes the subject off this host: it overtakes what waits, stops what runs, and is never late."""
    resumes_late = False
    """Whether a command that was begun and goes on after its deadline is handed over: ``run`` then brings the subject
    back to what it was, or to its end.
    """

    @abc.abstractmethod
    async def run(self, context: CommandContext, body: B) -> Outcome:
        """Carry the command out.  An earlier process may have begun it: whatever it left must not matter.

        What it raises is reported as the command's failure; the subject must be as it was, or the error say so.
        """

    def owner(self, context: CommandContext, body: B) -> str:
        """Return whose command it is, of those who share the host's workers; empty for nobody's."""
        return ""

    async def refuse(self, context: CommandContext, body: B, failure: Failure) -> Outcome:
        """Answer a command that is not carried out: superseded, late, or cancelled while it waited for a worker.

        An earlier process may have begun it (``context.begun``).
        """
        return Outcome(failure)


class SubjectKind(abc.ABC):
    """One kind of subjects: who handles their commands, and what is done between commands."""

    kind: str
    handlers: Mapping[type, CommandHandler[Any]]
    """By the type of the command's body."""

    @abc.abstractmethod
    async def sweep(self, record: SubjectRecord) -> bool:
        """Try again to remove what a failed command has left; return whether nothing is left any more."""

    @abc.abstractmethod
    def settled(self, subject_id: str) -> None:
        """Hear that no command of the subject waits or runs any more."""

    def place(self, body: CommandBody) -> str:
        """Return the place that other machines serve, and for which a command may wait long: such commands have threads
        and workers of their own.  Empty: it waits for this machine only.
        """
        return ""
