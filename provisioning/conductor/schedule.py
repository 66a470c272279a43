"""The job that carries a launch from the queue to its host: schedule, claim, allocate, hand off."""

from __future__ import annotations

import logging
import uuid

from django.db import transaction

from provisioning.common.errors import NovellaError
from provisioning.compute.models import Allocation, Instance, InstanceAction
from provisioning.compute.services import actions
from provisioning.compute.states import TaskState, VmState
from provisioning.conductor.allocate import allocate
from provisioning.conductor.hand_off import hand_off
from provisioning.conductor.place import find_place
from provisioning.conductor.undo import fail
from provisioning.rpc.registry import job

log = logging.getLogger(__name__)
UNEXPECTED = "An unexpected problem in the cloud stopped the launch. Please tell the operators the id of the request."


def give_up(reason: str, *, instance_id: str, attempt: int) -> None:
    """The queue will not try the job again: the launch ends in ERROR."""
    log.error("Gave up scheduling instance %s (attempt %s): %s", instance_id, attempt, reason)
    instance = _waiting(instance_id, attempt)
    if instance is not None:
        with transaction.atomic():
            fail(instance, UNEXPECTED, details=reason)


@job("conductor.schedule", topic="scheduler", on_give_up=give_up)
def schedule(instance_id: str, attempt: int) -> None:
    """Carry one try of a launch on from wherever it stands; for any other try or state this does nothing.

    1. rank the hosts; 2. one transaction: claim room on one → ``networking``; 3. one transaction: ports and addresses →
    ``block_device_mapping``, the order to the host → ``spawning``.  A worker that dies in between leaves a state from
    which the same job, delivered again, goes on.
    """
    instance = _waiting(instance_id, attempt)
    if instance is None:
        return
    action = _create_action(instance)
    if instance.task_state == TaskState.SCHEDULING:
        if Allocation.objects.filter(instance=instance).exists():
            return  # the host tried before has not confirmed yet that it holds nothing; its word casts this job again
        if find_place(instance, action) is None:
            return
    _build(instance, action)


def _waiting(instance_id: str, attempt: int) -> Instance | None:
    """Return the instance if this try of its launch has not been handed to a host yet."""
    return (
        Instance.objects.select_related("host")
        .filter(
            id=uuid.UUID(instance_id),
            attempt=attempt,
            vm_state=VmState.BUILDING,
            task_state__in=[TaskState.SCHEDULING, TaskState.NETWORKING, TaskState.BLOCK_DEVICE_MAPPING],
        )
        .first()
    )


def _create_action(instance: Instance) -> InstanceAction:
    return InstanceAction.objects.get(instance=instance, action="create")


def _build(instance: Instance, action: InstanceAction) -> None:
    """Allocate and hand off in one transaction; what cannot be had anywhere ends the launch."""
    host = Allocation.objects.select_related("host").get(instance=instance).host
    try:
        with transaction.atomic():
            allocated = allocate(instance, host, action)
            handed = hand_off(instance, host, action) if allocated is not None else None
            if allocated is None or handed is None:
                transaction.set_rollback(True)
                return
            actions.write([*allocated, *handed])
    except NovellaError as error:
        log.warning("Launch of instance %s cannot be built: %s", instance.id, error.message)
        stopped = _waiting(str(instance.id), instance.attempt)
        if stopped is not None:
            with transaction.atomic():
                fail(stopped, error.message, clean=True)
