"""Handlers for reports of hosts about volumes and copies of their data."""

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from msgspec.structs import replace

from compute_agent.contract.messages import AgentEvent, decode_command_body
from compute_agent.contract.volume import VOLUME, VOLUME_COPY, KnownVolume, PoolState
from provisioning.common.values.ids import NOBODY
from provisioning.common.values.numbers import MAX_INTEGER
from provisioning.hosts import commands
from provisioning.hosts.models import HostCommand
from provisioning.hosts.subjects import Reported, Subject, SubjectHandler
from provisioning.volumes import tasks
from provisioning.volumes.inbound import kept_open, older_records
from provisioning.volumes.models import Attachment, PoolHost, Volume
from provisioning.volumes.pools import pools
from provisioning.volumes.records import uses
from provisioning.volumes.services.connections import daemons
from provisioning.volumes.services.updates import migrate
from provisioning.volumes.state_machine import state
from provisioning.volumes.tasks import CopyTask


class VolumeHandler(SubjectHandler[Volume]):
    """Handles reports of hosts about volumes."""

    kind = VOLUME

    def load(self, ids: Collection[uuid.UUID]) -> Mapping[uuid.UUID, Volume]:
        """Lock and return the volumes with these ids.

        If a volume is the hidden volume of a migration, the volume that is being migrated is also locked, because
        reports about the hidden volume change it.
        """
        rows = Volume.objects.filter(id__in=ids, migration_of__isnull=False).values_list("migration_of", flat=True)
        return state.lock({*ids, *(key for key in rows if key is not None)})

    def record_steps(self, subject: Volume, steps: Sequence[Reported]) -> None:
        for event, command in steps:
            self.record_progress(subject, event, command)

    def heartbeat(self, subject: Volume, command: HostCommand, until: datetime) -> None:
        if subject.deadline is not None and command.generation == subject.generation:
            waiting = [subject, *Volume.objects.filter(id=subject.migration_of or NOBODY, status__in=migrate.MOVING)]
            migrate.goes_on(waiting, until)

    def heartbeat_beside(self, subject: Volume, command: HostCommand, until: datetime) -> None:
        """Handle heartbeats of commands that serve a migration but belong to no task, such as the start of a daemon."""
        if subject.status in migrate.MOVING or subject.migration_of is not None:
            self.heartbeat(subject, command, until)

    def record_progress(self, subject: Volume, event: AgentEvent, command: HostCommand) -> None:
        done, total = (number_of(event, name) for name in ("done", "total"))
        if done is None or command.beside or not state.reread(subject) or command.generation != subject.generation:
            return
        state.update(subject, {"progress_bytes": done, "progress_total": max(total or 0, done)})
        uses.user().progressed(subject)

    def process_end(self, subject: Volume, event: AgentEvent, command: HostCommand) -> None:
        if not state.reread(subject) or command.generation != subject.generation:
            return
        if not _has(subject, command.host_id):
            return
        body = decode_command_body(command.body)
        if event.error_code == "superseded":
            if not older_records.refused(subject, event, body, command.host_id) or not state.reread(subject):
                return
            event = replace(event, message=kept_open.REASON)
        tasks.end(subject, event, body, command.host_id)

    def record_pools(self, host_id: uuid.UUID, pools_now: Sequence[PoolState]) -> None:
        pools.lock_unserved(pools_now)
        for pool_id, unserved in pools.record(host_id, pools_now).items():
            daemons.serve_again(host_id, pool_id, unserved)

    def compare_volumes(self, host_id: uuid.UUID, reported: Sequence[KnownVolume]) -> None:
        older_records.compare(host_id, reported)

    def owned_by(self, host_id: uuid.UUID) -> Iterable[Subject]:
        """Return the volumes in pools of the host, and the volumes whose daemon or guest runs on the host."""
        served = PoolHost.objects.filter(host_id=host_id).values("pool_id")
        guests = Attachment.objects.filter(host_id=host_id).values("volume_id")
        rows = Volume.objects.filter(pool_id__in=served) | Volume.objects.filter(daemon_host_id=host_id)
        rows = (rows | Volume.objects.filter(id__in=guests)).distinct().order_by("id")
        return [Subject(VOLUME, key, generation) for key, generation in rows.values_list("id", "generation")]


def _has(volume: Volume, host_id: uuid.UUID) -> bool:
    """Return whether the host runs the volume's daemon or serves its pool, according to the database.

    The volume may have moved since the command was sent.
    """
    served = PoolHost.objects.filter(pool_id=volume.pool_id, host_id=host_id)
    return volume.daemon_host_id == host_id or served.exists()


class Copied(NamedTuple):
    """The record that waits for a copy of a volume's data, and its task."""

    task: CopyTask[Any, Any]
    row: Any


class CopyHandler(SubjectHandler[Copied]):
    """Handles reports of hosts about copies of volumes to images and backups."""

    kind = VOLUME_COPY

    def load(self, ids: Collection[uuid.UUID]) -> Mapping[uuid.UUID, Copied]:
        return {key: Copied(task, row) for task in tasks.copy_tasks() for key, row in task.load(ids).items()}

    def record_steps(self, subject: Copied, steps: Sequence[Reported]) -> None:
        for event, command in steps:
            self.record_progress(subject, event, command)

    def heartbeat(self, subject: Copied, command: HostCommand, until: datetime) -> None:
        subject.task.heartbeat(subject.row, until + commands.MARGIN)

    def record_progress(self, subject: Copied, event: AgentEvent, command: HostCommand) -> None:
        done, total = (number_of(event, name) for name in ("done", "total"))
        if done is not None:
            subject.task.progress(subject.row, done, max(total or 0, done))

    def process_end(self, subject: Copied, event: AgentEvent, command: HostCommand) -> None:
        if event.error_code != "superseded":
            subject.task.end(subject.row, event, decode_command_body(command.body), command.host_id)

    def owned_by(self, host_id: uuid.UUID) -> Iterable[Subject]:
        rows = HostCommand.objects.filter(host_id=host_id, subject_kind=VOLUME_COPY, finished_at=None)
        return [Subject(VOLUME_COPY, key, number) for key, number in rows.values_list("subject_id", "generation")]


def number_of(event: AgentEvent, name: str) -> int | None:
    """Return a number of bytes from a report; None if it has no valid number."""
    text = event.detail.get(name, "")
    return min(int(text), MAX_INTEGER << 31) if text.isascii() and text.isdigit() and len(text) < 19 else None
