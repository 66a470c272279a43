"""How a command can end, as the portal is told."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from compute_agent.virt.errors import HostError


@dataclass(frozen=True)
class Failure:
    """Why a command ended badly: a code for programs, a sentence for users, and whether another host may do better."""

    code: str
    message: str
    retryable: bool


SUPERSEDED = Failure("superseded", "A newer command has taken the place of this one.", retryable=False)
CANCELLED = Failure("cancelled", "It was cancelled by a command to delete.", retryable=False)
LATE = Failure("deadline_passed", "The command reached the host too late.", retryable=True)
UNKNOWN = Failure("unsupported", "This host does not know the command.", retryable=True)


@dataclass(frozen=True)
class Outcome:
    """How a command ended, as the portal is told and the store keeps it."""

    failure: Failure | None = None
    """None: it ended well."""
    power_state: int | None = None
    gone: bool = False
    """Nothing of the subject is left on this host."""
    leftover: bool = False
    """Something is left that could not be removed now; ``SubjectKind.sweep`` tries again."""
    description: bytes | None = None
    """What the subject is made of from now on; None: as before."""
    detail: Mapping[str, str] = field(default_factory=dict)
    """What the portal is told with the end, as the request's docstring says."""


class SupersededError(HostError):
    """The host has the subject in a newer generation."""

    code = SUPERSEDED.code

    def __init__(self) -> None:
        super().__init__(SUPERSEDED.message)


class LateError(HostError):
    """The command was begun, and goes on only after its deadline."""

    code = LATE.code

    def __init__(self) -> None:
        super().__init__(LATE.message)


class CommandCancelledError(Exception):
    """The command was told to stop, and stopped between two steps."""


def failure_of(error: BaseException, generic: str) -> Failure:
    """Return what the portal is told of ``error``: its own words when it was anticipated, else the ``generic``
    sentence.
    """
    if isinstance(error, HostError):
        return Failure(error.code, error.message, error.retryable)
    return Failure("host_error", generic, retryable=True)
