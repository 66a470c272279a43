"""Quota usage as donut charts."""

from dataclasses import dataclass

from portal.dashboard.words import wording
from provisioning.compute.selectors import Limits


@dataclass(frozen=True, slots=True)
class Donut:
    """One resource: amounts in the API's units (memory in MiB); ``limit`` None: unlimited."""

    resource: str
    label: str
    used: int
    limit: int | None
    note: str = ""

    @property
    def percent(self) -> float:
        """Percent of the limit in use, at most 100."""
        if not self.limit:
            return 100.0 if self.limit == 0 and self.used else 0.0
        return round(min(100 * self.used / self.limit, 100), 1)

    @property
    def rounded(self) -> int:
        return round(self.percent)

    @property
    def tone(self) -> str:
        """``used``, ``near`` (80 %) or ``full``."""
        if self.limit is not None and self.used >= self.limit:
            return "full"
        return "near" if self.percent >= 80 else "used"

    @property
    def used_text(self) -> str:
        """The usage with its unit."""
        return wording.amount(self.resource, self.used)

    @property
    def limit_text(self) -> str:
        """The limit with its unit."""
        return wording.amount(self.resource, self.limit or 0)

    @property
    def left_text(self) -> str:
        """The remaining amount with its unit."""
        return wording.amount(self.resource, max((self.limit or 0) - self.used, 0))


VOLUMES = {"volumes": "Volumes", "gigabytes": "Volume storage"}
NETWORK = {"floatingips": "Floating IPs"}


def donuts(limits: Limits, *, volumes: bool = False, network: bool = False, deleted_gb: int = 0) -> list[Donut]:
    """Return the resources of a launch, with ``volumes`` also those of volumes and snapshots, and with ``network`` the
    floating IPs.

    ``deleted_gb``: storage used by data of deleted volumes.
    """
    note = f"{deleted_gb} GiB of it in deleted volumes that clones still use" if deleted_gb else ""
    drawn = []
    labels = wording.RESOURCES | (VOLUMES if volumes else {}) | (NETWORK if network else {})
    for resource, label in labels.items():
        limit = limits.limits.get(resource, -1)
        used = limits.usage.get(resource, 0)
        drawn.append(
            Donut(resource, label, used, None if limit < 0 else limit, note if resource == "gigabytes" else "")
        )
    return drawn
