"""What a launch could choose now: each size with the reason why it does not fit, and how many more of it the hosts can
take.
"""

from __future__ import annotations

from dataclasses import dataclass

from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.compute import selectors
from provisioning.compute.models import Flavor
from provisioning.compute.selectors.catalog import Limits
from provisioning.compute.services.checks import check_fit
from provisioning.compute.sizes import flavor_copy, quota_amounts, room_of
from provisioning.images.models import Image
from provisioning.scheduler import HostState, RequestSpec, rank

MOST_SHOWN = 10
"""How much more room there is than this is nobody's business but the operator's."""


@dataclass(frozen=True, slots=True)
class FlavorChoice:
    """One size as a launch sees it."""

    flavor: Flavor
    reason: str = ""
    """Why a launch would be refused; empty when it would not."""
    room: int = 0
    """How many more of this size the hosts can take now, at most MOST_SHOWN."""


def flavor_choices(
    context: RequestContext, image: Image | None, limits: Limits, *, count: int = 1, availability_zone: str = ""
) -> list[FlavorChoice]:
    """Return every size the caller may use, the smallest first, judged for ``count`` servers of ``image``."""
    hosts = selectors.host_states()
    choices = []
    for flavor in selectors.flavors_for(context):
        virtual_size = max(image.virtual_size or 0, image.size or 0) if image else 0
        room = room_of(flavor_copy(flavor, virtual_size))
        spec = RequestSpec(room.vcpus, room.memory_mb, room.disk_gb, availability_zone=availability_zone)
        reason = _misfit(flavor, image) or _over_quota(flavor, limits, count)
        choices.append(FlavorChoice(flavor, reason, how_many_fit(hosts, spec)))
    return choices


def how_many_fit(hosts: list[HostState], spec: RequestSpec, *, most: int = MOST_SHOWN) -> int:
    """Return how many guests of this size would find a place one after the other, stopping at ``most``."""
    left = list(hosts)
    for placed in range(most):
        ranked = rank(left, spec).ranked
        if not ranked:
            return placed
        chosen = ranked[0].host
        left.remove(chosen)
        left.append(
            chosen._replace(
                vcpus_allocated=chosen.vcpus_allocated + spec.vcpus,
                memory_mb_allocated=chosen.memory_mb_allocated + spec.memory_mb,
                disk_gb_allocated=chosen.disk_gb_allocated + spec.disk_gb,
                instances=chosen.instances + 1,
            )
        )
    return most


def _misfit(flavor: Flavor, image: Image | None) -> str:
    if image is None:
        return ""
    try:
        check_fit(flavor, image)
    except InvalidInputError as error:
        return error.message
    return ""


def _over_quota(flavor: Flavor, limits: Limits, count: int) -> str:
    words = {"instances": "instances", "cores": "vCPUs", "ram": "MiB of memory"}
    for resource, amount in quota_amounts(flavor).items():
        left = limits.left(resource)
        if left is not None and amount * count > left:
            return f"Over quota: {left} {words[resource]} left, {amount * count} needed."
    return ""
