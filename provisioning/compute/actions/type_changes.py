"""Change the flavor of a stopped server without a separate confirmation, as EC2 does."""

import uuid

from django.db import transaction

from provisioning.common.context import RequestContext
from provisioning.compute.actions.resize import START, STOP, finish_change, resize
from provisioning.compute.errors import NoRoomError
from provisioning.compute.launch.decisions import NO_VALID_HOST
from provisioning.compute.models import Instance, InstanceFault
from provisioning.compute.state_machine import state
from provisioning.compute.states import VmState
from provisioning.ec2 import given

BATCH = 100


def change_type(context: RequestContext, instance_id: uuid.UUID | str, flavor_id: str) -> Instance:
    """Resize a stopped server and confirm the resize automatically, inside the caller's transaction.

    Raises the errors of ``resize``, and NoRoomError where ``resize`` would only record a failure.
    """
    moved = resize(context, instance_id, flavor_id)
    if moved.task_state is None:
        fault = InstanceFault.objects.filter(instance_id=moved.id).order_by("-id").values_list("message", flat=True)[:1]
        raise NoRoomError(next(iter(fault), NO_VALID_HOST))
    given.keep(moved.project_id, moved.id, {given.AFTER_RESIZE: STOP})
    return moved


@transaction.atomic
def start_after_resize(instance: Instance) -> bool:
    """Request a start of the server after its ``change_type`` in progress; False when no ``change_type`` is in
    progress.
    """
    state.lock([instance.id])
    requested = given.value_of(instance.id, given.AFTER_RESIZE)
    if requested == STOP:
        given.keep(instance.project_id, instance.id, {given.AFTER_RESIZE: START})
    return requested is not None


def confirm_changed_types() -> None:
    """Confirm the resizes of ``change_type`` that could not be confirmed when they ended because the host was down."""
    waiting = Instance.objects.filter(vm_state=VmState.RESIZED, task_state=None)
    for instance in waiting.filter(pk__in=given.resources_with(given.AFTER_RESIZE)).order_by("resized_at")[:BATCH]:
        with transaction.atomic():
            state.lock([instance.id])
            finish_change(Instance.objects.get(pk=instance.pk))
