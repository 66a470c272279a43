"""The job that schedules a build, claims the resources, allocates the network and hands the server off to its host."""

import contextlib
import logging
import uuid

from django.db import transaction

from provisioning.common.errors import NovellaError
from provisioning.compute.disks.block_devices import volumes_of
from provisioning.compute.launch.allocate import allocate
from provisioning.compute.launch.builds import Build, lock, waiting_build
from provisioning.compute.launch.claim import find_place
from provisioning.compute.launch.hand_off import hand_off
from provisioning.compute.launch.map_block_devices import begin_mapping, map_block_devices
from provisioning.compute.launch.retry import fail_waiting
from provisioning.compute.records import instance_actions
from provisioning.compute.state_machine import state
from provisioning.compute.states import TaskState
from provisioning.hosts.models import Host
from provisioning.jobs.registry import job
from provisioning.scheduler import HostState

log = logging.getLogger(__name__)
UNEXPECTED = "An unexpected problem in the cloud stopped the build. Please report the request id to the operators."


def give_up(reason: str, *, instance_id: str, attempt: int) -> None:
    """Fail the build when the queue no longer retries its job."""
    log.error("Stopped scheduling instance %s (attempt %s): %s", instance_id, attempt, reason)
    fail_waiting(uuid.UUID(instance_id), attempt, UNEXPECTED, details=reason)


@job("compute.schedule", topic="scheduler", on_give_up=give_up)
def schedule(instance_id: str, attempt: int) -> None:
    """Continue an attempt of a build from its current state; no effect for other attempts or states.

    1. Rank the hosts.
    2. In one transaction: claim resources on a host → ``networking``.
    3. In one transaction: ports and addresses → ``block_device_mapping``, the command to the host → ``spawning``.

    A server with volumes stays in ``block_device_mapping`` until they are connected; each change of them casts this job
    again. The job is idempotent: after a crash of a worker, a repeated job continues.
    """
    build = waiting_build(uuid.UUID(instance_id), attempt)
    if build is None or build.waits:
        return
    with contextlib.suppress(state.ChangedError):
        host = build.instance.host or find_place(build)
        if host is not None:
            _build(build, host)


def _build(build: Build, host: HostState | Host) -> None:
    """Allocate the network, map block devices and hand off; an error that another host would not avoid fails the build.

    Everything is one transaction, except that the network of a launch with volumes is committed first. Raises
    ChangedError.
    """
    instance = build.instance
    try:
        with transaction.atomic():
            lock(build)
            devices, steps = volumes_of(instance.id), []
            begins = bool(devices) and instance.task_state == TaskState.NETWORKING
            if instance.task_state != TaskState.BLOCK_DEVICE_MAPPING:
                steps.append(allocate(build, host))
            if begins:
                begin_mapping(build, host)
            elif map_block_devices(instance, devices, host, build.action):
                steps.append(hand_off(build, host))
            instance_actions.record(build.action, instance.attempt, *steps)
    except NovellaError as error:
        log.warning("Instance %s cannot be built: %s", instance.id, error.message)
        fail_waiting(instance.id, instance.attempt, error.message, clean=True)
    else:
        if begins:
            _build(build, host)
