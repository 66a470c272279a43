"""EC2's six instance states, and the server states that each represents.

A failed launch is ``terminated``, as EC2 has no error state. Every server that can be started again is ``stopped``:
stopped, suspended, paused and shelved servers.
"""

from collections.abc import Sequence

from django.db.models import Q

from provisioning.compute.models import Instance
from provisioning.compute.states import PowerState, TaskState, VmState

PENDING, RUNNING, SHUTTING_DOWN, TERMINATED, STOPPING, STOPPED = (
    "pending",
    "running",
    "shutting-down",
    "terminated",
    "stopping",
    "stopped",
)
CODES = {PENDING: 0, RUNNING: 16, SHUTTING_DOWN: 32, TERMINATED: 48, STOPPING: 64, STOPPED: 80}
_OF_TASK = {
    TaskState.DELETING: SHUTTING_DOWN,
    TaskState.SOFT_DELETING: SHUTTING_DOWN,
    TaskState.POWERING_ON: PENDING,
    TaskState.UNPAUSING: PENDING,
    TaskState.RESUMING: PENDING,
    TaskState.UNSHELVING: PENDING,
    TaskState.POWERING_OFF: STOPPING,
    TaskState.PAUSING: STOPPING,
    TaskState.SUSPENDING: STOPPING,
    TaskState.SHELVING: STOPPING,
    TaskState.SHELVING_IMAGE_UPLOADING: STOPPING,
}
_OF_STATE = {
    VmState.BUILDING: PENDING,
    VmState.ACTIVE: RUNNING,
    VmState.RESCUED: RUNNING,
    VmState.STOPPED: STOPPED,
    VmState.PAUSED: STOPPED,
    VmState.SUSPENDED: STOPPED,
    VmState.SHELVED: STOPPED,
    VmState.SHELVED_OFFLOADED: STOPPED,
}
_ON = (PowerState.RUNNING, PowerState.PAUSED)
_GONE = (VmState.DELETED, VmState.SOFT_DELETED)


def name_of(instance: Instance) -> str:
    """Return EC2's name of the instance's state."""
    if instance.vm_state in _GONE:
        return TERMINATED
    task = _OF_TASK.get(TaskState(instance.task_state)) if instance.task_state else None
    if task is not None:
        return task
    if instance.vm_state == VmState.ERROR and instance.launched_at is None:
        return TERMINATED
    known = _OF_STATE.get(VmState(instance.vm_state))
    return known or (RUNNING if instance.power_state in _ON else STOPPED)


def condition(states: Sequence[str]) -> Q:
    """Return the filter condition for instances in one of these states, which are names as ``name_of`` returns them."""
    gone, launched = Q(vm_state__in=_GONE), Q(launched_at__isnull=False)
    stable = Q(vm_state__in=[state for state, name in _OF_STATE.items() if name in states])
    if TERMINATED in states:
        stable |= Q(vm_state=VmState.ERROR) & ~launched
    if RUNNING in states:
        stable |= Q(vm_state=VmState.ERROR, power_state__in=_ON) & launched
    if STOPPED in states:
        stable |= Q(vm_state=VmState.ERROR) & ~Q(power_state__in=_ON) & launched
    tasks = Q(task_state__in=[task for task, name in _OF_TASK.items() if name in states])
    found = ~gone & (tasks | (stable & ~Q(task_state__in=_OF_TASK)))
    return found | gone if TERMINATED in states else found


def condition_of_codes(codes: Sequence[str]) -> Q:
    """Return the condition of instances whose state has one of these codes."""
    return condition([name for name, code in CODES.items() if str(code) in codes])


def shape(name: str) -> dict[str, object]:
    return {"Code": CODES[name], "Name": name}
