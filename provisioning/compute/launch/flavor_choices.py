"""What a launch could choose now: each size with the reason why it does not fit, and how many more of it the hosts can
take.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.db import DatabaseError

from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.common.ids import NOBODY
from provisioning.compute import selectors
from provisioning.compute.flavor_and_image import (
    ZERO_DISK,
    check_fit,
    may_be_without_disk,
)
from provisioning.compute.guest_hardware import check_demands
from provisioning.compute.launch.decisions import options_now
from provisioning.compute.launch.dry_run import MOST_SHOWN, imagined
from provisioning.compute.models import Flavor, ServerGroup
from provisioning.compute.selectors.catalog import Limits
from provisioning.compute.selectors.request_specs import spec_of
from provisioning.compute.selectors.server_groups import group_of
from provisioning.compute.sizes import flavor_copy, quota_amounts
from provisioning.images.models import Image
from provisioning.scheduler import RequestSpec, facts_needed, funnel, how_many
from provisioning.scheduler.counting import Count
from provisioning.scheduler.explain import why

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FlavorChoice:
    """One size as a launch sees it."""

    flavor: Flavor
    reason: str = ""
    """Why a launch would be refused; empty when it would not."""
    room: int | None = None
    """How many of this size would find a place now, at most MOST_SHOWN; None where that could not be found out."""
    full: str = ""
    """Why no more of them, or none, would; empty when as many as are wanted do."""

    @property
    def and_more(self) -> bool:
        """Whether counting stopped while there was room."""
        return self.room == MOST_SHOWN


@dataclass(frozen=True, slots=True)
class Wanted:
    """What else a launch would say of its place; ``server_group`` is of the caller's project."""

    count: int = 1
    availability_zone: str = ""
    server_group: ServerGroup | None = None


ANY = Wanted()


def flavor_choices(
    context: RequestContext, image: Image | None, limits: Limits, wanted: Wanted = ANY
) -> list[FlavorChoice]:
    """Return every size the caller may use, the smallest first, judged as a launch would be; hosts are read once."""
    flavors = selectors.flavors_for(context)
    counts = _counts(context, flavors, image, wanted)
    choices = []
    for flavor, found in zip(flavors, counts, strict=True):
        reason = _misfit(context, flavor, image) or _over_quota(flavor, limits, wanted.count)
        room, full = (found.fits, _full(found, wanted.count)) if found else (None, "")
        choices.append(FlavorChoice(flavor, reason, room, full))
    return choices


def _counts(
    context: RequestContext, flavors: Sequence[Flavor], image: Image | None, wanted: Wanted
) -> Sequence[Count | None]:
    """Return how many of each size would find a place; None for all when a scheduler's part of the operators' own
    fails: a launch can be asked for all the same.
    """
    try:
        options, specs = options_now(), _specs(context, flavors, image, wanted)
        needed = frozenset().union(*(facts_needed(spec, options) for spec in specs))
        hosts = selectors.host_states(needed, image_id=image.id if image else None)
        return [how_many(hosts, spec, options, MOST_SHOWN) for spec in specs]
    except DatabaseError:
        raise
    except Exception:
        log.exception("The scheduler could not say what would fit.")
        return [None] * len(flavors)


def _specs(
    context: RequestContext, flavors: Sequence[Flavor], image: Image | None, wanted: Wanted
) -> list[RequestSpec]:
    """Return what the scheduler would be asked for each size; who is in the group is read once."""
    project_id = context.project_id or NOBODY
    virtual_size = max(image.virtual_size or 0, image.size or 0) if image else 0
    servers = [
        imagined(project_id, flavor_copy(flavor, virtual_size), image, wanted.availability_zone) for flavor in flavors
    ]
    group = None
    if wanted.server_group and servers:
        servers[0].server_group = wanted.server_group
        group = group_of(servers[0])
        servers[0].server_group = None
    return [replace(spec_of(server), group=group) for server in servers]


def _full(found: Count, count: int) -> str:
    """Say in a few words why less than ``count`` would find a place; empty when they all do."""
    if found.fits >= min(count, MOST_SHOWN):
        return ""
    if found.fits:
        return f"Only {found.fits} of {count} find a place now."
    last = found.decision.filters[-1] if found.decision.hosts else None
    if last is None or last.after:
        return funnel(found.decision)
    return f"No hosts {last.words}: {why(last)}."


def _misfit(context: RequestContext, flavor: Flavor, image: Image | None) -> str:
    if image is not None and not may_be_without_disk(context, flavor):
        return ZERO_DISK
    try:
        check_demands(image.properties if image is not None else {}, flavor)
        if image is not None:
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
