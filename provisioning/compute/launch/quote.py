"""Number of servers that the quota allows, and their usage."""

from dataclasses import dataclass

from provisioning.common.errors import OverQuotaError
from provisioning.compute.models import Flavor
from provisioning.images.models import Image
from provisioning.quotas.selectors import Room


@dataclass(frozen=True, slots=True)
class LaunchQuote:
    """Quota of a launch: ``amounts`` for each server, limits (-1: unlimited), and current usage."""

    flavor: Flavor
    image: Image | None
    """Image of a local root disk; None: the server boots from a volume."""
    count: int
    """Number of servers that would be created: as many of ``max_count`` as the quota allows."""
    amounts: dict[str, int]
    limits: dict[str, int]
    usage: dict[str, int]


def quote(
    flavor: Flavor,
    image: Image | None,
    amounts: dict[str, int],
    counts: tuple[int, int],
    room: Room,
) -> LaunchQuote:
    """Return the quote for the number of servers that the quota allows. Raises OverQuotaError below ``counts[0]``."""
    low, high = counts
    count = high
    for resource, amount in amounts.items():
        limit, used = room.limits.get(resource, -1), room.usage.get(resource, 0)
        if limit < 0 or amount == 0:
            continue
        if used + low * amount > limit:
            of_user = resource in room.of_user
            raise OverQuotaError(resource, limit=limit, used=used, requested=low * amount, of_user=of_user)
        count = min(count, (limit - used) // amount)
    return LaunchQuote(flavor=flavor, image=image, count=count, amounts=amounts, limits=room.limits, usage=room.usage)
