"""Volumes as subjects of the engine: the handlers of their commands."""

import asyncio
from collections.abc import Callable, Collection
from typing import Any, TypeVar

import msgspec

from compute_agent.contract.build import VolumeConnection
from compute_agent.contract.commands import CommandBody
from compute_agent.contract.volume import (
    VOLUME,
    VOLUME_COPY,
    BackupVolumeRequest,
    ConnectVolumeRequest,
    CreateVolumeRequest,
    DeleteSnapshotRequest,
    DeleteVolumeRequest,
    FetchVolumeRequest,
    GrowVolumeRequest,
    ManageSnapshotRequest,
    ReimageVolumeRequest,
    RestoreVolumeRequest,
    RevertVolumeRequest,
    SnapshotVolumeRequest,
    UnmanageSnapshotRequest,
    UnmanageVolumeRequest,
    UploadVolumeRequest,
    VolumeCommand,
    VolumeSpec,
)
from compute_agent.engine import timing
from compute_agent.engine.context import CommandContext
from compute_agent.engine.handlers import CommandHandler, SubjectKind
from compute_agent.engine.outcomes import SUPERSEDED, Failure, Outcome
from compute_agent.engine.store import SubjectRecord
from compute_agent.virt.driver import Stopped
from compute_agent.virt.processes import progress
from compute_agent.volumes.backups.backup_copies import PoolCopies
from compute_agent.volumes.backups.backups import Backup, Restore
from compute_agent.volumes.daemons.exports import volume_of
from compute_agent.volumes.errors import VolumeInUseError
from compute_agent.volumes.memory import VolumeMemory
from compute_agent.volumes.services import Volumes

V = TypeVar("V", bound=VolumeCommand)

LETS_GO_WITHIN = 30.0
"""Seconds in which a guest may release a volume that is to be deleted."""
LOOK_EVERY = 0.5
Exports = Callable[[], Collection[str]]
Work = Callable[[Volumes, V, Stopped], VolumeConnection | None]


class VolumeHandler(CommandHandler[V]):
    """Executes a command by one call of ``Volumes``. The result is reported as the volume's connection."""

    def __init__(self, volumes: Volumes, work: Work[V], *, heavy: bool = False, removes: bool = False) -> None:
        self.heavy, self.removes = heavy, removes
        self._volumes = volumes
        self._work = work

    async def run(self, context: CommandContext, body: V) -> Outcome:
        def work() -> VolumeConnection | None:
            with progress.heard_by(context.moved, context.counted):
                return self._work(self._volumes, body, context.stopped)

        connection = await context.work(work)
        detail = {} if connection is None else {"connection": msgspec.json.encode(connection).decode()}
        if self.removes and (kept := await context.work(lambda: self._volumes.kept_of(body.volume))):
            detail["kept"] = str(kept)
        return Outcome(gone=self.removes, detail=detail)


class CreateVolume(VolumeHandler[CreateVolumeRequest]):
    """Creates a volume. A delete command stops it."""

    makes = True


class DeleteVolume(VolumeHandler[DeleteVolumeRequest]):
    """Removes a volume unless a guest of this host has it open. Waits a while for a guest that is about to close it.
    The portal's records about the guest may be wrong, and deleted data cannot be restored.
    """

    def __init__(self, volumes: Volumes, exports: Exports) -> None:
        super().__init__(volumes, _delete, removes=True)
        self._exports = exports

    async def run(self, context: CommandContext, body: DeleteVolumeRequest) -> Outcome:
        until = timing.now() + LETS_GO_WITHIN
        while body.volume.id in {volume_of(name) for name in await context.work(self._exports)}:
            if timing.now() >= until:
                raise VolumeInUseError("A server on this host still has the volume open.")
            await asyncio.sleep(LOOK_EVERY)
        return await super().run(context, body)


class ReimageVolume(CommandHandler[ReimageVolumeRequest]):
    """Writes an image over a volume."""

    heavy = True

    def __init__(self, volumes: Volumes) -> None:
        self._volumes = volumes

    async def run(self, context: CommandContext, body: ReimageVolumeRequest) -> Outcome:
        def work() -> None:
            with progress.heard_by(context.moved, context.counted):
                self._volumes.reimage(body.volume, body.image, context.subject.id, context.stopped)

        await context.work(work)
        return Outcome()


def _create(volumes: Volumes, body: CreateVolumeRequest, stopped: Stopped) -> None:
    volumes.create(body.volume, body.source, stopped)


def _delete(volumes: Volumes, body: DeleteVolumeRequest, _: Stopped) -> None:
    volumes.delete(body.volume)


def _connect(volumes: Volumes, body: ConnectVolumeRequest, _: Stopped) -> VolumeConnection | None:
    return volumes.connect(body.volume, body.clients)


def _grow(volumes: Volumes, body: GrowVolumeRequest, _: Stopped) -> VolumeConnection | None:
    return volumes.grow(body.volume)


def _snapshot(volumes: Volumes, body: SnapshotVolumeRequest, _: Stopped) -> None:
    volumes.snapshot(body.volume, body.snapshot_id)


def _delete_snapshot(volumes: Volumes, body: DeleteSnapshotRequest, stopped: Stopped) -> None:
    volumes.delete_snapshot(body.volume, body.snapshot_id, stopped)


def _manage_snapshot(volumes: Volumes, body: ManageSnapshotRequest, _: Stopped) -> None:
    volumes.driver(body.volume.pool_id).rename_snapshot(body.volume, body.name, body.snapshot_id)


def _unmanage_snapshot(volumes: Volumes, body: UnmanageSnapshotRequest, _: Stopped) -> None:
    volumes.driver(body.volume.pool_id).rename_snapshot(body.volume, body.snapshot_id, body.name)


def _revert(volumes: Volumes, body: RevertVolumeRequest, _: Stopped) -> None:
    volumes.revert(body.volume, body.snapshot_id)


def _fetch(volumes: Volumes, body: FetchVolumeRequest, stopped: Stopped) -> None:
    volumes.fetch(body.volume, body.origin, stopped)


def _unmanage(volumes: Volumes, body: UnmanageVolumeRequest, stopped: Stopped) -> None:
    volumes.unmanage(body.volume, body.name, stopped)


def _upload(volumes: Volumes, body: UploadVolumeRequest, stopped: Stopped) -> None:
    volumes.upload(body, stopped)


class Fenced(CommandHandler[V]):
    """Refuses commands that are older than the newest that this host has seen, and passes other commands to
    a handler.
    """

    def __init__(self, handler: CommandHandler[V], memory: VolumeMemory) -> None:
        self.heavy, self.makes, self.removes = handler.heavy, handler.makes, handler.removes
        self.resumes_late = handler.resumes_late
        self._handler = handler
        self._memory = memory

    async def run(self, context: CommandContext, body: V) -> Outcome:
        known = None if context.begun else self._memory.refuses(body)
        if known is not None:
            return Outcome(SUPERSEDED, detail={"known": msgspec.json.encode(known).decode()})
        self._memory.begin(body)
        outcome = await self._handler.run(context, body)
        if outcome.failure is None:
            self._memory.end(context.subject.id, body)
        return outcome

    def owner(self, context: CommandContext, body: V) -> str:
        return self._handler.owner(context, body)

    async def refuse(self, context: CommandContext, body: V, failure: Failure) -> Outcome:
        return await self._handler.refuse(context, body, failure)


class VolumeKind(SubjectKind):
    """The volumes of one host as one kind of subject, or the copies of their data as another kind."""

    def __init__(self, kind: str, handlers: dict[type, CommandHandler[Any]], volumes: Volumes) -> None:
        self.kind = kind
        self.handlers = handlers
        self._volumes = volumes

    def place(self, body: CommandBody) -> str:
        volume = getattr(body, "volume", None)
        return volume.pool_id if isinstance(volume, VolumeSpec) and self._volumes.remote(volume.pool_id) else ""

    async def sweep(self, record: SubjectRecord) -> bool:
        """Return True, as nothing is left to remove: pools are swept as a whole, and the portal repeats a delete."""
        return True

    def settled(self, subject_id: str) -> None:
        """Do nothing: nothing waits for a volume's commands."""


def volume_kinds(volumes: Volumes, memory: VolumeMemory, exports: Exports) -> list[VolumeKind]:
    """Return the kinds of subjects of a host with volumes. ``exports`` returns the exports that the host's guests have
    open.
    """
    moments = PoolCopies(volumes, volumes.staging)
    changes: dict[type, CommandHandler[Any]] = {
        CreateVolumeRequest: CreateVolume(volumes, _create),
        DeleteVolumeRequest: DeleteVolume(volumes, exports),
        ConnectVolumeRequest: VolumeHandler(volumes, _connect),
        GrowVolumeRequest: VolumeHandler(volumes, _grow),
        SnapshotVolumeRequest: VolumeHandler(volumes, _snapshot),
        DeleteSnapshotRequest: VolumeHandler(volumes, _delete_snapshot),
        ManageSnapshotRequest: VolumeHandler(volumes, _manage_snapshot),
        UnmanageSnapshotRequest: VolumeHandler(volumes, _unmanage_snapshot),
        RevertVolumeRequest: VolumeHandler(volumes, _revert),
        FetchVolumeRequest: VolumeHandler(volumes, _fetch, heavy=True),
        ReimageVolumeRequest: ReimageVolume(volumes),
        UnmanageVolumeRequest: VolumeHandler(volumes, _unmanage, heavy=True, removes=True),
        RestoreVolumeRequest: Restore(volumes.backups, moments),
    }
    copies: dict[type, CommandHandler[Any]] = {
        UploadVolumeRequest: VolumeHandler(volumes, _upload, heavy=True),
        BackupVolumeRequest: Backup(volumes.backups, moments),
    }
    fenced: dict[type, CommandHandler[Any]] = {body: Fenced(each, memory) for body, each in changes.items()}
    return [VolumeKind(VOLUME, fenced, volumes), VolumeKind(VOLUME_COPY, copies, volumes)]
