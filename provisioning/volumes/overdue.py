"""What follows when nothing is heard any more of what goes on with a volume: the service of each task registers it."""

from collections.abc import Callable
from typing import TypeVar

from provisioning.volumes.models import Volume
from provisioning.volumes.states import VolumeStatus

GiveUp = Callable[[Volume, str], None]
"""Called with the locked volume and the reason; the status must be another one afterwards."""
Step = TypeVar("Step", bound=GiveUp)
SILENT = "The host has not answered in time."

_given_up: dict[VolumeStatus, GiveUp] = {}


def when_overdue(*statuses: VolumeStatus) -> Callable[[Step], Step]:
    """Register what gives up a task that these statuses stand for."""

    def register(function: Step) -> Step:
        for status in statuses:
            _given_up[status] = function
        return function

    return register


def give_up_of(status: str) -> GiveUp | None:
    return _given_up.get(VolumeStatus(status))
