"""Handlers for the ends of commands about volumes. The service that sends a command registers its handler."""

import uuid
from collections.abc import Callable
from typing import Any, TypeVar

from compute_agent.contract.messages import AgentEvent
from provisioning.volumes.models import Volume

TakeEnd = Callable[[Volume, AgentEvent, Any, uuid.UUID], None]
"""Called with the locked volume, the report, the command's body and the id of its host.

The report has the current generation of the volume.
"""
Step = TypeVar("Step", bound=TakeEnd)

_ends: dict[type, TakeEnd] = {}


def takes_end(*bodies: type) -> Callable[[Step], Step]:
    """Register a function as handler for the end of these kinds of commands."""

    def register(function: Step) -> Step:
        for body in bodies:
            _ends[body] = function
        return function

    return register


def end_of(body: object) -> TakeEnd | None:
    return _ends.get(type(body))


def reason_of(event: AgentEvent) -> str:
    """Return the reason why a command failed, as a text for users."""
    return event.message or event.error_code or "The host gave no reason."
