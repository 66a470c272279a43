"""The two kinds of builds on a host: of new servers, and of offloaded servers that are unshelved."""

from dataclasses import dataclass

from provisioning.compute.models import Instance
from provisioning.compute.states import TaskState, VmState


@dataclass(frozen=True, slots=True)
class BuildKind:
    """A kind of build.

    ``action`` is Nova's name. ``first`` is the task before scheduling, ``waiting`` are the tasks before the command is
    sent to the host, and ``give_up`` is the transition when no host can build the server.
    """

    action: str
    vm_state: VmState
    first: TaskState
    waiting: frozenset[TaskState]
    give_up: str

    def hand_off_transitions(self, task_state: str | None) -> list[str]:
        """Return the transitions from the current task to ``spawning``."""
        if self is UNSHELVE:
            return ["unshelve_spawn"]
        return ["spawn"] if task_state == TaskState.BLOCK_DEVICE_MAPPING else ["map_block_devices", "spawn"]


LAUNCH = BuildKind(
    "create",
    VmState.BUILDING,
    TaskState.SCHEDULING,
    frozenset({TaskState.SCHEDULING, TaskState.NETWORKING, TaskState.BLOCK_DEVICE_MAPPING}),
    "fail",
)
UNSHELVE = BuildKind(
    "unshelve", VmState.SHELVED_OFFLOADED, TaskState.UNSHELVING, frozenset({TaskState.UNSHELVING}), "action_failed"
)
BUILD_KINDS = (LAUNCH, UNSHELVE)


def build_kind_of(instance: Instance) -> BuildKind | None:
    """Return the kind of build that the instance's task belongs to; None for other tasks."""
    task = instance.task_state
    for kind in BUILD_KINDS:
        if instance.vm_state == kind.vm_state and (task in kind.waiting or task == TaskState.SPAWNING):
            return kind
    return None


def is_waiting(instance: Instance) -> bool:
    """Whether the instance is being built and no command was sent to a host yet."""
    kind = build_kind_of(instance)
    return kind is not None and instance.task_state in kind.waiting
