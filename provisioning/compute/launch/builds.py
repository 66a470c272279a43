"""Builds on a host: of new servers, of offloaded servers that are unshelved, and of servers whose host is down."""

import uuid
from dataclasses import dataclass

from django.db.models import IntegerField, UUIDField

from provisioning.common.database.prepared import Prepared
from provisioning.compute.host_link import newer_guests
from provisioning.compute.models import Allocation, Instance, InstanceAction
from provisioning.compute.records.migration_records import evacuated_from
from provisioning.compute.selectors.root_pools import shared_pool
from provisioning.compute.state_machine import state
from provisioning.compute.states import TaskState, VmState
from provisioning.hosts.models import Host


@dataclass(frozen=True, slots=True)
class BuildKind:
    """A kind of build.

    ``action`` is Nova's name. ``first`` is the task before scheduling, ``waiting`` are the tasks before the command is
    sent to the host, and ``give_up`` is the transition when no host can build the server. ``keeps_ports``: the server
    has run before and keeps its ports, addresses and volumes.
    """

    action: str
    vm_states: frozenset[VmState]
    first: TaskState
    waiting: frozenset[TaskState]
    give_up: str
    hand_off: tuple[str, ...]
    """Transitions to ``spawning``."""
    done: str
    """The transition when the host has built the server."""
    keeps_ports: bool = True


LAUNCH = BuildKind(
    "create",
    frozenset({VmState.BUILDING}),
    TaskState.SCHEDULING,
    frozenset({TaskState.SCHEDULING, TaskState.NETWORKING, TaskState.BLOCK_DEVICE_MAPPING}),
    "fail",
    ("map_block_devices", "spawn"),
    "activate",
    keeps_ports=False,
)
UNSHELVE = BuildKind(
    "unshelve",
    frozenset({VmState.SHELVED_OFFLOADED}),
    TaskState.UNSHELVING,
    frozenset({TaskState.UNSHELVING}),
    "action_failed",
    ("unshelve_spawn",),
    "unshelved",
)
EVACUATE = BuildKind(
    "evacuate",
    frozenset({VmState.ACTIVE, VmState.STOPPED}),
    TaskState.EVACUATING,
    frozenset({TaskState.EVACUATING}),
    "evacuation_failed",
    ("evacuate_spawn",),
    "evacuated",
)
BUILD_KINDS = (LAUNCH, UNSHELVE, EVACUATE)


def build_kind_of(instance: Instance) -> BuildKind | None:
    """Return the kind of build that the instance's task belongs to; None for other tasks."""
    task = instance.task_state
    for kind in BUILD_KINDS:
        if instance.vm_state in kind.vm_states and (task in kind.waiting or task == TaskState.SPAWNING):
            return kind
    return None


def is_waiting(instance: Instance) -> bool:
    """Whether the instance is being built and no command was sent to a host yet."""
    kind = build_kind_of(instance)
    return kind is not None and instance.task_state in kind.waiting


@dataclass(frozen=True, slots=True)
class Build:
    """A build whose command was not sent to a host yet. The steps of the build update ``instance``."""

    instance: Instance
    action: InstanceAction
    kind: BuildKind
    source: Host | None
    """The host that an evacuation leaves."""
    root_pool: str = ""
    """The trait of the hosts that can acquire the root disk of an evacuated server; empty: the disk is created."""
    waits: bool = False
    """Whether an operator has not decided about a newer guest of the server (``newer_guests``), or the host of the
    previous attempt has not confirmed the removal. Its report casts the job again.
    """


def waiting_build(instance_id: uuid.UUID, attempt: int) -> Build | None:
    """Return the unfinished build of this attempt; None after its command was sent to a host."""
    for action in _BEGUN(instance_id=instance_id, attempt=attempt):
        instance = action.instance
        kind = build_kind_of(instance)
        if kind is not None and kind.action == action.action and instance.task_state in kind.waiting:
            source = evacuated_from(instance_id) if kind is EVACUATE else None
            pool = shared_pool(instance, source) if source is not None else ""
            return Build(instance, action, kind, source, pool, waits=attempt > 1 and _has_to_wait(instance))
    return None


def _has_to_wait(instance: Instance) -> bool:
    held = instance.host_id is None and Allocation.objects.filter(instance_id=instance.id).exists()
    return held or bool(newer_guests.open_of(instance.id))


def lock(build: Build) -> None:
    """Lock the server until the caller's transaction ends. Raises ChangedError unless attempt, state and host of the
    server are the same as in the build.
    """
    state.lock([build.instance.id])
    if _READ(key=build.instance.id) != [tuple(getattr(build.instance, name) for name in _AS_READ)]:
        raise state.ChangedError


_AS_READ = ("attempt", "vm_state", "task_state", "host_id")
_READ = Prepared(lambda key: Instance.objects.filter(id=key).values_list(*_AS_READ), key=UUIDField())

_BEGUN = Prepared(
    lambda instance_id, attempt: (
        InstanceAction.objects.select_related("instance__host")
        .filter(
            instance_id=instance_id,
            action__in=[kind.action for kind in BUILD_KINDS],
            instance__attempt=attempt,
            finished_at=None,
        )
        .order_by("-id")
    ),
    instance_id=UUIDField(),
    attempt=IntegerField(),
)
