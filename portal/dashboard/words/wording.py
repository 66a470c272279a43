"""Formatting of numbers, times and statuses, the same on every page."""

from dataclasses import dataclass
from datetime import UTC, datetime

from django.utils import timezone

from provisioning.compute.actions.registry import words_of_tasks
from provisioning.compute.models import Instance
from provisioning.compute.states import PowerState, VmState, api_status
from provisioning.hosts.selectors import is_alive


@dataclass(frozen=True, slots=True)
class Status:
    """A status with its appearance: ``tone`` is one of ok, busy, warn, bad, off."""

    word: str
    tone: str
    icon: str


INSTANCE_STATUS = {
    "ACTIVE": Status("Active", "ok", "check-circle-fill"),
    "BUILD": Status("Building", "busy", "arrow-repeat"),
    "SHUTOFF": Status("Stopped", "off", "stop-circle-fill"),
    "ERROR": Status("Error", "bad", "exclamation-octagon-fill"),
    "REBOOT": Status("Rebooting", "busy", "arrow-repeat"),
    "HARD_REBOOT": Status("Resetting", "busy", "arrow-repeat"),
    "PASSWORD": Status("Setting password", "busy", "arrow-repeat"),
    "REBUILD": Status("Rebuilding", "busy", "arrow-repeat"),
    "RESIZE": Status("Resizing or moving", "busy", "arrow-repeat"),
    "VERIFY_RESIZE": Status("To be confirmed", "warn", "question-circle-fill"),
    "MIGRATING": Status("Migrating", "busy", "arrow-repeat"),
    "REVERT_RESIZE": Status("Reverting", "busy", "arrow-repeat"),
    "PAUSED": Status("Paused", "off", "pause-circle-fill"),
    "SUSPENDED": Status("Suspended", "off", "moon-fill"),
    "RESCUE": Status("In rescue", "warn", "life-preserver"),
    "SHELVED": Status("Shelved", "off", "archive-fill"),
    "SHELVED_OFFLOADED": Status("Shelved", "off", "archive-fill"),
    "SOFT_DELETED": Status("Deleted, can be restored", "off", "trash"),
    "DELETED": Status("Deleted", "off", "trash-fill"),
}
ROUTER_STATUS = {
    "ACTIVE": Status("Active", "ok", "check-circle-fill"),
    "DOWN": Status("Switched off", "off", "stop-circle-fill"),
    "ERROR": Status("Error", "bad", "exclamation-octagon-fill"),
}
IMAGE_STATUS = {
    "active": Status("Ready", "ok", "check-circle-fill"),
    "queued": Status("Waiting for data", "warn", "hourglass-split"),
    "saving": Status("Uploading", "busy", "arrow-repeat"),
    "uploading": Status("Uploading", "busy", "arrow-repeat"),
    "importing": Status("Importing", "busy", "arrow-repeat"),
    "deactivated": Status("Deactivated", "warn", "slash-circle"),
    "killed": Status("Refused", "bad", "exclamation-octagon-fill"),
}
SEEN_BY = {
    "public": "public",
    "community": "projects that know its ID",
    "private": "this project",
    "shared": "this project and the ones it is shared with",
    "private of others": "the project that owns it",
    "shared of others": "the project that owns it and the ones it is shared with",
    "offered": "offered to this project",
    "lent": "shared with this project",
}
"""Visibility of an image, or the project's membership → the users who see it."""
LAUNCHING = {
    "scheduling": "Choosing a host",
    "networking": "Allocating addresses",
    "block_device_mapping": "Preparing disks",
    "spawning": "Starting on its host",
    "evacuating": "Moving to another host",
}
"""Task states of a launch → label; other tasks have the labels of their actions."""
ACTIONS = {
    "create": "Launched",
    "migrate": "Migrated",
    "live-migration": "Migrated live",
    "open_tunnel": "Reached by a tunnel",
    "addSecurityGroup": "Security group added",
    "removeSecurityGroup": "Security group removed",
}
"""Labels of finished actions that are not in the registry."""
POWER = {
    PowerState.NOSTATE: "No state",
    PowerState.RUNNING: "Running",
    PowerState.PAUSED: "Paused",
    PowerState.SHUTDOWN: "Shut down",
    PowerState.CRASHED: "Crashed",
    PowerState.SUSPENDED: "Suspended",
}
RESOURCES = {"instances": "Instances", "cores": "vCPUs", "ram": "Memory"}
ROLES = {
    "admin": "operate the cloud",
    "member": "use and change the project's resources",
    "reader": "view the project's resources",
}
UNKNOWN = Status("Unknown", "off", "question-circle-fill")


def task_word(task_state: str | None) -> str:
    """Return the label of the current task; the API's name is shown next to it if there is space."""
    task = task_state or ""
    return LAUNCHING.get(task) or words_of_tasks.get(task, "")


def instance_status(api_status: str, task_state: str | None) -> Status:
    """Return the label of an instance's status. If the status itself shows no operation, the label of a running task is
    returned instead.
    """
    usual = INSTANCE_STATUS.get(api_status, UNKNOWN)
    if not task_state or usual.tone == "busy" or api_status == "DELETED":
        return usual
    word = {"powering-off": "Stopping"}.get(task_state) or task_word(task_state)
    return Status(word, "busy", "arrow-repeat") if word else usual


SILENT = Status("Unknown", "warn", "question-circle-fill")
"""The status of a server whose host is down, so that its state is unknown (``UNKNOWN`` in Nova's ``host_status``)."""


def server_status(instance: Instance, now: datetime) -> Status:
    """Return the current status of a server; ``instance.host`` must be prefetched."""
    if is_silent(instance, now):
        return SILENT
    return instance_status(api_status(instance.vm_state, instance.task_state), instance.task_state)


def is_silent(instance: Instance, now: datetime) -> bool:
    """Whether the server's host is down or was forced down by an operator."""
    return instance.host is not None and instance.vm_state != VmState.DELETED and not is_alive(instance.host, now)


JOINED = "\N{NO-BREAK SPACE}"
"""Separator of a number and its unit, which prevents a line break."""


def mebibytes(value: int) -> str:
    """Format MiB, as GiB from 1024 MiB on."""
    if value >= 1024:
        return f"{value / 1024:.1f}".removesuffix(".0") + f"{JOINED}GiB"
    return f"{value}{JOINED}MiB"


def amount(resource: str, value: int) -> str:
    """Return an amount of a resource of the quota, with its unit."""
    if resource == "gigabytes":
        return f"{value}{JOINED}GiB"
    return mebibytes(value) if resource == "ram" else str(value)


def size_in_bytes(value: int) -> str:
    """Format bytes with the unit that leaves at most four digits."""
    amount, unit = float(value), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.1f}".removesuffix(".0") + f" {unit}"


def duration(seconds: float) -> str:
    """Format seconds: ``4 ms``, ``0.42 s``, ``12.3 s``, ``2 min 5 s``."""
    if seconds < 0.0005:
        return "< 1 ms"
    if seconds < 0.1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"


def age(moment: datetime) -> str:
    """Format the age of a time, as clock.js does."""
    seconds = int((timezone.now() - moment).total_seconds())
    if seconds < 60:
        return "just now"
    if seconds < 3600:
        return f"{seconds // 60} min"
    if seconds < 86_400:
        return f"{seconds // 3600} h"
    return f"{seconds // 86_400} d"


def moment(value: datetime, to: str = "minutes") -> str:
    """Format a time in UTC, to the ``minutes`` or ``seconds``."""
    shape = "%Y-%m-%d %H:%M:%S" if to == "seconds" else "%Y-%m-%d %H:%M"
    return f"{value.astimezone(UTC):{shape}}{JOINED}UTC"


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a copy in bytes; ``percent`` is None if the total is unknown."""

    percent: int | None
    text: str


def progress(done: int, total: int) -> Progress | None:
    """Return the progress of a copy; None while it is unknown."""
    if not done and not total:
        return None
    if not total:
        return Progress(None, size_in_bytes(done))
    part = min(done, total)
    return Progress(100 * part // total, f"{size_in_bytes(part)} of {size_in_bytes(total)}")
