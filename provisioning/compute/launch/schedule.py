"""The job that schedules a build, claims the resources, allocates the network and hands the server off to its host."""

import logging
import uuid

from django.db import transaction
from django.db.models import UUIDField
from django.utils import timezone

from provisioning.common.database.prepared import Prepared
from provisioning.common.errors import NovellaError
from provisioning.compute.disks.block_devices import volumes_of
from provisioning.compute.host_link import newer_guests
from provisioning.compute.launch.allocate import allocate
from provisioning.compute.launch.builds import Build, waiting_build
from provisioning.compute.launch.claim import find_place
from provisioning.compute.launch.hand_off import hand_off
from provisioning.compute.launch.map_block_devices import begins_mapping, map_block_devices
from provisioning.compute.launch.retry import fail
from provisioning.compute.models import Allocation, Instance
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
    build = waiting_build(uuid.UUID(instance_id), attempt)
    if build is not None:
        with transaction.atomic():
            fail(build.instance, UNEXPECTED, details=reason)


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
    build = waiting_build(uuid.UUID(instance_id), attempt)
    if build is None or (attempt > 1 and newer_guests.open_of(build.instance.id)):
        return
    claimed = Allocation.objects.filter(instance_id=build.instance.id)
    host: HostState | None
    if build.instance.host_id is not None:
        host = state_of(claimed.select_related("host").get().host, timezone.now())
    elif attempt > 1 and claimed.exists():
        return  # the previous host has not confirmed the removal yet; its report casts this job again
    else:
        host = find_place(build)
    while host is not None and build is not None and _build(build, host):
        build = waiting_build(build.instance.id, build.instance.attempt)


def _build(build: Build, host: HostState) -> bool:
    """Allocate the network, map block devices and hand off; an error that another host would not avoid fails the build.

    Everything is one transaction, except that the network of a server with volumes is committed first. Returns whether
    to call this function again.
    """
    instance = build.instance
    try:
        with transaction.atomic():
            state.lock([instance.id])
            if _READ(key=instance.id) != [tuple(getattr(instance, name) for name in _AS_READ)]:
                return False
            devices, steps = volumes_of(instance.id), []
            if instance.task_state != TaskState.BLOCK_DEVICE_MAPPING:
                steps = [allocate(build, host)]
            if devices and begins_mapping(build, steps):
                return True
            mapped, more = map_block_devices(instance, devices, host, build.action)
            steps += more
            if mapped:
                handed = hand_off(build, host)
                if handed is None:
                    transaction.set_rollback(True)
                    return False
                steps.append(handed)
            rows = instance_actions.record(build.action, instance.attempt, *steps)
            if not mapped:
                state.announce_steps(instance, rows[-len(more) :])
    except NovellaError as error:
        log.warning("Instance %s cannot be built: %s", instance.id, error.message)
        stopped = waiting_build(instance.id, instance.attempt)
        if stopped is not None:
            with transaction.atomic():
                fail(stopped.instance, error.message, clean=True)
    return False


_AS_READ = ("attempt", "vm_state", "task_state", "host_id")
_READ = Prepared(lambda key: Instance.objects.filter(id=key).values_list(*_AS_READ), key=UUIDField())
"""Reads the columns that are unchanged unless another job or an action has changed the server."""
