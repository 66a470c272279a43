"""Creates volumes: validates the request, reserves the quota, chooses a pool and sends the command in one transaction.

creating (from an image: downloading) → available; error with a message if no pool has enough capacity or the host
fails. After a retryable failure the next pool is tried, up to three pools in total.
"""

import uuid
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from django.utils import timezone

from compute_agent.contract.messages import AgentEvent
from compute_agent.contract.volume import CreateVolumeRequest, DeleteVolumeRequest, VolumeSource
from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError, InvalidInputError
from provisioning.common.tasks import CreationTask
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.hosts.models import DEFAULT_ZONE
from provisioning.quotas.services.ledger import hold
from provisioning.scheduler.pools import PoolRequest, zones_of
from provisioning.volumes.host_link.host_commands import send, spec_of
from provisioning.volumes.models import Group, StoragePool, Volume, VolumeType
from provisioning.volumes.pools import placement
from provisioning.volumes.records import keys, quota, uses
from provisioning.volumes.records.announcements import announce
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.selectors import default_type, type_for
from provisioning.volumes.services import messages
from provisioning.volumes.services.checks import check_may_share, check_metadata, check_size, check_texts, check_zone
from provisioning.volumes.services.lifecycle.reimage import Reimage
from provisioning.volumes.services.lifecycle.sources import Source, source_of
from provisioning.volumes.state_machine import state
from provisioning.volumes.state_machine.deadlines import MINUTE, by_status, deadline_of
from provisioning.volumes.states import VolumeStatus
from provisioning.volumes.tasks import VolumeTask, reason_of

FILLING = (VolumeStatus.CREATING, VolumeStatus.DOWNLOADING)
"""The statuses of new volumes."""


class Requested(Protocol):
    """The parameters that all requests for a volume have."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def metadata(self) -> Mapping[str, str]: ...


Q = TypeVar("Q", bound=Requested)


@dataclass(frozen=True, slots=True)
class Plan:
    """A validated request for a volume."""

    size_gb: int
    volume_type: VolumeType | None
    pool_request: PoolRequest
    source: VolumeSource
    columns: Mapping[str, Any]
    """More columns of the new volume."""


class NewVolume(CreationTask[Volume, Q], VolumeTask[CreateVolumeRequest], Generic[Q]):
    """A task that creates the record of a volume, and completes it when a host reports the data."""

    body = CreateVolumeRequest

    def start(self, context: RequestContext, request: Q, key: uuid.UUID) -> Volume:
        """Create the volume. Raises ForbiddenError, InvalidInputError, OverQuotaError, and the errors of ``plan``."""
        if context.project_id is None:
            raise ForbiddenError("A volume needs a project.")
        check_texts(request.name, request.description)
        check_metadata(request.metadata)
        plan = self.plan(context, context.project_id, request)
        hold(context.project_id, key, quota.of_volume(plan.volume_type, plan.size_gb))
        volume = Volume.objects.create(
            id=key,
            project_id=context.project_id,
            user_id=context.user_id,
            name=request.name,
            description=request.description,
            size_gb=plan.size_gb,
            status=VolumeStatus.DOWNLOADING if plan.source.image else VolumeStatus.CREATING,
            volume_type=plan.volume_type,
            multiattach=placement.allows_multiattach(plan.volume_type),
            metadata=dict(request.metadata),
            **plan.columns,
        )
        announce(volume, "create.start")
        pool_id, reason = self.choose_pool(plan)
        if pool_id is None:
            messages.of_volume(
                volume, messages.SCHEDULE, reason, detail=messages.NO_HOST, request_id=context.request_id
            )
            state.move(volume, VolumeStatus.ERROR, changes={"deadline": None})
            uses.user().failed(volume, reason)
            return volume
        volume.pool = StoragePool.objects.get(id=pool_id)
        volume.availability_zone = volume.pool.availability_zone
        Volume.objects.filter(id=volume.id).update(
            pool=volume.pool, deadline=deadline_of(volume.status), availability_zone=volume.availability_zone
        )
        send(volume, CreateVolumeRequest(volume=spec_of(volume), source=plan.source))
        return volume

    @abstractmethod
    def plan(self, context: RequestContext, project_id: uuid.UUID, request: Q) -> Plan:
        """Validate the request. Raises NotFoundError for a source or type, InvalidInputError, ForbiddenError."""

    def choose_pool(self, plan: Plan) -> tuple[uuid.UUID | None, str]:
        """Claim the capacity of a pool, and return its id; without a pool, the reason."""
        return placement.place(plan.pool_request)

    def end(self, volume: Volume, event: AgentEvent, body: CreateVolumeRequest, host_id: uuid.UUID) -> None:
        """Handle the report, even if the task has timed out. After a retryable failure, another pool is tried."""
        late = volume.status == VolumeStatus.ERROR and volume.launched_at is None
        if volume.status not in FILLING and not late:
            return
        if event.kind != "failed":
            self.finished(volume, event, body, host_id)
        elif not late and not _elsewhere(volume, event, body):
            self.failed(volume, reason_of(event))

    def finished(self, volume: Volume, event: AgentEvent, body: CreateVolumeRequest, host_id: uuid.UUID) -> None:
        """End the task. If the volume is created from a backup, start the restore instead."""
        if volume.source_backup_id and volume.status != VolumeStatus.ERROR:
            state.update(volume, {"launched_at": timezone.now()})
            uses.FILL.only()(volume)
            return
        ready(volume)

    def failed(self, volume: Volume, reason: str) -> None:
        """Set a new volume to ``error``, with a message."""
        if volume.launched_at is not None and volume.status == VolumeStatus.DOWNLOADING:
            Reimage().failed(volume, reason)
            return
        if volume.migration_of is not None:
            state.move(volume, VolumeStatus.ERROR)
            uses.MOVES.only().created(volume, reason)
            return
        action = messages.COPY_FROM_IMAGE if volume.source_image_id else messages.CREATE_FROM_BACKEND
        messages.of_volume(volume, action, reason, detail=messages.NOT_CREATED)
        state.move(volume, VolumeStatus.ERROR, changes={"progress_bytes": 0, "progress_total": 0})
        uses.user().failed(volume, reason)


class Create(NewVolume[VolumeRequest]):
    """Create a volume: empty, or copied from its source.

    If no pool has enough capacity, the volume has the status ``error`` and a message gives the reason, as in Cinder.
    """

    rule = "volume:create"
    timeouts = by_status({VolumeStatus.CREATING: 10 * MINUTE, VolumeStatus.DOWNLOADING: 30 * MINUTE})
    when_overdue = "the volume is in `error`, with a message; a launch or rebuild that waits for it fails"

    def plan(self, context: RequestContext, project_id: uuid.UUID, request: VolumeRequest) -> Plan:
        source = source_of(context, request)
        volume_type = _type(context, request, source)
        zone = request.availability_zone or _zone_of(source)
        check_zone(zone)
        _check_zone(volume_type, request.availability_zone)
        size = check_size(project_id, request.size_gb if request.size_gb is not None else source.default_gb)
        if size < source.least_gb:
            msg = f"A volume of this source needs at least {source.least_gb} GiB; {size} GiB were requested."
            raise InvalidInputError(msg, field="size")
        pool_request = placement.request_of(
            context, size_gb=size, volume_type=volume_type, zone=zone, source_pool_id=source.pool_id,
            hints=request.scheduler_hints,
        )  # fmt: skip
        check_may_share(context, volume_type)
        columns = {
            "availability_zone": zone or DEFAULT_ZONE,
            "group": _group(context, request.group_id, volume_type),
            **keys.new_columns(getattr(volume_type, "encryption", None)),
            **source.columns,
        }
        return Plan(size, volume_type, pool_request, source.body, columns)


def _type(context: RequestContext, request: VolumeRequest, source: Source) -> VolumeType | None:
    """Return the type that the request or its image specifies, otherwise the source's type, otherwise the default type.

    Raises InvalidInputError if only the type or only the source is encrypted, because a copy has the key of its source.
    """
    named = request.volume_type or source.wanted_type
    if named:
        volume_type: VolumeType | None = type_for(context, named)
    else:
        volume_type = source.volume_type or (default_type(context.project_id) if context.project_id else None)
    encrypted = volume_type is not None and hasattr(volume_type, "encryption")
    if source.inherits is not None and encrypted != bool(source.inherits.encryption_key):
        raise InvalidInputError("A copy's type must be encrypted if its source is, and only then.", field="volume_type")
    return volume_type


def _zone_of(source: Source) -> str:
    if source.pool_id is None:
        return ""
    return StoragePool.objects.values_list("availability_zone", flat=True).get(id=source.pool_id)


def _check_zone(volume_type: VolumeType | None, zone: str) -> None:
    """Raise InvalidInputError for a zone in which no volumes of the type may be created."""
    zones = zones_of(volume_type.extra_specs) if volume_type else frozenset()
    if zone and zones and zone not in zones:
        msg = f"Volumes of type {volume_type} are created in {', '.join(sorted(zones))}, not in {zone[:255]}."
        raise InvalidInputError(msg, field="availability_zone")


def _group(context: RequestContext, group_id: str, volume_type: VolumeType | None) -> Group | None:
    if not group_id:
        return None
    group = Group.objects.filter(id=read_id(group_id) or NOBODY, project_id=context.project_id or NOBODY).first()
    if group is None:
        raise InvalidInputError(f"Group {group_id[:64]} could not be found.", field="group_id")
    if volume_type is None or not group.volume_types.filter(id=volume_type.id).exists():
        msg = f"The type of a volume in group {group.id} must be one of the group's."
        raise InvalidInputError(msg, field="volume_type")
    return group


def ready(volume: Volume) -> None:
    """Complete a new volume that has its data, and notify a waiting launch."""
    if volume.migration_of is not None:
        state.end_task(volume, changes={"launched_at": timezone.now()})
        uses.MOVES.only().created(volume, "")
        return
    state.end_task(volume, "create.end", changes={"launched_at": volume.launched_at or timezone.now()})
    uses.user().ready(volume)


TRIES = 3


def _elsewhere(volume: Volume, event: AgentEvent, body: CreateVolumeRequest) -> bool:
    """Try the next pool after a retryable failure of the host; return False if there is no other pool."""
    if (
        not event.retryable
        or volume.migration_of is not None
        or body.source.volume_id
        or body.source.unmanaged
        or volume.generation + 1 >= TRIES
        or volume.pool_id is None
    ):
        return False
    specs = (
        {str(key): str(value) for key, value in volume.volume_type.extra_specs.items()} if volume.volume_type else {}
    )
    pool_request = PoolRequest(
        size_gb=volume.size_gb,
        zone=volume.availability_zone,
        extra_specs=specs,
        encrypted=bool(volume.encryption_key),
        multiattach=volume.multiattach,
        failed=frozenset({volume.pool_id}),
    )
    pool_id, _ = placement.place(pool_request)
    if pool_id is None:
        return False
    send(volume, DeleteVolumeRequest(volume=spec_of(volume, with_key=False)), beside=True)
    placement.release(volume.pool_id, volume.size_gb)
    pool = StoragePool.objects.get(id=pool_id)
    columns = {"pool": pool, "generation": volume.generation + 1, "deadline": deadline_of(volume.status)}
    state.update(volume, columns)
    send(volume, CreateVolumeRequest(volume=spec_of(volume), source=body.source))
    return True
