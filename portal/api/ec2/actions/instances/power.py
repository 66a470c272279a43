"""Start, stop, reboot and terminate instances; their console output and password."""

import base64
from collections.abc import Callable

from django.utils import timezone

from portal.api.ec2.actions.instances import shapes
from portal.api.ec2.frame import Call, Ec2Error, Shape, action, names
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.power import reboot
from provisioning.compute.actions.registry import actions
from provisioning.compute.actions.resize import start_after_resize
from provisioning.compute.actions.unshelve import unshelve
from provisioning.compute.models import Instance
from provisioning.compute.services.console import console_output
from provisioning.compute.states import VmState

INCORRECT = "IncorrectInstanceState"
MISSING = "InvalidInstanceID.NotFound"
Change = Callable[[Call, Instance], Instance]


@action("StartInstances", "os_compute_api:servers:start", takes="InstanceIds", missing=MISSING, conflict=INCORRECT)
def start_instances(call: Call) -> Shape:
    """Start stopped instances, including suspended, paused and shelved servers."""
    return {"StartingInstances": _changed(call, _started)}


def _started(call: Call, instance: Instance) -> Instance:
    if shapes.name_of(instance) in {shapes.RUNNING, shapes.PENDING}:
        return instance
    _refuse_ended(call, instance, "started")
    if instance.task_state is not None or instance.vm_state == VmState.RESIZED:
        call.enforce(actions["power_on"].rule)
        if start_after_resize(instance):
            return instance
    name = {
        VmState.SUSPENDED: "resume",
        VmState.PAUSED: "unpause",
        VmState.SHELVED: "unshelve",
        VmState.SHELVED_OFFLOADED: "unshelve",
    }.get(VmState(instance.vm_state), "power_on")
    server_action = actions[name]
    call.enforce(server_action.rule)
    if name == "unshelve":
        return unshelve(call.context, instance.id)
    begun: Instance = server_action.begin(call.context, instance.id, None)
    return begun


@action(
    "StopInstances",
    "os_compute_api:servers:stop",
    takes="InstanceIds Hibernate",
    ignored="Force",
    missing=MISSING,
    conflict=INCORRECT,
)
def stop_instances(call: Call) -> Shape:
    """Stop instances: the guest is asked to shut down, then forced. ``Hibernate`` suspends them to disk."""
    return {"StoppingInstances": _changed(call, _stopped)}


def _stopped(call: Call, instance: Instance) -> Instance:
    if shapes.name_of(instance) in {shapes.STOPPED, shapes.STOPPING}:
        return instance
    _refuse_ended(call, instance, "stopped")
    server_action = actions["suspend" if call.get("Hibernate", False) else "power_off"]
    call.enforce(server_action.rule)
    begun: Instance = server_action.begin(call.context, instance.id, None)
    return begun


@action("RebootInstances", "os_compute_api:servers:reboot", takes="InstanceIds", missing=MISSING, conflict=INCORRECT)
def reboot_instances(call: Call) -> Shape:
    """Ask guests to reboot."""
    for instance in shapes.instances_named(call, _instance_ids(call)):
        _refuse_ended(call, instance, "rebooted")
        reboot(call.context, instance.id)
    return {}


@action(
    "TerminateInstances",
    "os_compute_api:servers:delete",
    takes="InstanceIds",
    ignored="Force SkipOsShutdown",
    missing=MISSING,
    conflict="OperationNotPermitted",
)
def terminate_instances(call: Call) -> Shape:
    """Delete servers; servers that are already terminated are ignored."""
    return {"TerminatingInstances": _changed(call, _terminated)}


def _terminated(call: Call, instance: Instance) -> Instance:
    if instance.vm_state in (VmState.DELETED, VmState.SOFT_DELETED):
        return instance
    return delete(call.context, instance.id)


def _changed(call: Call, change: Change) -> list[Shape]:
    """Apply a change to all instances, or to none if the change of one is refused. Return the states of each instance
    before and after the change.
    """
    instances = shapes.instances_named(call, _instance_ids(call))
    ec2_ids = names.INSTANCE.ids_of([instance.id for instance in instances])
    before = {instance.id: shapes.name_of(instance) for instance in instances}
    return [
        {
            "InstanceId": ec2_ids[instance.id],
            "PreviousState": shapes.state_shape(before[instance.id]),
            "CurrentState": shapes.state_shape(shapes.name_of(change(call, instance))),
        }
        for instance in instances
    ]


def _instance_ids(call: Call) -> list[str]:
    specified: list[str] = call.get("InstanceIds", [])
    if not specified:
        raise Ec2Error("MissingParameter", "The request must contain the parameter InstanceId")
    return specified


def _refuse_ended(call: Call, instance: Instance, word: str) -> None:
    if shapes.name_of(instance) in {shapes.TERMINATED, shapes.SHUTTING_DOWN}:
        ec2_id = names.INSTANCE.id_of(instance.id)
        raise Ec2Error(INCORRECT, f"The instance '{ec2_id}' is not in a state from which it can be {word}.")


MOST_BYTES = 64 << 10
"""Maximum bytes of console output in a response; as in EC2, only the end of a longer output is returned."""


def _one(call: Call) -> Instance:
    """Return the instance. Raises Ec2Error if it is terminated."""
    instance = shapes.instances_named(call, [call.arguments["InstanceId"]])[0]
    if instance.vm_state in (VmState.DELETED, VmState.SOFT_DELETED):
        raise Ec2Error("IncorrectInstanceState", f"The instance '{call.arguments['InstanceId']}' is terminated")
    return instance


@action(
    "GetConsoleOutput",
    "os_compute_api:os-console-output",
    takes="InstanceId",
    ignored="Latest",
    missing=MISSING,
    conflict="IncorrectInstanceState",
)
def get_console_output(call: Call) -> Shape:
    """Return the end of the console output."""
    instance = _one(call)
    text = console_output(call.context, instance.id).encode(errors="replace")[-MOST_BYTES:]
    return {
        "InstanceId": call.arguments["InstanceId"],
        "Timestamp": timezone.now(),
        "Output": base64.b64encode(text).decode(),
    }


@action("GetPasswordData", "os_compute_api:os-server-password:show", takes="InstanceId", missing=MISSING)
def get_password_data(call: Call) -> Shape:
    """Return the administrator's password that the guest has posted, encrypted with the public key of the instance's
    key pair.
    """
    instance = _one(call)
    return {
        "InstanceId": call.arguments["InstanceId"],
        "Timestamp": timezone.now(),
        "PasswordData": instance.password,
    }
