"""Formatting of numbers, times and statuses, the same on every page."""

from dataclasses import dataclass
from datetime import UTC, datetime

from django.utils import timezone

from provisioning.compute.states import PowerState

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
