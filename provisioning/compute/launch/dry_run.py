"""Dry run of the scheduler with the current hosts: the number of servers that would fit. Writes nothing."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter, le
from typing import Any

from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError, InvalidInputError
from provisioning.common.values.ids import NOBODY
from provisioning.common.values.numbers import MAX_INTEGER
from provisioning.compute.flavors.guest_hardware import check_demands
from provisioning.compute.flavors.sizes import flavor_copy, quota_held
from provisioning.compute.launch.checks import MAX_COUNT
from provisioning.compute.launch.decisions import options_now
from provisioning.compute.launch.destination import check_place, group_of
from provisioning.compute.launch.flavor_and_image import (
    ZERO_DISK,
    check_fit,
    check_flavor,
    check_image,
    may_be_without_disk,
    misfit,
    size_of,
)
from provisioning.compute.launch.request import LaunchRequest
from provisioning.compute.models import Instance
from provisioning.compute.selectors.catalog import Limits, flavors_of_project, limits_for
from provisioning.compute.selectors.host_offers import boot_properties
from provisioning.compute.selectors.host_rows import hosts_for
from provisioning.compute.selectors.request_specs import spec_of
from provisioning.identity import policy
from provisioning.images.models import Image
from provisioning.scheduler import Count, Decision, HostState, RequestSpec, explain, facts_needed, how_many

MOST_SHOWN = 10
"""Maximum number shown to users; more would reveal the capacity of the cloud."""
MOST_COUNTED = 100
"""Maximum number counted for operators."""
MOST_TRIED = 8
"""Maximum number of smaller flavors that are tried."""
SEEING_HOSTS = "novella:would_fit:hosts"


@dataclass(frozen=True, slots=True)
class WouldFit:
    """A hypothetical launch: a flavor, or any amounts (MiB, GiB) for users who may see hosts, and the destination."""

    flavor_ref: str | None = None
    vcpus: int = 0
    memory_mb: int = 0
    disk_gb: int = 0
    image_id: str | None = None
    availability_zone: str = ""
    """``zone``, or ``zone:host`` for operators; empty: any."""
    hints: Mapping[str, object] = field(default_factory=dict)
    group: str | None = None
    """Id of a server group; also possible in ``hints``."""
    requested_host: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True)
class Fit:
    """The number of servers that would fit, placed one after the other."""

    fits: int
    most: int
    """Maximum number that was counted."""
    asked: int
    decision: Decision
    """Decision of the first server that does not fit, or of the first server if all fit."""
    sentence: str
    """Summary for the caller, without host names."""
    hosts: list[tuple[str, int]]
    """Name of a host and number of servers on it, for users who may see hosts; otherwise empty."""
    allowed: int | None = None
    """Number of servers that the project's quota allows; None: unlimited."""


def would_fit(context: RequestContext, request: WouldFit) -> Fit:
    """Return how many servers like this would fit on the hosts now, with the caller's permissions.

    Raises the same errors as a launch: InvalidInputError with the ``field``, ForbiddenError, and OverQuotaError for a
    full server group.
    """
    policy.enforce(context, "novella:would_fit")
    if context.project_id is None:
        raise ForbiddenError("A server needs a project: use a token that is scoped to one.")
    if not 1 <= request.count <= MAX_COUNT:
        raise InvalidInputError(f"Invalid input for count: it must be from 1 to {MAX_COUNT}.", field="count")
    instance = _imagined(context, request)
    seeing = policy.allows(context, SEEING_HOSTS)
    allowed = _allowed(limits_for(context), instance.flavor)
    count = request.count if seeing or allowed is None else min(request.count, allowed)
    most = max(count, MOST_COUNTED if seeing else MOST_SHOWN)
    spec, options = spec_of(instance), options_now()
    hosts = hosts_for(spec, options)
    found = how_many(hosts, spec, options, most)
    sentences = [_sentence(found, request.count)]
    if not found.fits:
        sentences.append(smaller_that_fits(instance, hosts, spec, found.decision))
    if allowed is not None and allowed < request.count:
        sentences.append(f"The quota allows {allowed}.")
    return Fit(
        fits=found.fits,
        most=most,
        asked=request.count,
        decision=found.decision,
        sentence=" ".join(filter(None, sentences)),
        hosts=sorted(found.where.items()) if seeing else [],
        allowed=allowed,
    )


def smaller_that_fits(instance: Instance, hosts: Sequence[HostState], spec: RequestSpec, decision: Decision) -> str:
    """Return a sentence about the largest smaller flavor of the project that fits now, and how many servers of it fit.

    Empty when no smaller flavor fits, or when another reason than the flavor's size left no host.
    """
    if not decision.filters or decision.filters[-1].asked is None:
        return ""
    image = Image.objects.filter(id=instance.image_id).first() if instance.image_id else None
    own, smaller = _AMOUNTS(instance.flavor), list[dict[str, Any]]()
    for flavor in flavors_of_project(instance.project_id):
        copy = flavor_copy(flavor, size_of(image))
        less = _AMOUNTS(copy) != own and all(map(le, _AMOUNTS(copy), own))
        if less and not misfit(flavor, image):
            smaller.append(copy)
    options = options_now()
    known = facts_needed(spec, options)
    for copy in sorted(smaller, key=_AMOUNTS, reverse=True)[:MOST_TRIED]:
        request = spec_of(instance, flavor=copy)
        many = how_many(hosts, request, options, MOST_SHOWN).fits if facts_needed(request, options) <= known else 0
        if many:
            return f"{copy['name']} would fit {_times(many)}."
    return ""


_AMOUNTS = itemgetter("memory_mb", "vcpus", "disk_gb")


# ----- request -------------------------------------------------------------------------------------------------------


def _imagined(context: RequestContext, request: WouldFit) -> Instance:
    """Return an unsaved instance as a launch would create it, with the columns that the scheduler uses."""
    image = check_image(context, request.image_id) if request.image_id else None
    flavor = _size(context, request, image)
    hints = dict(request.hints) | ({"group": request.group} if request.group else {})
    requested = LaunchRequest(
        name="",
        image_id=request.image_id or "",
        flavor_ref=request.flavor_ref or "",
        availability_zone=request.availability_zone or None,
        scheduler_hints=hints,
        host=request.requested_host or None,
    )
    place = check_place(context, requested)
    instance = imagined(context.project_id or NOBODY, flavor, image, place.zone)
    instance.requested_host, instance.scheduler_hints = place.host, place.hints
    instance.server_group = group_of(context, place, request.count)
    return instance


def imagined(project_id: uuid.UUID, flavor: Mapping[str, Any], image: Image | None, zone: str = "") -> Instance:
    """Return an unsaved instance with a flavor and an image, for the scheduler."""
    return Instance(
        project_id=project_id,
        flavor=dict(flavor),
        image_id=image.id if image else None,
        image_properties=boot_properties(image) if image else {},
        availability_zone=zone,
    )


def _size(context: RequestContext, request: WouldFit, image: Image | None) -> dict[str, Any]:
    """Return the copy of the flavor that a launch would store."""
    numbers: dict[str, Any] = {"vcpus": request.vcpus, "memory_mb": request.memory_mb, "disk_gb": request.disk_gb}
    if request.flavor_ref is not None:
        named = [name for name, value in numbers.items() if value]
        if named:
            raise InvalidInputError(f"A flavor has its own {named[0]}: specify one or the other.", field=named[0])
        flavor = check_flavor(context, request.flavor_ref)
        check_demands(image.properties if image is not None else {}, flavor)
        if image is not None and not may_be_without_disk(context, flavor):
            raise ForbiddenError(ZERO_DISK, field="flavorRef")
        if image is not None:
            check_fit(flavor, image)
        return flavor_copy(flavor, size_of(image))
    policy.enforce(context, SEEING_HOSTS)
    for name, value in numbers.items():
        if not 0 <= value <= MAX_INTEGER:
            raise InvalidInputError(f"Invalid input for {name}: it must be from 0 to {MAX_INTEGER}.", field=name)
    size = numbers | {"flavorid": "", "name": "", "extra_specs": {}}
    if image is not None:
        check_demands(image.properties, size)
    return size


def _allowed(limits: Limits, flavor: Mapping[str, Any]) -> int | None:
    """Return how many servers with this flavor the quota allows."""
    left = [
        known // amount
        for resource, amount in quota_held(flavor).items()
        if amount and (known := limits.left(resource)) is not None
    ]
    return min(left, default=None)


# ----- sentences -----------------------------------------------------------------------------------------------------


def _sentence(count: Count, requested: int) -> str:
    if count.fits == count.most:
        return f"At least {count.most} of these would fit now."
    if count.fits >= requested:
        return f"{count.fits} of these would fit now."
    begin = f"{count.fits} of {requested} would fit now." if count.fits else "None of these would fit now."
    return f"{begin} {explain(count.decision)}"


def _times(many: int) -> str:
    if many == MOST_SHOWN:
        return f"at least {MOST_SHOWN} times"
    return "once" if many == 1 else f"{many} times"
