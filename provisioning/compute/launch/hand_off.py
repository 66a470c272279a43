"""Hand off: send the build command to the host."""

from django.utils import timezone

from compute_agent.contract.commands import BuildRequest
from provisioning.compute.host_link import firmware_states
from provisioning.compute.host_link.guest_spec import guest_spec
from provisioning.compute.launch.builds import UNSHELVE, Build
from provisioning.compute.models import InstanceAction, InstanceActionEvent
from provisioning.compute.records import host_commands
from provisioning.compute.records.instance_actions import Step
from provisioning.compute.state_machine import state
from provisioning.compute.states import TaskState, VmState
from provisioning.hosts.models import Host
from provisioning.scheduler import HostState

TAKES_ROOT = "takes_root"
"""Key in the detail of a step: the host acquires the root disk that the server has in a pool."""


def hand_off(build: Build, host: HostState | Host) -> Step:
    """Send the build command and change the state through ``block_device_mapping`` to ``spawning``.

    Inside the caller's transaction. Returns the step to write. Raises NotFoundError when the image was deleted, and
    ChangedError.
    """
    started = timezone.now()
    instance = build.instance
    take_root = bool(build.root_pool)
    spec = guest_spec(instance, zone=host.availability_zone, host_id=host.id, with_bits=not take_root)
    mapped = instance.task_state == TaskState.BLOCK_DEVICE_MAPPING
    state.apply(instance, *build.kind.hand_off[mapped:])
    request = BuildRequest(
        instance=spec,
        firmware_state=firmware_states.digest_of(instance) if build.kind is UNSHELVE else "",
        start=instance.vm_state != VmState.STOPPED,
        take_root=take_root,
    )
    host_commands.send(host.id, instance.id, instance.attempt, request, instance.task_deadline)
    return Step("hand_off", started, host=host.name, detail={TAKES_ROOT: "yes"} if take_root else {})


def creates_root(action: InstanceAction, attempt: int) -> bool:
    """Whether the host of this attempt had to create the root disk. Otherwise it acquired the existing disk in its
    pool.
    """
    sent = InstanceActionEvent.objects.filter(action=action, name="hand_off", attempt=attempt)
    return any(TAKES_ROOT not in detail for detail in sent.values_list("detail", flat=True))
