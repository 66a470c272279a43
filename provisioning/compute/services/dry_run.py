"""Would it fit, how many of these, and where?  The scheduler itself, one server after another; nothing is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.conf import settings

from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.compute import selectors
from provisioning.compute.selectors.host_rows import hosts_for
from provisioning.compute.services.checks import check_image
from provisioning.compute.sizes import Room, flavor_copy, room_of
from provisioning.identity import policy
from provisioning.scheduler import Decision, HostState, Options, RequestSpec, decide, funnel, options_of

MOST = 10
"""How much more room there is than this, and than was asked for, is nobody's business but the operator's."""


@dataclass(frozen=True, slots=True)
class WouldFit:
    """What is asked: a flavor, or amounts (memory in MiB, disk in GiB), and where."""

    flavor_ref: str | None = None
    vcpus: int = 0
    memory_mb: int = 0
    disk_gb: int = 0
    image_id: str | None = None
    availability_zone: str = ""
    hints: Mapping[str, object] = field(default_factory=dict)
    group: str | None = None
    requested_host: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True)
class Fit:
    """The answer: ``fits`` of ``asked``; counting stopped at ``most``."""

    fits: int
    most: int
    asked: int
    decision: Decision
    sentence: str
    hosts: list[tuple[str, int]] = field(default_factory=list)


def would_fit(context: RequestContext, request: WouldFit) -> Fit:
    """Say how many servers would find a place now.  Raises InvalidInputError, ForbiddenError."""
    policy.enforce(context, "compute:would_fit")
    image = check_image(context, request.image_id) if request.image_id else None
    virtual_size = max(image.virtual_size or 0, image.size or 0) if image else 0
    if request.flavor_ref is not None:
        try:
            flavor = selectors.flavor_for(context, request.flavor_ref)
        except NotFoundError as error:
            raise InvalidInputError(f"Flavor {request.flavor_ref!r} could not be found.", field="flavorRef") from error
        room = room_of(flavor_copy(flavor, virtual_size))
    else:
        room = Room(request.vcpus, request.memory_mb, request.disk_gb)
    if request.requested_host:
        policy.enforce(context, "compute:servers:create:requested_destination")
    spec = RequestSpec(
        room.vcpus,
        room.memory_mb,
        room.disk_gb,
        availability_zone=request.availability_zone,
        requested_host=request.requested_host,
    )
    options = options_of(settings)
    most = max(MOST, request.count)
    fits, decision, hosts = count_places(hosts_for(spec, options), spec, options, most)
    seen = hosts if policy.allows(context, "compute:would_fit:hosts") else []
    return Fit(fits, most, request.count, decision, funnel(decision), seen)


def count_places(
    hosts: Sequence[HostState], spec: RequestSpec, options: Options, most: int
) -> tuple[int, Decision, list[tuple[str, int]]]:
    """Place servers one after the other until none fits, or ``most`` have a place."""
    left, taken = list(hosts), dict[str, int]()
    first = decision = decide(left, spec, options)
    for placed in range(most):
        if placed:
            decision = decide(left, spec, options)
        if not decision.ranked:
            return placed, decision, sorted(taken.items())
        chosen = decision.ranked[0].host
        taken[chosen.name] = taken.get(chosen.name, 0) + 1
        left[left.index(chosen)] = chosen._replace(
            vcpus_allocated=chosen.vcpus_allocated + spec.vcpus,
            memory_mb_allocated=chosen.memory_mb_allocated + spec.memory_mb,
            disk_gb_allocated=chosen.disk_gb_allocated + spec.disk_gb,
            instances=chosen.instances + 1,
        )
    return most, first, sorted(taken.items())
