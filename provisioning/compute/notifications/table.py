"""Which notifications there are: the one table from moves of an instance to Nova's names, and those without a move."""

from __future__ import annotations

from provisioning.compute.states import ORDERS, TaskState

T = TaskState

NAME_OF_ORDER: dict[str, str] = {
    "power_off": "power_off",
    "power_on": "power_on",
    "reboot": "reboot",
    "reboot_hard": "reboot",
    "pause": "pause",
    "unpause": "unpause",
    "suspend": "suspend",
    "resume": "resume",
    "rescue": "rescue",
    "unrescue": "unrescue",
    "rebuild": "rebuild",
    "snapshot": "snapshot",
    "backup": "snapshot",
    "shelve": "shelve",
    "offload": "shelve_offload",
    "unshelve": "unshelve",
    "confirm_resize": "resize_confirm",
    "revert_resize": "resize_revert",
    "soft_delete": "soft_delete",
    "restore": "restore",
}
"""``Order.begin`` → Nova's name; ``change_password`` has none there, and a resize has three."""

OF_MOVE: dict[str, tuple[str, ...]] = {
    "allocate_network": ("create.start",),
    "activate": ("create.end",),
    "fail": ("create.error",),
    "delete": ("delete.start",),
    "deleted": ("delete.end",),
    "resize": ("resize_prep.start",),
    "migrate_disk": ("resize_prep.end", "resize.start"),
    "resized": ("resize.end", "resize_finish.start", "resize_finish.end"),
    **{order.begin: (f"{NAME_OF_ORDER[order.begin]}.start",) for order in ORDERS if order.begin in NAME_OF_ORDER},
    **{
        end: (f"{NAME_OF_ORDER[order.begin]}.end",)
        for order in ORDERS
        if order.begin in NAME_OF_ORDER
        for end in order.ends
    },
}
"""Move → what it sends, in this order."""

ERROR_OF_TASK: dict[str, str] = {
    **{order.task.value: f"{NAME_OF_ORDER[order.begin]}.error" for order in ORDERS if order.begin in NAME_OF_ORDER},
    T.RESIZE_PREP.value: "resize.error",
    T.RESIZE_MIGRATING.value: "resize.error",
    T.RESIZE_FINISH.value: "resize.error",
    T.IMAGE_UPLOADING.value: "snapshot.error",
    T.SHELVING_IMAGE_UPLOADING.value: "shelve.error",
    T.SPAWNING.value: "unshelve.error",
}
"""Task that failed or broke → what is sent; a launch fails by a move of its own."""

FAILURES = frozenset({"action_failed", "action_broke"})
ACTIONS: dict[str, tuple[str, ...]] = {
    "power_off": ("stop",),
    "power_on": ("start",),
    "snapshot": ("createImage", "createBackup"),
    "shelve_offload": ("shelveOffload",),
    "resize_prep": ("resize",),
    "resize_finish": ("resize",),
    "resize_confirm": ("confirmResize",),
    "resize_revert": ("revertResize",),
    "soft_delete": ("delete",),
    "interface_attach": ("attach_interface",),
    "interface_detach": ("detach_interface",),
}
"""Nova's name → the names of the action records, where they differ."""

WITHOUT_MOVE: tuple[str, ...] = (
    "instance.lock",
    "instance.unlock",
    "instance.trigger_crash_dump.start",
    "instance.trigger_crash_dump.end",
    "instance.trigger_crash_dump.error",
    "instance.interface_attach.start",
    "instance.interface_attach.end",
    "instance.interface_attach.error",
    "instance.interface_detach.start",
    "instance.interface_detach.end",
    "instance.interface_detach.error",
    "instance.update",
    "instance.exists",
    "service.create",
    "service.update",
    "service.delete",
    *(
        f"aggregate.{verb}.{phase}"
        for verb in ("create", "delete", "update_prop", "update_metadata", "add_host", "remove_host")
        for phase in ("start", "end")
    ),
)

NOVAS_ERRORS = frozenset(
    f"instance.{name}.error" for name in ("create", "reboot", "rebuild", "resize", "interface_attach")
)
"""The failures that Nova sends too; the others are ours, in the same shape."""

PAYLOADS: dict[str, tuple[str, str]] = {
    "create": ("InstanceCreatePayload", "1.12"),
    "snapshot": ("InstanceActionSnapshotPayload", "1.9"),
    "rescue": ("InstanceActionRescuePayload", "1.3"),
    "rebuild": ("InstanceActionRebuildPayload", "1.9"),
    "resize_prep": ("InstanceActionResizePrepPayload", "1.3"),
    "update": ("InstanceUpdatePayload", "2.0"),
    "exists": ("InstanceExistsPayload", "2.0"),
}
"""Payloads that say more than ``InstanceActionPayload`` 1.8."""
ORDINARY = ("InstanceActionPayload", "1.8")


def every_type() -> list[str]:
    """Return every type of notification there is, sorted."""
    moves = {f"instance.{name}" for names in OF_MOVE.values() for name in names}
    errors = {f"instance.{name}" for name in ERROR_OF_TASK.values()}
    return sorted(moves | errors | set(WITHOUT_MOVE))


def payload_of(event_type: str) -> tuple[str, str]:
    """Return the name and the version of the payload of a type."""
    kind, name = event_type.split(".")[:2]
    if kind == "service":
        return "ServiceStatusPayload", "1.1"
    if kind == "aggregate":
        return "AggregatePayload", "1.1"
    return PAYLOADS.get(name, ORDINARY)
