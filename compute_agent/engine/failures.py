"""How a command can end badly, as the portal is told."""

from __future__ import annotations

from dataclasses import dataclass

from compute_agent.virt.errors import HostError


@dataclass(frozen=True)
class Failure:
    """Why a command ended badly: a code for programs, a sentence for users, and whether another host may do better."""

    code: str
    message: str
    retryable: bool


SUPERSEDED = Failure("superseded", "A newer order for this instance has taken this one's place.", retryable=False)
CANCELLED = Failure("cancelled", "The build was cancelled because the instance is being deleted.", retryable=False)
LATE = Failure("deadline_passed", "The order reached the host too late.", retryable=True)


class SupersededError(HostError):
    """The hypervisor has a guest of a newer attempt."""

    code = SUPERSEDED.code

    def __init__(self) -> None:
        super().__init__(SUPERSEDED.message)


def failure_of(error: BaseException, generic: str) -> Failure:
    """Return what the portal is told of ``error``: its own words when it was anticipated, else the ``generic``
    sentence.
    """
    if isinstance(error, HostError):
        return Failure(error.code, error.message, error.retryable)
    return Failure("host_error", generic, retryable=True)
