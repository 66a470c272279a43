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
    DELETING = "deleting"


State = tuple[VmState, TaskState | None]


@dataclass(frozen=True)
class Move:
    """One legal move and the word for it in logs and events."""

    name: str
    source: State
    target: State


V, T = VmState, TaskState
_LAUNCH: tuple[TaskState, ...] = (T.SCHEDULING, T.NETWORKING, T.BLOCK_DEVICE_MAPPING, T.SPAWNING)

MOVES: tuple[Move, ...] = (
    Move("allocate_network", (V.BUILDING, T.SCHEDULING), (V.BUILDING, T.NETWORKING)),
    Move("map_block_devices", (V.BUILDING, T.NETWORKING), (V.BUILDING, T.BLOCK_DEVICE_MAPPING)),
    Move("spawn", (V.BUILDING, T.BLOCK_DEVICE_MAPPING), (V.BUILDING, T.SPAWNING)),
    Move("activate", (V.BUILDING, T.SPAWNING), (V.ACTIVE, None)),
    *(Move("reschedule", (V.BUILDING, task), (V.BUILDING, T.SCHEDULING)) for task in _LAUNCH),
    *(Move("fail", (V.BUILDING, task), (V.ERROR, None)) for task in _LAUNCH),
    Move("power_off", (V.ACTIVE, None), (V.ACTIVE, T.POWERING_OFF)),
    Move("powered_off", (V.ACTIVE, T.POWERING_OFF), (V.STOPPED, None)),
    Move("power_on", (V.STOPPED, None), (V.STOPPED, T.POWERING_ON)),
    Move("powered_on", (V.STOPPED, T.POWERING_ON), (V.ACTIVE, None)),
    Move("reboot", (V.ACTIVE, None), (V.ACTIVE, T.REBOOTING)),
    Move("reboot_hard", (V.ACTIVE, None), (V.ACTIVE, T.REBOOTING_HARD)),
    Move("rebooted", (V.ACTIVE, T.REBOOTING), (V.ACTIVE, None)),
    Move("rebooted_hard", (V.ACTIVE, T.REBOOTING_HARD), (V.ACTIVE, None)),
    *(
        Move("action_failed", (vm, task), (vm, None))
        for vm, task in (
            (V.ACTIVE, T.POWERING_OFF),
            (V.STOPPED, T.POWERING_ON),
            (V.ACTIVE, T.REBOOTING),
            (V.ACTIVE, T.REBOOTING_HARD),
        )
    ),
    Move("found_stopped", (V.ACTIVE, None), (V.STOPPED, None)),
    Move("found_running", (V.STOPPED, None), (V.ACTIVE, None)),
    *(
        Move("delete", (vm, task), (vm, T.DELETING))
        for vm in (V.BUILDING, V.ACTIVE, V.STOPPED, V.ERROR)
        for task in (None, *(task for task in T if task != T.DELETING))
    ),
    *(Move("deleted", (vm, T.DELETING), (V.DELETED, None)) for vm in (V.BUILDING, V.ACTIVE, V.STOPPED, V.ERROR)),
)

LEGAL: dict[tuple[str, State], State] = {(move.name, move.source): move.target for move in MOVES}
"""(move, where it starts) -> where it ends; a move that is not here cannot happen."""


def api_status(vm_state: str, task_state: str | None) -> str:
    """Return the Compute API's ``status``, derived as Nova derives it (nova.api.openstack.common.status_from_state)."""
    if vm_state == VmState.ACTIVE:
        if task_state == TaskState.REBOOTING:
            return "REBOOT"
        if task_state == TaskState.REBOOTING_HARD:
            return "HARD_REBOOT"
        return "ACTIVE"
    return {"building": "BUILD", "stopped": "SHUTOFF", "error": "ERROR", "deleted": "DELETED"}.get(vm_state, "UNKNOWN")


__all__ = ["LEGAL", "MOVES", "Move", "PowerState", "State", "TaskState", "VmState", "api_status"]
