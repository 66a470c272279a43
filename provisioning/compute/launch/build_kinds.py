"""The two kinds of build of servers that are made on a host: a new server, and one that comes back from its shelf."""

from dataclasses import dataclass

from provisioning.compute.models import Instance
from provisioning.compute.states import TaskState, VmState


@dataclass(frozen=True, slots=True)
class BuildKind:
    """One kind of build, in the terms of the records.

    ``action`` is Nova's name; ``first`` is the task that waits for a place, ``waiting`` are those before a command has
    left for the host; ``give_up`` is the transition when no host can do it.
    """

    action: str
    vm_state: VmState
    first: TaskState
    waiting: frozenset[TaskState]
    give_up: str

    def hand_off_transitions(self, task_state: str | None) -> list[str]:
        """Return the transitions from a task before the hand-off to ``spawning``."""
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
    """Return the build that an instance is in the middle of, None for any other."""
    task = instance.task_state
    for kind in BUILD_KINDS:
        if instance.vm_state == kind.vm_state and (task in kind.waiting or task == TaskState.SPAWNING):
            return kind
    return None


def is_waiting(instance: Instance) -> bool:
    """Whether it is being built and no command has left for a host yet."""
    kind = build_kind_of(instance)
    return kind is not None and instance.task_state in kind.waiting
