"""Table of all notifications: Nova's names for the transitions of an instance, and notifications that Nova sends
without a transition.
"""

from collections.abc import Iterable, Mapping

from provisioning.compute.states import TaskState

OF_TRANSITION: dict[str, tuple[str, ...]] = {
    "allocate_network": ("create.start",),
    "activate": ("create.end",),
    "fail": ("create.error",),
}
"""Transition → notifications, in order; server actions add theirs."""

ERROR_OF_TASK: dict[str, str] = {}
"""Task → notification of its failure. A launch fails by a transition of its own."""

FAILURES = frozenset({"action_failed", "action_broke"})
ACTIONS: dict[str, tuple[str, ...]] = {}
"""Nova's name of a notification → names of action records, where they differ from it."""

WITHOUT_TRANSITION: list[str] = [
    "instance.update",
    "instance.exists",
    "instance.lease.ending",
    "instance.live_migration_pre.end",
    *(f"instance.live_migration_{verb}.{phase}" for verb in ("abort", "force_complete") for phase in ("start", "end")),
    "instance.open_tunnel.start",
    "instance.open_tunnel.end",
    "service.create",
    "service.update",
    "service.delete",
    *(
        f"aggregate.{verb}.{phase}"
        for verb in ("create", "delete", "update_prop", "update_metadata", "add_host", "remove_host")
        for phase in ("start", "end")
    ),
]

PAYLOADS: dict[str, tuple[str, str]] = {
    "create": ("InstanceCreatePayload", "1.12"),
    "snapshot": ("InstanceActionSnapshotPayload", "1.9"),
    "rescue": ("InstanceActionRescuePayload", "1.3"),
    "rebuild": ("InstanceActionRebuildPayload", "1.9"),
    "volume_attach": ("InstanceActionVolumePayload", "1.6"),
    "volume_detach": ("InstanceActionVolumePayload", "1.6"),
    "volume_swap": ("InstanceActionVolumeSwapPayload", "1.8"),
    "volume_mount": ("InstanceActionVolumePayload", "1.6"),
    "file_system_extend": ("InstanceActionVolumePayload", "1.6"),
    "open_tunnel": ("InstanceActionTunnelPayload", "1.0"),
    "resize_prep": ("InstanceActionResizePrepPayload", "1.3"),
    "update": ("InstanceUpdatePayload", "2.0"),
    "exists": ("InstanceExistsPayload", "2.0"),
}
"""Notification → name and version of its payload, where it has more fields than ``InstanceActionPayload`` 1.8."""
ORDINARY = ("InstanceActionPayload", "1.8")


def add_action(
    name: str, record: str, sends: Mapping[str, tuple[str, ...]], tasks: Iterable[TaskState], *, error: str = ""
) -> None:
    """Add the notifications of a server action.

    ``name`` is Nova's name of the notification, ``record`` the name of the action record. ``sends`` maps transitions
    to notifications; a failure of one of ``tasks`` sends ``error``.
    """
    OF_TRANSITION.update(sends)
    ERROR_OF_TASK.update(dict.fromkeys((task.value for task in tasks), error or f"{name}.error"))
    for each in {name, *(sent.split(".")[0] for names in sends.values() for sent in names)}:
        if each != record and record not in ACTIONS.get(each, ()):
            ACTIONS[each] = (*ACTIONS.get(each, ()), record)


def every_type() -> list[str]:
    """Return all types of notifications, sorted."""
    transitions = {f"instance.{name}" for names in OF_TRANSITION.values() for name in names}
    errors = {f"instance.{name}" for name in ERROR_OF_TASK.values()}
    return sorted(transitions | errors | set(WITHOUT_TRANSITION))


def payload_of(event_type: str) -> tuple[str, str]:
    kind, name = event_type.split(".")[:2]
    if kind == "service":
        return "ServiceStatusPayload", "1.1"
    if kind == "aggregate":
        return "AggregatePayload", "1.1"
    return PAYLOADS.get(name, ORDINARY)
