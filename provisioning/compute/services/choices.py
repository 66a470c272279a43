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
from provisioning.compute.selectors.instances import NOBODY
from provisioning.compute.selectors.request_specs import spec_of
from provisioning.compute.services.checks import check_fit
from provisioning.compute.services.decisions import options_now
from provisioning.compute.services.dry_run import MOST_SHOWN, imagined
from provisioning.compute.sizes import flavor_copy, quota_amounts
from provisioning.images.models import Image
from provisioning.scheduler import facts_needed, how_many


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
    flavors, options = selectors.flavors_for(context), options_now()
    project_id = context.project_id or NOBODY
    virtual_size = max(image.virtual_size or 0, image.size or 0) if image else 0
    specs = [
        spec_of(imagined(project_id, flavor_copy(flavor, virtual_size), image, availability_zone)) for flavor in flavors
    ]
    needed = frozenset().union(*(facts_needed(spec, options) for spec in specs))
    hosts = selectors.host_states(needed, image_id=image.id if image else None)
    return [
        FlavorChoice(
            flavor,
            _misfit(flavor, image) or _over_quota(flavor, limits, count),
            how_many(hosts, spec, options, MOST_SHOWN).fits,
        )
        for flavor, spec in zip(flavors, specs, strict=True)
    ]


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
