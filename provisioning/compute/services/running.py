"""Check that a server has a guest to connect to."""

from compute_agent.contract.power import PowerState
from provisioning.common.errors import ConflictError
from provisioning.compute.models import Instance
from provisioning.compute.states import TaskState, VmState

_NO_GUEST = {VmState.BUILDING, VmState.SHELVED_OFFLOADED, VmState.SOFT_DELETED, VmState.DELETED}
_GOING = {
    TaskState.DELETING,
    TaskState.SOFT_DELETING,
    TaskState.SHELVING_OFFLOADING,
    TaskState.REBUILDING,
    TaskState.REBUILD_BLOCK_DEVICE_MAPPING,
    TaskState.REBUILD_SPAWNING,
}


def check_running(instance: Instance) -> None:
    """Raise ConflictError unless the server's guest is running or paused."""
    there = instance.host_id is not None and instance.vm_state not in _NO_GUEST and instance.task_state not in _GOING
    if not there or instance.power_state not in (PowerState.RUNNING, PowerState.PAUSED):
        raise ConflictError(f"Instance {instance.id} is not ready")
