"""Which function takes the end of which order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from compute_agent.contract.commands import CommandBody
from provisioning.compute.actions.ends.outcome import Outcome
from provisioning.compute.models import Instance

Take = Callable[[Instance, CommandBody, Outcome], None]
B = TypeVar("B", bound=CommandBody)

_TAKERS: dict[type, Take] = {}


def end_of(
    order: type[B],
) -> Callable[[Callable[[Instance, B, Outcome], None]], Callable[[Instance, B, Outcome], None]]:
    """Register what follows the end of an order, inside a transaction in which the instance is locked.

    Called as well when the order's deadline has passed (``outcome.silent``): then the host may still do it.
    """

    def register(take: Callable[[Instance, B, Outcome], None]) -> Callable[[Instance, B, Outcome], None]:
        _TAKERS[order] = take  # type: ignore[assignment]
        return take

    return register


def ended(instance: Instance, body: CommandBody, outcome: Outcome) -> bool:
    """Take the end of an order; False when nobody takes it."""
    take = _TAKERS.get(type(body))
    if take is None:
        return False
    take(instance, body, outcome)
    return True
