"""Requested destination of a launch: availability zone, host (operators only) and scheduler hints."""

from collections.abc import Set
from dataclasses import dataclass, field, replace

from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.compute.launch.request import LaunchRequest
from provisioning.compute.models import ServerGroup
from provisioning.compute.records.names import check_text
from provisioning.compute.services.server_groups import check_hints, group_for_launch
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import availability_zones
from provisioning.identity import policy

IGNORED = "ignore_hosts"
"""Hint with hosts to exclude, for operators."""
MOST_IGNORED = 1000


@dataclass(frozen=True, slots=True)
class Place:
    """A destination of a launch: it exists, and the caller may request it."""

    zone: str = ""
    """Availability zone; empty: any."""
    host: str = ""
    """Name of a host; empty: any."""
    hints: dict[str, object] = field(default_factory=dict)


def check_place(context: RequestContext, request: LaunchRequest) -> Place:
    """Validate the destination of a launch.

    Raises InvalidInputError for an unknown zone, host or hint, and ForbiddenError when users other than operators
    request or exclude a host.
    """
    zone, host, node = _parts(request.availability_zone)
    if host or node:
        policy.enforce(context, "os_compute_api:servers:create:forced_host")
    if request.host or request.hypervisor_hostname:
        policy.enforce(context, "compute:servers:create:requested_destination")
        if host or node:
            raise InvalidInputError(
                "The host is requested twice: by availability_zone, and by host or hypervisor_hostname.", field="host"
            )
        host, node = request.host or "", request.hypervisor_hostname or ""
    if zone and zone not in availability_zones():
        raise InvalidInputError("The requested availability zone is not available", field="availability_zone")
    avoided = {}
    if IGNORED in request.scheduler_hints:
        policy.enforce(context, "compute:servers:create:requested_destination")
        avoided[IGNORED] = _ignored(request.scheduler_hints[IGNORED])
    return Place(zone, _host(host, node), check_hints(request.scheduler_hints) | avoided)


def in_zones(place: Place, zones: Set[str]) -> Place:
    """Return the destination with the zone of the volumes, for clouds where servers and volumes must be in the same
    zone.

    Raises InvalidInputError when the zones differ.
    """
    if not zones:
        return place
    if len(zones) > 1:
        raise InvalidInputError(
            f"Volumes are in different availability zones: {', '.join(sorted(zones))}.", field="block_device_mapping"
        )
    [zone] = zones
    if place.zone and place.zone != zone:
        raise InvalidInputError(
            f"Server and volumes are not in the same availability zone. Server is in: {place.zone}. Volumes are in:"
            f" {zone}",
            field="availability_zone",
            others=("block_device_mapping",),
        )
    return replace(place, zone=zone)


def group_of(context: RequestContext, place: Place, count: int) -> ServerGroup | None:
    """Return the server group that ``count`` servers will join. Raises InvalidInputError, OverQuotaError."""
    return group_for_launch(context, place.hints["group"], count) if "group" in place.hints else None


def _parts(text: str | None) -> tuple[str, str, str]:
    """Parse ``zone``, ``zone:host``, ``zone:host:node`` or ``zone::node``."""
    zone, *rest = (text or "").split(":")
    if len(rest) > 2:
        raise InvalidInputError("Unable to parse availability_zone", field="availability_zone")
    host, node = [*rest, "", ""][:2]
    return zone, host, node


def _ignored(hint: object) -> list[str]:
    """Return the names of excluded hosts."""
    named = list(hint) if isinstance(hint, list | tuple) else [hint]
    texts = [name for name in named if isinstance(name, str)]
    if len(named) > MOST_IGNORED or len(texts) < len(named):
        raise InvalidInputError(
            f"Invalid input for {IGNORED}: it must be names of hosts, at most {MOST_IGNORED}.", field=IGNORED
        )
    return [check_text(name, IGNORED, shortest=1) for name in texts]


def _host(name: str, node: str) -> str:
    if not name and not node:
        return ""
    filters = {key: value for key, value in (("name", name), ("hypervisor_hostname", node)) if value}
    host = Host.objects.filter(**filters).order_by("name").values_list("name", flat=True).first()
    if host is None:
        raise InvalidInputError(f"Compute host {':'.join(filters.values())} could not be found.", field="host")
    return host
