"""Tasks of volumes: a host's work, which begins with a command and ends with a report or a timeout.

Each task is a class in the module of the service that sends its command.
"""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

from compute_agent.contract.commands import CommandBody
from compute_agent.contract.messages import AgentEvent
from provisioning.volumes.models import Volume
from provisioning.volumes.state_machine import deadlines
from provisioning.volumes.states import VolumeStatus

SILENT = "The host has not answered in time."

B = TypeVar("B", bound=CommandBody)
"""The command that a host carries out."""
T = TypeVar("T", bound="type[Task[Any]]")


class Task(ABC, Generic[B]):
    """A kind of task, identified by the type of its command."""

    body: ClassVar[type[CommandBody]]
    """The command that is sent."""
    seconds: ClassVar[Mapping[VolumeStatus, int]] = {}
    """Status of a volume while the task runs → its timeout, unless NOVELLA_VOLUME_TIMEOUTS overrides it.  Empty for a
    task without a status of its own.
    """

    @abstractmethod
    def end(self, volume: Volume, event: AgentEvent, body: B, host_id: uuid.UUID) -> None:
        """Handle the report of the host that had the command.

        The volume is locked, and the report is of the volume's current generation.
        """

    def overdue(self, volume: Volume) -> None:
        """Give up the task of a locked volume after a timeout. Afterwards the volume must have another status."""
        raise NotImplementedError  # tasks with a status of their own implement it


class VolumeTask(Task[B], Generic[B]):
    """A task whose result and failure are recorded with the volume."""

    awaited_in: ClassVar[tuple[VolumeStatus, ...]] = ()
    """Statuses of the volume in which a report is handled, including late reports.  Empty: all."""

    def end(self, volume: Volume, event: AgentEvent, body: B, host_id: uuid.UUID) -> None:
        if self.awaited_in and volume.status not in self.awaited_in:
            return
        if event.kind == "failed":
            self.failed(volume, reason_of(event))
        else:
            self.finished(volume, event, body, host_id)

    def overdue(self, volume: Volume) -> None:
        self.failed(volume, SILENT)

    @abstractmethod
    def finished(self, volume: Volume, event: AgentEvent, body: B, host_id: uuid.UUID) -> None:
        """Record the result of a command that succeeded."""

    @abstractmethod
    def failed(self, volume: Volume, reason: str) -> None:
        """Record that the command failed or timed out."""


_by_body: dict[type, Task[Any]] = {}
_by_status: dict[VolumeStatus, Task[Any]] = {}


def task(cls: T) -> T:
    """Register a class of tasks.  Raises ValueError for a second class with the same command or status."""
    one = cls()
    if one.body in _by_body or _by_status.keys() & one.seconds.keys():
        raise ValueError(f"There are two tasks of volumes like {cls.__name__}.")
    _by_body[one.body] = one
    for status, seconds in one.seconds.items():
        _by_status[status] = one
        deadlines.TIMEOUTS[status] = seconds
    return cls


def task_of(body: object) -> Task[Any] | None:
    """Return the task that a command belongs to; None if the end of the command changes nothing."""
    return _by_body.get(type(body))


def task_in(status: str) -> Task[Any] | None:
    """Return the task that a volume with this status has; None: no task."""
    return _by_status.get(VolumeStatus(status))


def reason_of(event: AgentEvent) -> str:
    """Return why a command failed, as a sentence."""
    return event.message or event.error_code or "The host gave no reason."
