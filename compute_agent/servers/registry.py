"""Which function carries out which order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from compute_agent.contract.commands import CommandBody
from compute_agent.contract.power import PowerState
from compute_agent.servers.context import CommandContext

B = TypeVar("B", bound=CommandBody)
Carry = Callable[[CommandContext, B], PowerState]


@dataclass(frozen=True)
class CommandHandler:
    """How an order is carried out: the function, and whether it moves disks, so that it takes one of the host's
    workers.

    ``undoes``: an order that was begun and comes too late to go on is handed to the function all the same, which
    brings the guest back to what it was.
    """

    carry: Callable[..., PowerState]
    heavy: bool
    undoes: bool = False


HANDLERS: dict[type, CommandHandler] = {}


def handles(order: type[B], *, heavy: bool = False, undoes: bool = False) -> Callable[[Carry[B]], Carry[B]]:
    """Register what carries out an order: it blocks, may be repeated, and returns the guest's power state.

    What it raises is reported as the order's failure; it must leave the guest as it was, or say so in the error.
    """

    def register(carry: Carry[B]) -> Carry[B]:
        HANDLERS[order] = CommandHandler(carry, heavy, undoes)
        return carry

    return register
