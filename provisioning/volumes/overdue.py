"""Handlers for tasks of volumes whose deadline has passed. The service of each task registers its handler."""

from collections.abc import Callable
from typing import TypeVar

from provisioning.volumes.models import Volume
from provisioning.volumes.states import VolumeStatus

GiveUp = Callable[[Volume, str], None]
"""Called with the locked volume and the reason. It must change the volume's status."""
Step = TypeVar("Step", bound=GiveUp)
SILENT = "The host has not answered in time."

_given_up: dict[VolumeStatus, GiveUp] = {}


def when_overdue(*statuses: VolumeStatus) -> Callable[[Step], Step]:
    """Register a function as handler for overdue tasks with these statuses."""

    def register(function: Step) -> Step:
        for status in statuses:
            _given_up[status] = function
        return function

    return register


def give_up_of(status: str) -> GiveUp | None:
    return _given_up.get(VolumeStatus(status))
