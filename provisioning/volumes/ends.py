"""Who takes the end of which command about a volume: the service that sends it registers beside it."""

import uuid
from collections.abc import Callable
from typing import Any, TypeVar

from compute_agent.contract.messages import AgentEvent
from provisioning.volumes.models import Volume

TakeEnd = Callable[[Volume, AgentEvent, Any, uuid.UUID], None]
"""Called with the locked volume, the report, the command's body and the id of the host that had it.

The report is of the volume's own generation.
"""
Step = TypeVar("Step", bound=TakeEnd)

_ends: dict[type, TakeEnd] = {}


def takes_end(*bodies: type) -> Callable[[Step], Step]:
    """Register what follows when a command of these kinds ends."""

    def register(function: Step) -> Step:
        for body in bodies:
            _ends[body] = function
        return function

    return register


def end_of(body: object) -> TakeEnd | None:
    return _ends.get(type(body))


def reason_of(event: AgentEvent) -> str:
    """Return in words why a command failed."""
    return event.message or event.error_code or "The host gave no reason."
