"""How many servers the quota allows, and what each of them takes of it."""

from dataclasses import dataclass

from provisioning.common.errors import OverQuotaError
from provisioning.compute.models import Flavor
from provisioning.images.models import Image
from provisioning.quotas.selectors import Room


@dataclass(frozen=True, slots=True)
class LaunchQuote:
    """What a launch would take: ``amounts`` per server, limits (-1: unlimited), and what counts against them."""

    flavor: Flavor
    image: Image | None
    """Of a root disk on the host; None: the server boots from a volume."""
    count: int
    """How many servers would be made: as many of ``max_count`` as the quota allows."""
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
    """Find how many servers the quota allows, from the lower of ``counts``: else raises OverQuotaError."""
    low, high = counts
    count = high
    for resource, amount in amounts.items():
        limit, used = room.limits.get(resource, -1), room.usage.get(resource, 0)
        if limit < 0 or amount == 0:
            continue
        if used + low * amount > limit:
            of_user = resource in room.of_user
            raise OverQuotaError(resource, limit=limit, used=used, asked=low * amount, of_user=of_user)
        count = min(count, (limit - used) // amount)
    return LaunchQuote(flavor=flavor, image=image, count=count, amounts=amounts, limits=room.limits, usage=room.usage)
