"""Interfaces that are registered with the engine: kinds of subjects, and handlers of their commands."""

import abc
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from compute_agent.contract.commands import CommandBody
from compute_agent.engine.context import CommandContext
from compute_agent.engine.outcomes import Failure, Outcome
from compute_agent.engine.store import SubjectRecord

B = TypeVar("B", bound=CommandBody)


class CommandHandler(abc.ABC, Generic[B]):
    """Executes commands with one type of body."""

    heavy = False
    """Whether it moves much data: it then waits for one of the host's workers."""
    makes = False
    """Whether it creates the subject: a command with a newer generation stops it, and its steps are announced."""
    removes = False
    """Whether it removes the subject here: it overtakes waiting commands, stops running ones, and is never late."""
    resumes_late = False
    """Whether a begun command that is resumed after its deadline is executed: ``run`` then restores the previous state
    of the subject, or completes the command.
    """

    @abc.abstractmethod
    async def run(self, context: CommandContext, body: B) -> Outcome:
        """Execute the command. An earlier process may have begun it and left any state.

        An exception is reported as the command's failure. The subject must then be unchanged, or the error must report
        that it is not.
        """

    def owner(self, context: CommandContext, body: B) -> str:
        """Return the owner of the command, whose share of the host's workers it uses; empty for no owner."""
        return ""

    async def refuse(self, context: CommandContext, body: B, failure: Failure) -> Outcome:
        """Answer a command that is not executed: superseded, late, or cancelled while it waited for a worker.

        An earlier process may have begun it (``context.begun``).
        """
        return Outcome(failure)


class SubjectKind(abc.ABC):
    """One kind of subjects: the handlers of its commands, and the work between commands."""

    kind: str
    handlers: Mapping[type, CommandHandler[Any]]
    """By the type of the command's body."""

    @abc.abstractmethod
    async def sweep(self, record: SubjectRecord) -> bool:
        """Try again to remove the remains of a failed command. Return whether nothing is left."""

    @abc.abstractmethod
    def settled(self, subject_id: str) -> None:
        """Called when no command of the subject waits or runs any longer."""

    def place(self, body: CommandBody) -> str:
        """Return the remote resource that the command may have to wait for. Commands for it have separate threads and
        workers.

        Empty: the command depends on this machine only.
        """
        return ""
