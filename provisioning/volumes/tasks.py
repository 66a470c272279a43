"""Tasks of volumes, snapshots and backups that a host carries out: they begin with a command and end with a report or a
timeout.

Each task is a class in the module of the service that sends its command.
"""

import functools
import uuid
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, ClassVar, Generic, TypeVar

from django.db.models import Model

from compute_agent.contract.base import Message
from compute_agent.contract.commands import CommandBody
from compute_agent.contract.messages import AgentEvent
from compute_agent.contract.volume import VOLUME, SnapshotCommand
from provisioning.common.errors import NovellaError
from provisioning.common.tasks import TASKS, RecordTask
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.hosts import commands
from provisioning.hosts.models import HostCommand
from provisioning.volumes.errors import InvalidSnapshotError, InvalidVolumeError
from provisioning.volumes.models import Attachment, Snapshot, Volume
from provisioning.volumes.records import uses
from provisioning.volumes.state_machine import state

SILENT = "The host has not answered in time."

R = TypeVar("R", bound=Model)
B = TypeVar("B", bound=Message)
"""The command that a host carries out."""
C = TypeVar("C", bound=SnapshotCommand)


class HostTask(RecordTask[R], Generic[R, B]):
    """A task of a record that a host carries out. The type of the command identifies it."""

    body: ClassVar[type[CommandBody]]
    """The command that is sent."""

    @abstractmethod
    def end(self, subject: R, event: AgentEvent, body: B, host_id: uuid.UUID) -> None:
        """Handle the report of the host that had the command. The record is locked, and the report is current."""

    def subject(self, volume: Volume, body: B) -> R | None:
        """Return the record that a command about a locked volume is for; None if it no longer exists."""
        return None  # commands of copies are not commands about a volume


class StatusTask(HostTask[R, B], Generic[R, B]):
    """A task with a status of its record, which shows its result or its failure afterwards."""

    awaited_in: ClassVar[tuple[str, ...]] = ()
    """Statuses in which a report is handled, including late reports.  Empty: all."""

    def end(self, subject: R, event: AgentEvent, body: B, host_id: uuid.UUID) -> None:
        if self.awaited_in and getattr(subject, "status") not in self.awaited_in:  # noqa: B009 - a column of each model
            return
        if event.kind == "failed":
            self.failed(subject, reason_of(event))
        else:
            self.finished(subject, event, body, host_id)

    def overdue(self, subject: R) -> None:
        self.failed(subject, SILENT)

    def waits_until(self, subject: R) -> datetime | None:
        return commands.awaited_until(self.awaited(subject))

    @abstractmethod
    def awaited(self, subject: R) -> Iterable[HostCommand]:
        """Return the unfinished commands that the task waits for."""

    @abstractmethod
    def finished(self, subject: R, event: AgentEvent, body: B, host_id: uuid.UUID) -> None:
        """Record the result of a command that succeeded."""

    @abstractmethod
    def failed(self, subject: R, reason: str) -> None:
        """Record that the command failed or timed out. Afterwards the record must have another status."""


class VolumeTask(StatusTask[Volume, B], Generic[B]):
    """A task of a volume."""

    model = Volume
    refused: ClassVar[type[NovellaError]] = InvalidVolumeError

    def lock(self, key: uuid.UUID) -> Volume | None:
        return state.lock([key]).get(key)

    def subject(self, volume: Volume, body: B) -> Volume | None:
        return volume

    def awaited(self, subject: Volume) -> Iterator[HostCommand]:
        """Yield the commands about the volume, about the hidden volume of its migration, and about the disks of its
        guests.
        """
        yield from commands.unfinished(VOLUME, subject.id).filter(beside=False, generation=subject.generation)
        hidden = list(Volume.objects.filter(migration_of=subject.id).values_list("id", flat=True))
        for key in hidden:
            yield from commands.unfinished(VOLUME, key)
        for attachment in Attachment.objects.filter(volume_id__in=[subject.id, *hidden]):
            yield from uses.user().working(attachment)


class SnapshotTask(StatusTask[Snapshot, C], Generic[C]):
    """A task of a snapshot. Its commands are commands about the volume."""

    model = Snapshot
    refused: ClassVar[type[NovellaError]] = InvalidSnapshotError

    def lock(self, key: uuid.UUID) -> Snapshot | None:
        volume_id = Snapshot.objects.filter(id=key).values_list("volume_id", flat=True).first()
        if volume_id is None or not state.lock([volume_id]):
            return None
        return Snapshot.objects.filter(id=key).first()

    def subject(self, volume: Volume, body: C) -> Snapshot | None:
        key = read_id(body.snapshot_id) or NOBODY  # the doctor deletes snapshots without a record, too
        return Snapshot.objects.filter(id=key, volume_id=volume.id).first()

    def awaited(self, subject: Snapshot) -> Iterable[HostCommand]:
        tasks = (task for task in TASKS.tasks if isinstance(task, SnapshotTask))
        kinds = [str(task.body.__struct_config__.tag) for task in tasks]
        return commands.unfinished(VOLUME, subject.volume_id).filter(kind__in=kinds)


class CopyTask(StatusTask[R, B], Generic[R, B]):
    """A task that copies the data of a volume to an image or a backup, independently of the volume's other commands.

    The subject of its command is the new image or backup.
    """

    @abstractmethod
    def load(self, ids: Collection[uuid.UUID]) -> Mapping[uuid.UUID, R]:
        """Return id of the image or backup → the record that waits for it, locked."""

    @abstractmethod
    def heartbeat(self, subject: R, until: datetime) -> None:
        """Handle a heartbeat: the host is still copying, and the new deadline is ``until``."""

    def progress(self, subject: R, done: int, total: int) -> None:
        """Handle the host's report of the bytes copied so far. ``total`` is 0 if it is unknown."""


def end(volume: Volume, event: AgentEvent, body: CommandBody, host_id: uuid.UUID) -> None:
    """Let the task of a command about a locked volume handle its report. Ignored if the command has no task."""
    task = _host_tasks().get(type(body))
    subject = task.subject(volume, body) if task is not None else None
    if task is not None and subject is not None:
        task.end(subject, event, body, host_id)


def copy_tasks() -> list[CopyTask[Any, Any]]:
    """Return the tasks that copy the data of volumes."""
    return [task for task in _host_tasks().values() if isinstance(task, CopyTask)]


@functools.cache
def _host_tasks() -> Mapping[type[CommandBody], HostTask[Any, Any]]:
    """Return type of the command → task, the first of several that handle its reports in the same way.

    Raises ValueError for two tasks that handle the reports of a command differently.
    """
    result: dict[type[CommandBody], HostTask[Any, Any]] = {}
    for task in TASKS.tasks:
        if isinstance(task, HostTask):
            known = result.setdefault(task.body, task)
            if type(known).end is not type(task).end:
                raise ValueError(f"There are two tasks with the command {task.body.__name__}.")
    return result


def reason_of(event: AgentEvent) -> str:
    """Return why a command failed, as a sentence."""
    return event.message or event.error_code or "The host gave no reason."
