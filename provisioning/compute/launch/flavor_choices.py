"""Flavors for the launch form: the reason why a flavor cannot be launched, and how many servers of it would fit."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.db import DatabaseError

from provisioning.common.context import RequestContext
from provisioning.common.values.ids import NOBODY
from provisioning.compute import selectors
from provisioning.compute.flavors.sizes import flavor_copy, quota_amounts
from provisioning.compute.launch.decisions import options_now
from provisioning.compute.launch.dry_run import MOST_SHOWN, imagined
from provisioning.compute.launch.flavor_and_image import ZERO_DISK, may_be_without_disk, misfit, size_of
from provisioning.compute.models import Flavor, ServerGroup
from provisioning.compute.selectors.catalog import Limits
from provisioning.compute.selectors.request_specs import spec_of
from provisioning.compute.selectors.server_groups import group_of
from provisioning.images.models import Image
from provisioning.scheduler import RequestSpec, facts_needed, funnel, how_many
from provisioning.scheduler.counting import Count
from provisioning.scheduler.explain import why

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FlavorChoice:
    """A flavor as an option of a launch."""

    flavor: Flavor
    reason: str = ""
    """Why a launch would be rejected; empty when it would be accepted."""
    room: int | None = None
    """Number of servers that would fit now, at most MOST_SHOWN; None when unknown."""
    full: str = ""
    """Why fewer servers than requested would fit; empty when all would."""

    @property
    def and_more(self) -> bool:
        """Whether counting stopped at the maximum."""
        return self.room == MOST_SHOWN


@dataclass(frozen=True, slots=True)
class FlavorRequest:
    """Other parameters of the launch; ``server_group`` belongs to the caller's project."""

    count: int = 1
    availability_zone: str = ""
    server_group: ServerGroup | None = None


ANY = FlavorRequest()


def flavor_choices(
    context: RequestContext, image: Image | None, limits: Limits, request: FlavorRequest = ANY
) -> list[FlavorChoice]:
    """Return all flavors that the caller may use, smallest first, with the checks of a launch; reads the hosts once."""
    flavors = selectors.flavors_for(context)
    counts = _counts(context, flavors, image, request)
    choices = []
    for flavor, found in zip(flavors, counts, strict=True):
        reason = _misfit(context, flavor, image) or _over_quota(flavor, limits, request.count)
        room, full = (found.fits, _full(found, request.count)) if found else (None, "")
        choices.append(FlavorChoice(flavor, reason, room, full))
    return choices


def _counts(
    context: RequestContext, flavors: Sequence[Flavor], image: Image | None, request: FlavorRequest
) -> Sequence[Count | None]:
    """Return how many servers of each flavor would fit. If a custom part of the scheduler fails, return None for each,
    because the launch form is usable without the numbers.
    """
    try:
        options, specs = options_now(), _specs(context, flavors, image, request)
        needed = frozenset().union(*(facts_needed(spec, options) for spec in specs))
        hosts = selectors.host_states(needed, image_id=image.id if image else None)
        return [how_many(hosts, spec, options, MOST_SHOWN) for spec in specs]
    except DatabaseError:
        raise
    except Exception:
        log.exception("The scheduler could not count what would fit.")
        return [None] * len(flavors)


def _specs(
    context: RequestContext, flavors: Sequence[Flavor], image: Image | None, request: FlavorRequest
) -> list[RequestSpec]:
    """Return the scheduler requests for all flavors; reads the members of the server group once."""
    project_id = context.project_id or NOBODY
    copies = [flavor_copy(flavor, size_of(image)) for flavor in flavors]
    servers = [imagined(project_id, copy, image, request.availability_zone) for copy in copies]
    group = None
    if request.server_group and servers:
        servers[0].server_group = request.server_group
        group = group_of(servers[0])
        servers[0].server_group = None
    return [replace(spec_of(server), group=group) for server in servers]


def _full(number: Count, count: int) -> str:
    """Return a short reason why fewer than ``count`` servers would fit; empty when all would."""
    if number.fits >= min(count, MOST_SHOWN):
        return ""
    if number.fits:
        return f"Only {number.fits} of {count} would fit now."
    last = number.decision.filters[-1] if number.decision.hosts else None
    if last is None or last.after:
        return funnel(number.decision)
    return f"No hosts {last.words}: {why(last)}."


def _misfit(context: RequestContext, flavor: Flavor, image: Image | None) -> str:
    if image is not None and not may_be_without_disk(context, flavor):
        return ZERO_DISK
    return misfit(flavor, image)


def _over_quota(flavor: Flavor, limits: Limits, count: int) -> str:
    words = {"instances": "instances", "cores": "vCPUs", "ram": "MiB of memory"}
    for resource, amount in quota_amounts(flavor).items():
        left = limits.left(resource)
        if left is not None and amount * count > left:
            return f"Over quota: {left} {words[resource]} left, {amount * count} needed."
    return ""
