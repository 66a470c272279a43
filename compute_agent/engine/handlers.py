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
    """Whether the command moves much data. It then waits for one of the host's workers."""
    makes = False
    """Whether the command creates the subject. A command with a newer generation then stops it, and its long steps are
    reported before they end.
    """
    removes = False
    """Whether the command removes the subject from this host. It then overtakes waiting commands, stops running ones,
    and is never late.
    """
    resumes_late = False
    """Whether ``run`` is called for a command that began in an earlier process and is resumed after its deadline.
    ``run`` then restores the previous state of the subject, or completes the command.
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
    """Handlers by the type of the commands' bodies."""

    @abc.abstractmethod
    async def sweep(self, record: SubjectRecord) -> bool:
        """Try again to remove the remains of a failed command. Return whether nothing is left."""

    @abc.abstractmethod
    def settled(self, subject_id: str) -> None:
        """Called when no command of the subject waits or runs any longer."""

    def place(self, body: CommandBody) -> str:
        """Return the remote resource on which the command depends, such as a pool on other machines. Commands for the
        same remote resource have separate threads and workers.

        Return an empty text if the command depends on this machine only.
        """
        return ""
