"""Changes the type of volumes, also together with the size (EC2's ModifyVolume): immediately if the pool meets the
requirements of the type, otherwise by a migration.
"""

import uuid
from dataclasses import dataclass

from django.db import transaction
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import InvalidInputError
from provisioning.quotas.services.ledger import hold
from provisioning.quotas.services.ledger import release as release_quota
from provisioning.scheduler.pools import decide_pool
from provisioning.volumes.errors import BeingModifiedError, InvalidVolumeError
from provisioning.volumes.models import Snapshot, StoragePool, Volume, VolumeModification, VolumeType
from provisioning.volumes.pools import placement
from provisioning.volumes.records import quota
from provisioning.volumes.selectors import type_for
from provisioning.volumes.selectors.guests import limits_of
from provisioning.volumes.services.checks import (
    check_in_no_group,
    check_may_share,
    check_not_leaving,
    check_not_moving,
    locked_volume,
    pool_of,
)
from provisioning.volumes.services.updates import limits
from provisioning.volumes.services.updates.extend import Extend
from provisioning.volumes.services.updates.migrate import Move
from provisioning.volumes.state_machine import state
from provisioning.volumes.state_machine.deadlines import MINUTE, by_status
from provisioning.volumes.states import VolumeStatus

NEVER, ON_DEMAND = "never", "on-demand"


@dataclass(frozen=True, slots=True)
class RetypeRequest:
    """A request for another type; ``migration_policy``: whether the data may be moved for it."""

    new_type: str
    migration_policy: str = NEVER


class Retype(Move[RetypeRequest]):
    """Change the type of a volume, and move its data if its pool does not meet the requirements of the type."""

    rule = "volume:retype"
    status = VolumeStatus.RETYPING
    notification = "retype"
    timeouts = by_status({VolumeStatus.RETYPING: 60 * MINUTE})

    def start(self, context: RequestContext, volume: Volume, request: RetypeRequest) -> Volume:
        """Change the type immediately if the pool meets its requirements; otherwise start to move the data.

        Raises NotFoundError for the type, ForbiddenError, InvalidVolumeError, OverQuotaError, InvalidInputError if the
        data must be moved and the policy is ``never``, or no pool has enough capacity.
        """
        if request.migration_policy not in (NEVER, ON_DEMAND):
            raise InvalidInputError("The migration policy must be never or on-demand.", field="migration_policy")
        target = type_for(context, request.new_type)
        if target.id == volume.volume_type_id:
            raise InvalidInputError(f"Volume {volume.id} already has this type.", field="new_type")
        pool_of(volume)
        check_not_moving(volume)
        check_not_leaving(volume)
        check_in_no_group(volume)
        encrypted = hasattr(target, "encryption")
        multiattach = placement.allows_multiattach(target)
        if volume.status == VolumeStatus.IN_USE and multiattach != volume.multiattach:
            raise InvalidVolumeError("Multiattach can only be changed while the volume is not attached.")
        if not volume.multiattach:
            check_may_share(context, target)
        hold(volume.project_id, volume.id, quota.of_type(target, volume.size_gb))
        if encrypted == bool(volume.encryption_key) and _fits(context, volume, target):
            return self.in_place(volume, target, multiattach=multiattach)
        if request.migration_policy == NEVER:
            msg = "The volume must be moved for this type, but the migration policy is never."
            raise InvalidInputError(msg, field="migration_policy")
        self.check_movable(volume)
        pool_request = placement.request_of(context, size_gb=volume.size_gb, volume_type=target)
        pool_id, reason = placement.place(pool_request)
        if pool_id is None:
            raise InvalidInputError(reason, field="new_type")
        return self.move(volume, StoragePool.objects.get(id=pool_id), target)

    def in_place(self, volume: Volume, target: VolumeType, *, multiattach: bool) -> Volume:
        """Change the type of a volume that stays in its pool."""
        before = limits_of(volume.volume_type, volume.size_gb)
        if volume.volume_type is not None:
            release_quota(volume.id, only=list(quota.of_type(volume.volume_type, volume.size_gb)))
        _move_snapshots(volume, target)
        columns = {"volume_type": target, "multiattach": multiattach}
        state.update(volume, columns, self.start_of(), self.end_of())
        if limits_of(target, volume.size_gb) != before:
            limits.notify_guests(volume)
        return volume


def _fits(context: RequestContext, volume: Volume, target: VolumeType) -> bool:
    """Return whether the volume's own pool meets the requirements of the type."""
    request = placement.request_of(context, size_gb=0, volume_type=target)
    own = [pool for pool in placement.pool_views() if pool.id == volume.pool_id]
    return bool(decide_pool(own, request).ranked)


def _move_snapshots(volume: Volume, target: VolumeType) -> None:
    """Count the quota of the volume's snapshots for its new type.  Raises OverQuotaError."""
    for each in Snapshot.objects.filter(volume_id=volume.id, consumes_quota=True):
        if volume.volume_type is not None:
            release_quota(each.id, only=list(quota.of_snapshot_type(volume.volume_type, each.size_gb)))
        hold(each.project_id, each.id, quota.of_snapshot_type(target, each.size_gb))


@when_broken_off
@transaction.atomic
def modify_volume(
    context: RequestContext, volume_id: str | uuid.UUID, *, size_gb: int | None = None, volume_type: str = ""
) -> VolumeModification:
    """Extend a volume, change its type (moving its data if necessary), or both. None and "": unchanged.

    Raises the errors of ``Extend`` and ``Retype``, BeingModifiedError during another change, and
    InvalidInputError if the data must be moved before the volume can be extended.
    """
    volume = locked_volume(context, volume_id)
    if volume.status in state.TASKS:
        raise BeingModifiedError(f"Volume {volume.id} is being modified.")
    target = type_for(context, volume_type) if volume_type else volume.volume_type
    size = volume.size_gb if size_gb is None else size_gb
    if size < volume.size_gb:
        msg = f"The new size, {size} GiB, is less than the current one, {volume.size_gb} GiB: volumes cannot shrink."
        raise InvalidInputError(msg, field="new_size")
    row, _ = VolumeModification.objects.update_or_create(
        volume=volume,
        defaults={
            "original_size_gb": volume.size_gb,
            "target_size_gb": size,
            "original_type": state.type_name(volume),
            "target_type": target.name if target else "",
            "original_multiattach": volume.multiattach,
            "target_multiattach": placement.allows_multiattach(target) if target else volume.multiattach,
            "started_at": timezone.now(),
            "ended_at": None,
            "failed": False,
        },
    )
    if target is not None and target.id != volume.volume_type_id:
        volume = Retype.begin(context, volume.id, RetypeRequest(str(target.id), ON_DEMAND))
    if size > volume.size_gb:
        _check_stays(volume)
        volume = Extend.begin(context, volume.id, size)
    if volume.status not in state.TASKS:
        state.reread(volume)
        state.end(volume)
    row.refresh_from_db()
    return row


def _check_stays(volume: Volume) -> None:
    if volume.status in state.TASKS:
        msg = f"The data of volume {volume.id} must be moved for this type; extend it afterwards."
        raise InvalidInputError(msg, field="volume_type")
