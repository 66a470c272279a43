"""Outcomes of commands, as reported to the portal."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from compute_agent.virt.errors import HostError


@dataclass(frozen=True)
class Failure:
    """The failure of a command: a code for programs, a message for users, and whether another host may succeed."""

    code: str
    message: str
    retryable: bool


SUPERSEDED = Failure("superseded", "A newer command has replaced this one.", retryable=False)
CANCELLED = Failure("cancelled", "It was cancelled by a command to delete.", retryable=False)
LATE = Failure("deadline_passed", "The command reached the host too late.", retryable=True)
UNKNOWN = Failure("unsupported", "This host does not know the command.", retryable=True)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a command, as reported to the portal and stored."""

    failure: Failure | None = None
    """None if the command succeeded."""
    power_state: int | None = None
    gone: bool = False
    """Whether the host has no data of the subject any longer."""
    leftover: bool = False
    """Whether something could not be removed. ``SubjectKind.sweep`` tries again."""
    description: bytes | None = None
    """The new description of the subject; None: unchanged."""
    detail: Mapping[str, str] = field(default_factory=dict)
    """Details for the portal, documented at the request."""


class SupersededError(HostError):
    """The host has a newer generation of the subject."""

    code = SUPERSEDED.code

    def __init__(self) -> None:
        super().__init__(SUPERSEDED.message)


class LateError(HostError):
    """The command began in an earlier process, and is resumed only after its deadline."""

    code = LATE.code

    def __init__(self) -> None:
        super().__init__(LATE.message)


class CommandCancelledError(Exception):
    """The command was cancelled, and stopped between two steps."""


def failure_of(error: BaseException, generic: str) -> Failure:
    """Return the failure to report for ``error``. Its message is the message of a HostError, or else ``generic``."""
    if isinstance(error, HostError):
        return Failure(error.code, error.message, error.retryable)
    return Failure("host_error", generic, retryable=True)
