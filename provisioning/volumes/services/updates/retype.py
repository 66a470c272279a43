"""Changes the type of volumes: immediately if the pool meets the requirements of the type, otherwise by a migration."""

from dataclasses import dataclass

from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.quotas.services.ledger import hold
from provisioning.quotas.services.ledger import release as release_quota
from provisioning.scheduler.pools import decide_pool
from provisioning.volumes.errors import InvalidVolumeError
from provisioning.volumes.models import Snapshot, StoragePool, Volume, VolumeType
from provisioning.volumes.pools import placement
from provisioning.volumes.records import quota
from provisioning.volumes.selectors import type_for
from provisioning.volumes.selectors.guests import limits_of
from provisioning.volumes.services.checks import (
    check_in_no_group,
    check_may_share,
    check_not_leaving,
    check_not_moving,
    pool_of,
)
from provisioning.volumes.services.updates import limits
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
