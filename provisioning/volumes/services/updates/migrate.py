"""Migration of a volume's data to another pool, and to another volume type.

A hidden volume (``migration_of``) is created in the new pool. If the volume is not attached, its host exports it to the
new pool's host, which copies it. If it is attached to a server, the hidden volume is connected to the guest's host,
which copies the disk while the guest runs (``VolumeUser.swap``, ``swapped``). Then the volumes exchange their data, and
the hidden volume is deleted with the old data. After a failure the volume is unchanged.

Heartbeats of the hidden volume's commands and of the command that copies the guest's disk extend the volume's deadline:
a migration may take as long as it makes progress. After a host has received the command to switch the guest, only the
host's report ends the migration. A timeout or an operator's reset does not, because only the host knows which data the
guest writes to. If that report can no longer arrive, because the host's record was deleted or the server has left the
host, both copies of the data are kept, the volume is in ``error``, and an operator decides (``keep_data``).
"""

import uuid
from collections.abc import Iterable
from datetime import datetime
from typing import Any, ClassVar, Generic

from django.db import transaction

from compute_agent.contract.messages import AgentEvent
from compute_agent.contract.volume import ConnectVolumeRequest, CreateVolumeRequest, FetchVolumeRequest, VolumeClient
from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError, ForbiddenError, InvalidInputError, NotFoundError, UnavailableError
from provisioning.common.tasks import P
from provisioning.common.values.ids import NOBODY
from provisioning.hosts import commands
from provisioning.quotas.services.ledger import release as release_quota
from provisioning.volumes.errors import InvalidVolumeError
from provisioning.volumes.host_link import connections
from provisioning.volumes.host_link.host_commands import NO_HOST, host_of, hosts_of, send, send_to, spec_of
from provisioning.volumes.models import Attachment, Snapshot, StoragePool, Volume, VolumeType
from provisioning.volumes.pools import placement
from provisioning.volumes.records import keys, quota, uses
from provisioning.volumes.services import messages
from provisioning.volumes.services.checks import (
    MIGRATING,
    SWAPPING,
    check_in_no_group,
    check_not_leaving,
    check_thawed,
    locked_volume,
    pool_of,
)
from provisioning.volumes.services.connections import daemons
from provisioning.volumes.services.lifecycle.delete import delete
from provisioning.volumes.services.user_tasks import OfVolume
from provisioning.volumes.state_machine import state
from provisioning.volumes.state_machine.deadlines import MINUTE, by_status, deadline_of
from provisioning.volumes.states import AttachStatus, VolumeStatus
from provisioning.volumes.tasks import VolumeTask, reason_of

SUCCESS, FAILED = "success", "error"
UNDECIDED = (
    "The host has not reported whether it switched the server to the volume's new data. Both copies are"
    " kept. An operator decides which of them the volume gets."
)


def exported(volume: Volume, event: AgentEvent, body: ConnectVolumeRequest) -> bool:
    """Send the new pool's host a FetchVolumeRequest; return False if ``body`` is not for a migration."""
    named = [client.attachment_id for client in body.clients]
    hidden = Volume.objects.filter(migration_of=volume.id, id__in=named).select_related("pool").first()
    if hidden is None or volume.migration_status != MIGRATING:
        return False
    if event.kind == "failed":
        abort(volume, reason_of(event))
        return True
    origin = connections.connection_for(
        event,
        body.volume,
        client_id=hidden.id,
        client_host=hidden.daemon_host_id,
        daemon=volume.daemon_host_id or NOBODY,
    )
    if origin is None:
        abort(volume, connections.REFUSED)
        return True
    send(hidden, FetchVolumeRequest(volume=spec_of(hidden), origin=origin), status=volume.status)
    return True


class Move(OfVolume[P, Volume], VolumeTask[FetchVolumeRequest], Generic[P]):
    """Base of the tasks that copy the data of a volume to a hidden volume in another pool. Reports are about the hidden
    volume.
    """

    status: ClassVar[VolumeStatus]
    body = FetchVolumeRequest
    legal_from = (VolumeStatus.AVAILABLE, VolumeStatus.IN_USE)
    when_overdue = "the migration is aborted: the volume is unchanged"

    def check_movable(self, volume: Volume) -> None:
        """Raise InvalidVolumeError for a volume whose data cannot be moved now."""
        pool_of(volume)
        check_thawed(volume)
        check_not_leaving(volume)
        check_in_no_group(volume)
        if Snapshot.objects.filter(volume_id=volume.id).exists():
            raise InvalidVolumeError(f"Volume {volume.id} has snapshots, which cannot be moved.")
        if Volume.objects.filter(migration_of=volume.id).exists():
            raise InvalidVolumeError(
                f"Volume {volume.id} is being moved, or data of an earlier move is not deleted yet."
            )
        using = list(Attachment.objects.filter(volume_id=volume.id))
        movable = [each for each in using if each.status == AttachStatus.ATTACHED and each.instance_id and each.host_id]
        if len(using) > 1 or len(movable) < len(using):
            raise InvalidVolumeError(f"Volume {volume.id} can only be moved in use while it is attached to one server.")

    def move(self, volume: Volume, pool: StoragePool, volume_type: VolumeType | None) -> Volume:
        """Start to move a locked volume to a pool and a type. The caller has claimed the pool's capacity.

        Raises UnavailableError if no host serves the new pool.
        """
        hidden = Volume.objects.create(
            project_id=volume.project_id,
            user_id=volume.user_id,
            name=volume.name,
            size_gb=volume.size_gb,
            status=VolumeStatus.CREATING,
            pool=pool,
            volume_type=volume_type,
            availability_zone=pool.availability_zone,
            migration_of=volume.id,
            deadline=deadline_of(self.status),
            **keys.new_columns(getattr(volume_type, "encryption", None)),
        )
        state.move(volume, self.status, self.start_of(), changes={"migration_status": MIGRATING})
        if Attachment.objects.filter(volume_id=volume.id).exists():
            send(hidden, CreateVolumeRequest(volume=spec_of(hidden)), status=self.status)
            return volume
        target, source = next((host.id for host in hosts_of(pool)), None), host_of(volume)
        if target is None:
            raise UnavailableError(NO_HOST)
        client = VolumeClient(attachment_id=str(hidden.id), host_id=str(target), local=target == source, read_only=True)
        Volume.objects.filter(id=volume.id).update(daemon_host_id=source)
        volume.daemon_host_id = source
        Volume.objects.filter(id=hidden.id).update(daemon_host_id=target)
        body = ConnectVolumeRequest(volume=spec_of(volume), clients=[client])
        send_to(source, volume, body, status=self.status)
        return volume

    def end(self, subject: Volume, event: AgentEvent, body: FetchVolumeRequest, host_id: uuid.UUID) -> None:
        moved = _volume_of(subject)
        if moved is None:
            return
        if event.kind == "failed":
            self.failed(moved, reason_of(event))
        else:
            self.finished(subject, event, body, host_id)

    def finished(self, subject: Volume, event: AgentEvent, body: FetchVolumeRequest, host_id: uuid.UUID) -> None:
        Volume.objects.filter(id=subject.id).update(daemon_host_id=None)
        state.reread(subject)
        if (moved := _volume_of(subject)) is not None:
            exchange(moved, subject)

    def failed(self, subject: Volume, reason: str) -> None:
        abort(subject, reason)


class Migrate(Move[uuid.UUID]):
    """Move the data of a volume to another pool, for an operator. The request is the id of the pool."""

    rule = "volume_extension:volume_admin_actions:migrate_volume"
    status = VolumeStatus.MAINTENANCE
    notification = "migrate"
    timeouts = by_status({VolumeStatus.MAINTENANCE: 60 * MINUTE})

    def start(self, context: RequestContext, volume: Volume, request: uuid.UUID) -> Volume:
        """Check the pool, claim its capacity, and start to move the data.

        Raises ForbiddenError, NotFoundError for the pool, InvalidVolumeError, and InvalidInputError if the pool has not
        enough capacity.
        """
        if not context.is_admin:
            raise ForbiddenError("Only operators may migrate volumes.")
        pool = StoragePool.objects.filter(id=request).first()
        if pool is None:
            raise NotFoundError(f"There is no storage pool {request}.", field="host")
        if pool.id == volume.pool_id:
            raise InvalidInputError(f"Volume {volume.id} is already in this pool.", field="host")
        self.check_movable(volume)
        if not placement.claim(pool.id, volume.size_gb):
            raise InvalidInputError(f"Pool {pool.name} has no space, or is disabled.", field="host")
        return self.move(volume, pool, volume.volume_type)


def created(hidden: Volume, reason: str) -> None:
    """Connect the new, empty hidden volume to the guest's host.

    ``reason``: why the hidden volume could not be created; then the migration is aborted.
    """
    volume = _volume_of(hidden)
    old = Attachment.objects.filter(volume_id=volume.id).first() if volume else None
    if volume is None:
        return
    if reason or old is None:
        abort(volume, reason or "The volume was detached from the server in the meantime.")
        return
    Attachment.objects.create(
        volume=hidden,
        project_id=hidden.project_id,
        instance_id=old.instance_id,
        host=old.host,
        status=AttachStatus.ATTACHING,
        mode=old.mode,
        mountpoint=old.mountpoint,
    )
    daemons.send_clients(hidden)


def connected(new: Attachment, reason: str) -> None:
    """Start the swap, because the guest's host can open the hidden volume.

    ``reason``: why the host cannot open it; then the migration is aborted.
    """
    volume = _volume_of(new.volume)
    old = Attachment.objects.select_related("volume").filter(volume_id=new.volume.migration_of or NOBODY).first()
    if volume is None:
        return
    if reason or old is None:
        abort(volume, reason or "The volume was detached from the server in the meantime.")
        return
    uses.user().swap(old, new)


def swap_sent(new_attachment_id: uuid.UUID | str) -> None:
    """Record that a host has the command to switch a guest to a hidden volume, in the caller's transaction."""
    hidden = Volume.objects.filter(attachments__id=new_attachment_id, migration_of__isnull=False)
    Volume.objects.filter(id__in=list(hidden.values_list("id", flat=True))).update(migration_status=SWAPPING)


@transaction.atomic
def swapped(new_attachment_id: uuid.UUID, *, failed: str = "", reported: bool = False) -> None:
    """Complete the migration after the guest has switched to the new data.

    Afterwards the new attachment belongs to the volume, and the old attachment is deleted. ``failed``: why the switch
    failed; then the migration is aborted. ``reported``: the failure comes from the host, so the guest does not use the
    new data.
    """
    new = Attachment.objects.select_related("volume").filter(id=new_attachment_id).first()
    if new is None or new.volume.migration_of is None:
        return
    state.lock([new.volume_id, new.volume.migration_of])
    hidden, volume = Volume.objects.get(id=new.volume_id), _volume_of(new.volume)
    if volume is None or failed:
        if volume is not None:
            if reported:
                Volume.objects.filter(id=hidden.id).update(migration_status="")
            abort(volume, failed)
        return
    old = Attachment.objects.filter(volume_id=volume.id).first()
    Attachment.objects.filter(volume_id=volume.id).delete()
    kept = {"attached_at": old.attached_at, "mountpoint": old.mountpoint, "exclusive": old.exclusive} if old else {}
    Attachment.objects.filter(id=new.id).update(volume_id=volume.id, status=AttachStatus.ATTACHED, **kept)
    exchange(volume, hidden)


def is_swapping(volume: Volume) -> bool:
    """Return whether a host has an unfinished command to switch a guest to the volume's new data."""
    coming = Attachment.objects.filter(volume__migration_of=volume.id)
    return any(uses.user().is_swapping(each) for each in coming)


def extend_guest_deadline(attachment_id: uuid.UUID, until: datetime) -> None:
    """Extend the deadline of an attachment's volume, because a host works on its guest's disk.

    If it is a hidden volume, the deadline of the volume that is being migrated is also extended.
    """
    attachment = Attachment.objects.select_related("volume").filter(id=attachment_id).first()
    if attachment is not None:
        goes_on(state.lock([attachment.volume_id, attachment.volume.migration_of or NOBODY]).values(), until)


def goes_on(locked: Iterable[Volume], until: datetime) -> None:
    """Extend the deadlines of those locked volumes that have a task with a deadline."""
    for volume in locked:
        if volume.deadline is not None:
            volume.deadline = until + commands.MARGIN
            Volume.objects.filter(id=volume.id).update(deadline=volume.deadline)


def _volume_of(hidden: Volume) -> Volume | None:
    """Return the volume that is migrated to a hidden volume, locked; None if the migration has ended."""
    if hidden.migration_of is None:
        return None
    volume = state.lock([hidden.migration_of]).get(hidden.migration_of)
    awaited = volume is not None and (volume.migration_status == MIGRATING or hidden.migration_status == SWAPPING)
    return volume if awaited else None


def open_data(volume: Volume) -> Volume | None:
    """Return the hidden volume of a volume, locked, if the result of the swap is unknown; otherwise None.

    The hidden volume may then have the newest data.
    """
    ids = list(Volume.objects.filter(migration_of=volume.id, migration_status=SWAPPING).values_list("id", flat=True))
    return next(iter(state.lock(ids).values()), None)


_DATA = ("pool_id", "encryption_key", "cipher", "key_size", "daemon_host_id", "availability_zone")


def exchange(volume: Volume, hidden: Volume) -> None:
    """Exchange the data of a volume and its hidden volume, and delete the hidden volume. The caller has locked both
    volumes.
    """
    mine: dict[str, Any] = {name: getattr(volume, name) for name in _DATA}
    theirs: dict[str, Any] = {name: getattr(hidden, name) for name in _DATA}
    mine["data_id"], theirs["data_id"] = volume.data_id or volume.id, hidden.data_id or hidden.id
    volume.version = max(volume.version, hidden.version)  # hosts have seen the versions of both
    Volume.objects.filter(id=volume.id).update(version=volume.version)
    Volume.objects.filter(id=hidden.id).update(**mine, version=volume.version, migration_status="")
    old_type, new_type = volume.volume_type, hidden.volume_type
    retyping = hidden.volume_type_id != volume.volume_type_id
    if retyping:
        _settle_quota(volume, old_type, new_type)
        theirs |= {"volume_type": new_type, "multiattach": placement.allows_multiattach(new_type)}
    verb = "retype.end" if retyping else "migrate.end"
    changes = {**theirs, "migration_status": SUCCESS}
    if volume.status in MOVING:
        state.end_task(volume, verb, changes=changes)
    elif (volume.migration_status, volume.status) == (FAILED, VolumeStatus.ERROR):  # the result was unknown
        state.move(volume, state.at_rest(volume), verb, changes=changes, reset=True)
    else:  # an operator has set another status in the meantime
        state.settle(volume, verb, changes=changes)
    state.reread(volume)
    gone = state.lock([hidden.id])[hidden.id]
    delete(gone, force=True)


def _settle_quota(volume: Volume, old: VolumeType | None, new: VolumeType | None) -> None:
    """Release the quota usage of the volume's former type."""
    if old is not None and old != new:
        release_quota(volume.id, only=list(quota.of_type(old, volume.size_gb)))


MOVING = (VolumeStatus.MAINTENANCE, VolumeStatus.RETYPING)


def abort(volume: Volume, reason: str) -> None:
    """End a migration that failed: the volume is unchanged, and the hidden volume is deleted.

    While a host switches a guest to the new data, only the deadline is extended, because the host's report ends the
    migration. If that report can no longer arrive, nothing is deleted and the volume is in ``error`` (``keep_data``).
    """
    if is_swapping(volume):
        Volume.objects.filter(id=volume.id).update(deadline=deadline_of(volume.status))
        return
    retyping = volume.status == VolumeStatus.RETYPING
    action = messages.RETYPE if retyping else messages.MIGRATE
    hidden = open_data(volume)
    if hidden is not None:
        messages.of_volume(volume, action, UNDECIDED)
        Volume.objects.filter(id=hidden.id).update(deadline=None)
        cleared = {"progress_bytes": 0, "progress_total": 0, "migration_status": FAILED, "deadline": None}
        state.move(volume, VolumeStatus.ERROR, changes=cleared, reset=True)
        return
    messages.of_volume(volume, action, reason)
    drop_hidden(volume, retyping=retyping)
    if volume.status in MOVING:
        state.end_task(volume, changes={"migration_status": FAILED})
    else:
        state.settle(volume, changes={"migration_status": FAILED})
    if not Attachment.objects.filter(volume_id=volume.id).exists():
        daemons.send_clients(volume)


def drop_hidden(volume: Volume, *, retyping: bool) -> None:
    """Delete the hidden volume of a locked volume's migration, and release its quota."""
    hidden_ids = list(Volume.objects.filter(migration_of=volume.id).values_list("id", flat=True))
    for hidden in state.lock(hidden_ids).values():
        if retyping and hidden.volume_type is not None and hidden.volume_type_id != volume.volume_type_id:
            release_quota(volume.id, only=list(quota.of_type(hidden.volume_type, volume.size_gb)))
        Attachment.objects.filter(volume_id=hidden.id).delete()
        delete(hidden, force=True)


@when_broken_off
@transaction.atomic
def keep_data(context: RequestContext, volume_id: uuid.UUID | str, *, new: bool) -> Volume:
    """Keep the ``new`` or the old data of a volume's migration, and delete the other copy.

    Raises ForbiddenError, VolumeNotFoundError, and ConflictError if there is nothing to decide, or a guest has the old
    or the new data open on a host that is not forced down.
    """
    if not context.is_admin:
        raise ForbiddenError("Only operators may decide about the data of a volume.")
    volume = locked_volume(context, volume_id)
    hidden = open_data(volume)
    if hidden is None:
        raise ConflictError(f"Volume {volume.id} has no undecided data.")
    using = Attachment.objects.filter(volume_id__in=[volume.id, hidden.id]).exclude(connection={})
    if using.filter(host__forced_down=False).exists():
        raise ConflictError("A server has the volume open. Detach it, or force its host down if it is off.")
    retyping = volume.volume_type_id != hidden.volume_type_id
    Attachment.objects.filter(volume_id=hidden.id).delete()
    if new:
        exchange(volume, hidden)
        return volume
    drop_hidden(volume, retyping=retyping)
    if volume.migration_status == MIGRATING or volume.status == VolumeStatus.ERROR:
        state.move(volume, state.at_rest(volume), changes={"migration_status": FAILED}, reset=True)
    return volume
