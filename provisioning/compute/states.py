"""The three axes of an instance's state with Nova's names, the one table of legal moves, and the API status derived
from them.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db import models

from compute_agent.contract.power import PowerState


class VmState(models.TextChoices):
    """What the user should see once nothing is going on."""

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
    """What is happening now; empty, or owned by a live job with a deadline."""

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
    RESIZE_PREP = "resize_prep"
    RESIZE_MIGRATING = "resize_migrating"
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
    SOFT_DELETING = "soft-deleting"
    RESTORING = "restoring"
    DELETING = "deleting"


State = tuple[VmState, TaskState | None]


@dataclass(frozen=True)
class Move:
    """One legal move and the word for it in logs and events."""

    name: str
    source: State
    target: State


@dataclass(frozen=True)
class Order:
    """What one order to a host does to the state: from any of ``sources`` into ``task``, and by ``ends`` out of it.

    ``ends``: move → where it leads; None: back to where the task began.
    """

    begin: str
    sources: tuple[VmState, ...]
    task: TaskState
    ends: dict[str, VmState | None]


V, T = VmState, TaskState
_LAUNCH: tuple[TaskState, ...] = (T.SCHEDULING, T.NETWORKING, T.BLOCK_DEVICE_MAPPING, T.SPAWNING)
_AT_REST = (V.ACTIVE, V.STOPPED, V.PAUSED, V.SUSPENDED)
_GONE = (V.DELETED,)

ORDERS: tuple[Order, ...] = (
    Order("power_off", (V.ACTIVE, V.ERROR), T.POWERING_OFF, {"powered_off": V.STOPPED}),
    Order("power_on", (V.STOPPED,), T.POWERING_ON, {"powered_on": V.ACTIVE}),
    Order("reboot", (V.ACTIVE,), T.REBOOTING, {"rebooted": V.ACTIVE}),
    Order("reboot_hard", (*_AT_REST, V.ERROR), T.REBOOTING_HARD, {"rebooted_hard": V.ACTIVE}),
    Order("pause", (V.ACTIVE,), T.PAUSING, {"paused": V.PAUSED}),
    Order("unpause", (V.PAUSED,), T.UNPAUSING, {"unpaused": V.ACTIVE}),
    Order("suspend", (V.ACTIVE,), T.SUSPENDING, {"suspended": V.SUSPENDED}),
    Order("resume", (V.SUSPENDED,), T.RESUMING, {"resumed": V.ACTIVE}),
    Order("change_password", (V.ACTIVE,), T.UPDATING_PASSWORD, {"password_changed": None}),
    Order("rescue", (V.ACTIVE, V.STOPPED, V.ERROR), T.RESCUING, {"rescued": V.RESCUED}),
    Order("unrescue", (V.RESCUED,), T.UNRESCUING, {"unrescued": V.ACTIVE}),
    Order(
        "rebuild",
        (V.ACTIVE, V.STOPPED, V.ERROR),
        T.REBUILDING,
        {"rebuilt": V.ACTIVE, "rebuilt_stopped": V.STOPPED},
    ),
    Order("snapshot", _AT_REST, T.IMAGE_SNAPSHOT, {"snapshot_taken": None}),
    Order("backup", _AT_REST, T.IMAGE_BACKUP, {"backup_taken": None}),
    Order("shelve", _AT_REST, T.SHELVING, {"shelved": V.SHELVED}),
    Order("offload", (V.SHELVED,), T.SHELVING_OFFLOADING, {"offloaded": V.SHELVED_OFFLOADED}),
    Order("unshelve", (V.SHELVED, V.SHELVED_OFFLOADED), T.UNSHELVING, {"unshelved": V.ACTIVE}),
    Order("resize", (V.ACTIVE, V.STOPPED), T.RESIZE_PREP, {"resized": V.RESIZED}),
    Order(
        "confirm_resize",
        (V.RESIZED,),
        T.RESIZE_CONFIRMING,
        {"resize_confirmed": V.ACTIVE, "resize_confirmed_stopped": V.STOPPED},
    ),
    Order(
        "revert_resize",
        (V.RESIZED,),
        T.RESIZE_REVERTING,
        {"resize_reverted": V.ACTIVE, "resize_reverted_stopped": V.STOPPED},
    ),
    Order(
        "soft_delete",
        (*_AT_REST, V.SHELVED, V.SHELVED_OFFLOADED, V.ERROR),
        T.SOFT_DELETING,
        {"soft_deleted": V.SOFT_DELETED},
    ),
    Order(
        "restore",
        (V.SOFT_DELETED,),
        T.RESTORING,
        {
            "restored": V.ACTIVE,
            "restored_stopped": V.STOPPED,
            "restored_shelved": V.SHELVED,
            "restored_offloaded": V.SHELVED_OFFLOADED,
            "restored_error": V.ERROR,
        },
    ),
)
"""What is done with a server that was built; the states from which are those of the Compute API reference."""

_ON_THE_WAY: tuple[tuple[str, tuple[VmState, ...], TaskState, TaskState], ...] = (
    ("upload", _AT_REST, T.IMAGE_SNAPSHOT, T.IMAGE_UPLOADING),
    ("upload_shelved", _AT_REST, T.SHELVING, T.SHELVING_IMAGE_UPLOADING),
    ("migrate_disk", (V.ACTIVE, V.STOPPED), T.RESIZE_PREP, T.RESIZE_MIGRATING),
    ("finish_resize", (V.ACTIVE, V.STOPPED), T.RESIZE_MIGRATING, T.RESIZE_FINISH),
    ("unshelve_spawn", (V.SHELVED_OFFLOADED,), T.UNSHELVING, T.SPAWNING),
)
"""Tasks that follow one another while an order is carried out: move, where, from, to."""

_ENDS_OF: dict[TaskState, dict[str, VmState | None]] = {
    **{order.task: order.ends for order in ORDERS},
    T.IMAGE_UPLOADING: {"snapshot_taken": None, "backup_taken": None},
    T.SHELVING_IMAGE_UPLOADING: {"shelved": V.SHELVED},
    T.RESIZE_MIGRATING: {"resized": V.RESIZED},
    T.RESIZE_FINISH: {"resized": V.RESIZED},
}
_SOURCES_OF: dict[TaskState, tuple[VmState, ...]] = {
    **{order.task: order.sources for order in ORDERS},
    **{target: sources for _, sources, _, target in _ON_THE_WAY if target != T.SPAWNING},
}

MOVES: tuple[Move, ...] = (
    Move("allocate_network", (V.BUILDING, T.SCHEDULING), (V.BUILDING, T.NETWORKING)),
    Move("map_block_devices", (V.BUILDING, T.NETWORKING), (V.BUILDING, T.BLOCK_DEVICE_MAPPING)),
    Move("spawn", (V.BUILDING, T.BLOCK_DEVICE_MAPPING), (V.BUILDING, T.SPAWNING)),
    Move("activate", (V.BUILDING, T.SPAWNING), (V.ACTIVE, None)),
    *(Move("reschedule", (V.BUILDING, task), (V.BUILDING, T.SCHEDULING)) for task in _LAUNCH),
    *(Move("fail", (V.BUILDING, task), (V.ERROR, None)) for task in _LAUNCH),
    Move("allocate_network", (V.SHELVED_OFFLOADED, T.UNSHELVING), (V.SHELVED_OFFLOADED, T.UNSHELVING)),
    *(
        Move("reschedule", (V.SHELVED_OFFLOADED, task), (V.SHELVED_OFFLOADED, T.UNSHELVING))
        for task in (T.UNSHELVING, T.SPAWNING)
    ),
    *(Move(order.begin, (vm, None), (vm, order.task)) for order in ORDERS for vm in order.sources),
    *(Move(name, (vm, source), (vm, target)) for name, states, source, target in _ON_THE_WAY for vm in states),
    *(
        Move(name, (vm, task), (target or vm, None))
        for task, ends in _ENDS_OF.items()
        for vm in _SOURCES_OF[task]
        for name, target in ends.items()
    ),
    Move("unshelved", (V.SHELVED_OFFLOADED, T.SPAWNING), (V.ACTIVE, None)),
    Move("action_failed", (V.SHELVED_OFFLOADED, T.SPAWNING), (V.SHELVED_OFFLOADED, None)),
    *(Move("action_failed", (vm, task), (vm, None)) for task, states in _SOURCES_OF.items() for vm in states),
    *(Move("action_broke", (vm, task), (V.ERROR, None)) for task, states in _SOURCES_OF.items() for vm in states),
    *(
        Move(f"reset_{target.value}", (vm, task), (target, None))
        for target in (V.ACTIVE, V.ERROR)
        for vm in V
        if vm not in _GONE
        for task in (None, *T)
        if task != T.DELETING
    ),
    *(Move("found_stopped", (vm, None), (V.STOPPED, None)) for vm in (V.ACTIVE, V.PAUSED)),
    *(Move("found_running", (vm, None), (V.ACTIVE, None)) for vm in (V.STOPPED, V.SUSPENDED)),
    *(
        Move("delete", (vm, task), (vm, T.DELETING))
        for vm in V
        if vm not in _GONE
        for task in (None, *(task for task in T if task != T.DELETING))
    ),
    *(Move("deleted", (vm, T.DELETING), (V.DELETED, None)) for vm in V if vm not in _GONE),
)

LEGAL: dict[tuple[str, State], State] = {(move.name, move.source): move.target for move in MOVES}
"""(move, where it starts) -> where it ends; a move that is not here cannot happen."""

_RESIZING = {task.value: "RESIZE" for task in (T.RESIZE_PREP, T.RESIZE_MIGRATING, T.RESIZE_FINISH)}
_REBUILDING = {T.REBUILDING.value: "REBUILD"}
STATUSES: dict[str, tuple[str, dict[str, str]]] = {
    V.BUILDING: ("BUILD", {}),
    V.ACTIVE: (
        "ACTIVE",
        {
            T.REBOOTING: "REBOOT",
            T.REBOOTING_HARD: "HARD_REBOOT",
            T.UPDATING_PASSWORD: "PASSWORD",
            **_REBUILDING,
            **_RESIZING,
        },
    ),
    V.STOPPED: ("SHUTOFF", {**_REBUILDING, **_RESIZING}),
    V.PAUSED: ("PAUSED", {}),
    V.SUSPENDED: ("SUSPENDED", {}),
    V.RESCUED: ("RESCUE", {}),
    V.RESIZED: ("VERIFY_RESIZE", {T.RESIZE_REVERTING: "REVERT_RESIZE"}),
    V.SHELVED: ("SHELVED", {}),
    V.SHELVED_OFFLOADED: ("SHELVED_OFFLOADED", {}),
    V.SOFT_DELETED: ("SOFT_DELETED", {}),
    V.ERROR: ("ERROR", _REBUILDING),
    V.DELETED: ("DELETED", {}),
}
"""vm_state → the status it usually has, and the other ones during some tasks."""


def api_status(vm_state: str, task_state: str | None) -> str:
    """Return the Compute API's ``status``, derived as Nova derives it (nova.api.openstack.common.status_from_state)."""
    usual, during = STATUSES.get(vm_state, ("UNKNOWN", {}))
    return during.get(task_state or "", usual)


__all__ = [
    "LEGAL",
    "MOVES",
    "ORDERS",
    "STATUSES",
    "Move",
    "PowerState",
    "State",
    "TaskState",
    "VmState",
    "api_status",
]
