"""The job that schedules a build, claims the resources, allocates the network and hands the server off to its host."""

import logging
import uuid

from django.db import transaction
from django.db.models import IntegerField, UUIDField
from django.utils import timezone

from provisioning.common.database.prepared import Prepared
from provisioning.common.errors import NovellaError
from provisioning.compute.disks.block_devices import volumes_of
from provisioning.compute.host_link import newer_guests
from provisioning.compute.launch.allocate import allocate
from provisioning.compute.launch.build_kinds import BUILD_KINDS, build_kind_of, is_waiting
from provisioning.compute.launch.claim import find_place
from provisioning.compute.launch.hand_off import hand_off
from provisioning.compute.launch.map_block_devices import begins_mapping, map_block_devices
from provisioning.compute.launch.retry import fail
from provisioning.compute.models import Allocation, Instance, InstanceAction
from provisioning.compute.records import instance_actions
from provisioning.compute.selectors.hosts import state_of
from provisioning.compute.state_machine import state
from provisioning.compute.states import TaskState
from provisioning.jobs.registry import job
from provisioning.scheduler import HostState

log = logging.getLogger(__name__)
UNEXPECTED = "An unexpected problem in the cloud stopped the build. Please report the request id to the operators."


def give_up(reason: str, *, instance_id: str, attempt: int) -> None:
    """Fail the build when the queue no longer retries its job."""
    log.error("Stopped scheduling instance %s (attempt %s): %s", instance_id, attempt, reason)
    action = _waiting(instance_id, attempt)
    if action is not None:
        with transaction.atomic():
            fail(action.instance, UNEXPECTED, details=reason)


@job("compute.schedule", topic="scheduler", on_give_up=give_up)
def schedule(instance_id: str, attempt: int) -> None:
    """Continue an attempt of a build from its current state; no effect for other attempts or states.

    1. Rank the hosts.
    2. In one transaction: claim resources on a host → ``networking``.
    3. In one transaction: ports and addresses → ``block_device_mapping``, the command to the host → ``spawning``.

    A server with volumes stays in ``block_device_mapping`` until they are connected; each change of them casts this job
    again. The job is idempotent: after a crash of a worker, a repeated job continues. No guest is built while an
    operator has not decided about a newer guest of the server (``newer_guests``).
    """
    action = _waiting(instance_id, attempt)
    if action is None or (attempt > 1 and newer_guests.open_of(action.instance_id)):
        return
    host: HostState | None
    if action.instance.host_id is not None:
        host = _place_of(action.instance)
    elif attempt > 1 and Allocation.objects.filter(instance_id=action.instance_id).exists():
        return  # the previous host has not confirmed the removal yet; its report casts this job again
    else:
        host = find_place(action.instance, action)
    while host is not None and action is not None and _build(action.instance, host, action):
        action = _waiting(instance_id, attempt)


def _waiting(instance_id: str, attempt: int) -> InstanceAction | None:
    """Return the unfinished action of the build, with its instance loaded; None after a command was sent to a host."""
    for action in _BEGUN(instance_id=uuid.UUID(instance_id), attempt=attempt):
        kind = build_kind_of(action.instance)
        if kind is not None and kind.action == action.action and is_waiting(action.instance):
            return action
    return None


_BEGUN = Prepared(
    lambda instance_id, attempt: (
        InstanceAction.objects.select_related("instance__host")
        .filter(
            instance_id=instance_id,
            action__in=[kind.action for kind in BUILD_KINDS],
            instance__attempt=attempt,
            finished_at=None,
        )
        .order_by("-id")
    ),
    instance_id=UUIDField(),
    attempt=IntegerField(),
)


def _as_read(instance: Instance) -> tuple[object, ...]:
    """Return the values of columns that are unchanged since the server was read."""
    return tuple(getattr(instance, name) for name in _AS_READ)


_AS_READ = ("attempt", "vm_state", "task_state", "host_id")
_READ = Prepared(lambda key: Instance.objects.filter(id=key).values_list(*_AS_READ), key=UUIDField())


def _place_of(instance: Instance) -> HostState:
    """Return the host that an earlier run has claimed."""
    return state_of(Allocation.objects.select_related("host").get(instance=instance).host, timezone.now())


def _build(instance: Instance, host: HostState, action: InstanceAction) -> bool:
    """Allocate the network, map block devices and hand off; an error that another host would not avoid fails the build.

    Everything is one transaction, except that the network of a server with volumes is committed first. Returns whether
    to call this function again.
    """
    try:
        with transaction.atomic():
            state.lock([instance.id])
            if _READ(key=instance.id) != [_as_read(instance)]:
                return False
            devices, steps = volumes_of(instance.id), []
            if instance.task_state != TaskState.BLOCK_DEVICE_MAPPING:
                steps = [allocate(instance, host, action)]
            if devices and begins_mapping(instance, action, steps):
                return True
            mapped, more = map_block_devices(instance, devices, host, action)
            handed = hand_off(instance, host, action) if mapped else None
            if mapped and handed is None:
                transaction.set_rollback(True)
                return False
            instance_actions.write([*steps, *more, *([handed] if handed else [])])
            if not mapped:
                state.announce_all(instance, [{"step": instance_actions.shown(step)} for step in more])
    except NovellaError as error:
        log.warning("Instance %s cannot be built: %s", instance.id, error.message)
        stopped = _waiting(str(instance.id), instance.attempt)
        if stopped is not None:
            with transaction.atomic():
                fail(stopped.instance, error.message, clean=True)
    return False
