"""Nova's three state fields of an instance, the table of legal transitions, and the API status derived from them."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db import models

from compute_agent.contract.power import PowerState as PowerState


class VmState(models.TextChoices):
    """Stable state of an instance without a task."""

    BUILDING = "building"
    ACTIVE = "active"
    STOPPED = "stopped"
    PAUSED = "paused"
    SUSPENDED = "suspended"
    RESCUED = "rescued"
    RESIZED = "resized"
    SHELVED = "shelved"
    SHELVED_OFFLOADED = "shelved_offloaded"
    SOFT_DELETED = "soft-delete"
    ERROR = "error"
    DELETED = "deleted"


class TaskState(models.TextChoices):
    """The running task; null for none. Each task has a deadline."""

    SCHEDULING = "scheduling"
    NETWORKING = "networking"
    BLOCK_DEVICE_MAPPING = "block_device_mapping"
    SPAWNING = "spawning"
    POWERING_ON = "powering-on"
    POWERING_OFF = "powering-off"
    REBOOTING = "rebooting"
    REBOOTING_HARD = "rebooting_hard"
    PAUSING = "pausing"
    UNPAUSING = "unpausing"
    SUSPENDING = "suspending"
    RESUMING = "resuming"
    UPDATING_PASSWORD = "updating_password"  # noqa: S105 - Nova's word
    RESCUING = "rescuing"
    UNRESCUING = "unrescuing"
    REBUILDING = "rebuilding"
    REBUILD_BLOCK_DEVICE_MAPPING = "rebuild_block_device_mapping"
    REBUILD_SPAWNING = "rebuild_spawning"
    RESIZE_PREP = "resize_prep"
    RESIZE_MIGRATING = "resize_migrating"
    RESIZE_MIGRATED = "resize_migrated"
    RESIZE_FINISH = "resize_finish"
    RESIZE_CONFIRMING = "resize_confirming"
    RESIZE_REVERTING = "resize_reverting"
    IMAGE_SNAPSHOT = "image_snapshot"
    IMAGE_BACKUP = "image_backup"
    IMAGE_UPLOADING = "image_uploading"
    SHELVING = "shelving"
    SHELVING_IMAGE_UPLOADING = "shelving_image_uploading"
    SHELVING_OFFLOADING = "shelving_offloading"
    UNSHELVING = "unshelving"
    EVACUATING = "evacuating"
    MIGRATING = "migrating"
    SOFT_DELETING = "soft-deleting"
    RESTORING = "restoring"
    DELETING = "deleting"


State = tuple[VmState, TaskState | None]


@dataclass(frozen=True)
class Transition:
    """A legal change of state, with its name."""

    name: str
    source: State
    target: State


V, T = VmState, TaskState
AT_REST = (V.ACTIVE, V.STOPPED, V.PAUSED, V.SUSPENDED)
ALIVE = tuple(vm_state for vm_state in V if vm_state != V.DELETED)
_LAUNCH: tuple[TaskState, ...] = (T.SCHEDULING, T.NETWORKING, T.BLOCK_DEVICE_MAPPING, T.SPAWNING)

TRANSITIONS: list[Transition] = []
"""All legal transitions. Transitions of launches and of the hypervisor are defined here; each server action adds its
own.
"""
LEGAL: dict[tuple[str, State], State] = {}
"""(transition, source) → target."""
TRANSITION_NAMES: set[str] = set()
FOLLOWED = "follow_{}_guest"
"""Name of the transition by which a record follows a newer guest that is active, stopped or paused."""
DISK_TASKS: set[TaskState] = {T.NETWORKING, T.BLOCK_DEVICE_MAPPING, T.SPAWNING}
"""Tasks with heavy disk I/O on the host."""
STATUSES: dict[str, tuple[str, dict[str, str]]] = {
    V.BUILDING: ("BUILD", {}),
    V.ACTIVE: ("ACTIVE", dict.fromkeys((T.EVACUATING, T.SPAWNING), "REBUILD")),
    V.STOPPED: ("SHUTOFF", dict.fromkeys((T.EVACUATING, T.SPAWNING), "REBUILD")),
    V.PAUSED: ("PAUSED", {}),
    V.SUSPENDED: ("SUSPENDED", {}),
    V.RESCUED: ("RESCUE", {}),
    V.RESIZED: ("VERIFY_RESIZE", {}),
    V.SHELVED: ("SHELVED", {}),
    V.SHELVED_OFFLOADED: ("SHELVED_OFFLOADED", {}),
    V.SOFT_DELETED: ("SOFT_DELETED", {}),
    V.ERROR: ("ERROR", {}),
    V.DELETED: ("DELETED", {}),
}
"""vm_state → its default status, and other statuses during some tasks, which the server actions add."""


def add_transitions(transitions: Iterable[Transition]) -> None:
    """Add legal transitions. Raises ValueError for two targets of one name and source."""
    for transition in transitions:
        key = transition.name, transition.source
        if key in LEGAL:
            if LEGAL[key] != transition.target:
                raise ValueError(f"{transition.name} has two targets from {transition.source}.")
            continue
        LEGAL[key] = transition.target
        TRANSITIONS.append(transition)
        TRANSITION_NAMES.add(transition.name)


add_transitions(
    [
        Transition("allocate_network", (V.BUILDING, T.SCHEDULING), (V.BUILDING, T.NETWORKING)),
        Transition("map_block_devices", (V.BUILDING, T.NETWORKING), (V.BUILDING, T.BLOCK_DEVICE_MAPPING)),
        Transition("spawn", (V.BUILDING, T.BLOCK_DEVICE_MAPPING), (V.BUILDING, T.SPAWNING)),
        Transition("activate", (V.BUILDING, T.SPAWNING), (V.ACTIVE, None)),
        *(Transition("reschedule", (V.BUILDING, task), (V.BUILDING, T.SCHEDULING)) for task in _LAUNCH),
        *(Transition("fail", (V.BUILDING, task), (V.ERROR, None)) for task in _LAUNCH),
        *(Transition("found_stopped", (vm, None), (V.STOPPED, None)) for vm in (V.ACTIVE, V.PAUSED)),
        *(Transition("found_running", (vm, None), (V.ACTIVE, None)) for vm in (V.STOPPED, V.SUSPENDED)),
        *(
            Transition(FOLLOWED.format(target.value), (vm, task), (target, None))
            for target in (V.ACTIVE, V.STOPPED, V.PAUSED)
            for vm in ALIVE
            for task in (None, *(task for task in T if task != T.DELETING))
            if vm == V.BUILDING or task not in _LAUNCH[:-1]  # without a host only launches can be followed
        ),
    ]
)


def api_status(vm_state: str, task_state: str | None) -> str:
    """Return the API's ``status``, derived as in Nova (nova.api.openstack.common.status_from_state)."""
    usual, during = STATUSES.get(vm_state, ("UNKNOWN", {}))
    return during.get(task_state or "", usual)
