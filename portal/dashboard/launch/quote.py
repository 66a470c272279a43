"""Quota usage of a launch for the wizard: used, this launch, remaining."""

from dataclasses import dataclass

from portal.dashboard.words import wording
from provisioning.compute.flavors.sizes import quota_amounts
from provisioning.compute.models import Flavor
from provisioning.compute.selectors import Limits


@dataclass(frozen=True, slots=True)
class Meter:
    """One resource; widths in percent of the limit, at most 100."""

    label: str
    used_width: float
    this_left: float
    this_width: float
    over: bool
    this_text: str
    left_text: str


def meters(limits: Limits, flavor: Flavor | None, count: int) -> list[Meter]:
    """Return the meters for ``count`` servers of this flavor."""
    amounts = quota_amounts(flavor) if flavor else {"instances": 1}
    return [_meter(resource, limits, amounts.get(resource, 0) * count) for resource in wording.RESOURCES]


def _meter(resource: str, limits: Limits, this: int) -> Meter:
    limit, used = limits.limits.get(resource, -1), limits.usage.get(resource, 0)
    unlimited = limit < 0
    whole = max(limit, 1) if not unlimited else max(2 * (used + this), 1)
    used_width = min(100 * used / whole, 100)
    this_width = min(100 * this / whole, 100)
    over = this > 0 and not unlimited and used + this > limit
    if over:
        this_left = min(used_width, 100 - max(this_width, 4))
        this_width = 100 - this_left
    else:
        this_left = used_width
    left = limit - used - this
    if unlimited:
        words = "no limit"
    elif over:
        words = f"{wording.amount(resource, -left)} over the limit"
    else:
        words = f"{wording.amount(resource, max(left, 0))} left"
    return Meter(
        label=wording.RESOURCES[resource],
        used_width=round(used_width, 1),
        this_left=round(this_left, 1),
        this_width=round(this_width, 1),
        over=over,
        this_text=f"+ {wording.amount(resource, this)}",
        left_text=words,
    )
