"""Nova's services: the agents of the hosts, and the workers."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.common.values.numbers import MAX_INTEGER
from provisioning.compute.models import Aggregate
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import INTERNAL_ZONE, hosts_for, is_alive
from provisioning.identity import policy
from provisioning.jobs import selectors as rpc

COMPUTE, SCHEDULER, CONDUCTOR = "nova-compute", "nova-scheduler", "nova-conductor"
SCHEDULING = "scheduler"
"""Topic of the queue whose workers schedule servers."""

SEEING_AGGREGATES = ("os_compute_api:os-aggregates:index", "os_compute_api:os-aggregates:show")
"""Policy rules for reading aggregates; the API checks the rule of its operation."""


@dataclass(frozen=True, slots=True)
class ComputeService:
    """A service on a machine. The id of a host's agent is the host's id."""

    id: uuid.UUID
    binary: str
    host: str
    zone: str
    up: bool
    updated_at: datetime | None
    enabled: bool = True
    disabled_reason: str = ""
    forced_down: bool = False

    @property
    def number(self) -> int:
        """The id before microversion 2.53."""
        return number_of(self.id)


def number_of(ident: uuid.UUID) -> int:
    """Return the integer that replaces an id before microversion 2.53; it is the same every time."""
    return ident.int % 2**31


def service_of(host: Host, now: datetime) -> ComputeService:
    return ComputeService(
        id=host.id,
        binary=COMPUTE,
        host=host.name,
        zone=host.availability_zone,
        up=is_alive(host, now),
        updated_at=host.last_seen_at,
        enabled=host.enabled,
        disabled_reason=host.disabled_reason,
        forced_down=host.forced_down,
    )


def compute_services_for(
    context: RequestContext, *, host: str | None = None, binary: str | None = None
) -> list[ComputeService]:
    """Return the services sorted by binary and host, workers first. Raises ForbiddenError."""
    now = timezone.now()
    result = [*sorted(_workers(), key=_order), *(service_of(each, now) for each in hosts_for(context))]
    return [service for service in result if host in {None, service.host} and binary in {None, service.binary}]


def compute_service_for(context: RequestContext, ident: uuid.UUID | int) -> ComputeService:
    """Return the service with an id, or with a number as before microversion 2.53.

    Raises ForbiddenError, NotFoundError, and InvalidInputError for an ambiguous number.
    """
    services = [service for service in compute_services_for(context) if ident in (service.id, service.number)]
    if not services:
        raise NotFoundError(f"Service {ident} not found.")
    if len(services) > 1:
        raise InvalidInputError(f"Service id {ident} refers to multiple services.", field="service_id")
    return services[0]


def _workers() -> Iterator[ComputeService]:
    """Yield the live workers: for each machine one conductor, and one scheduler if a worker schedules servers."""
    beats: dict[tuple[str, str], datetime] = {}
    for machine, topics, beat_at in rpc.live_groups():
        for binary in (CONDUCTOR, *([SCHEDULER] if SCHEDULING in topics else [])):
            beats[binary, machine] = beat_at
    for (binary, machine), beat_at in beats.items():
        ident = uuid.uuid5(uuid.NAMESPACE_DNS, f"{binary}.{machine}")
        yield ComputeService(ident, binary, machine, INTERNAL_ZONE, up=True, updated_at=beat_at)


def _order(service: ComputeService) -> tuple[str, str]:
    return service.binary, service.host


def aggregates_for(context: RequestContext) -> list[Aggregate]:
    """Return all aggregates with their hosts, oldest first, in two queries.  Raises ForbiddenError."""
    policy.enforce(context, SEEING_AGGREGATES[0])
    return list(Aggregate.objects.prefetch_related("hosts").order_by("id"))


def aggregate_for(context: RequestContext, aggregate_id: int) -> Aggregate:
    """Return one aggregate.  Raises ForbiddenError, NotFoundError."""
    policy.enforce(context, SEEING_AGGREGATES[1])
    aggregate = Aggregate.objects.filter(pk=aggregate_id).first() if 0 < aggregate_id <= MAX_INTEGER else None
    if aggregate is None:
        raise NotFoundError(f"Aggregate {aggregate_id} could not be found.")
    return aggregate
