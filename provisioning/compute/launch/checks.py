"""Validation of a launch before anything is written; errors contain the field name of the Compute API."""

from dataclasses import dataclass

from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError, InvalidInputError
from provisioning.compute.flavors.guest_hardware import check_demands
from provisioning.compute.flavors.sizes import quota_amounts
from provisioning.compute.launch.block_devices import CheckedDisks, check_disks
from provisioning.compute.launch.destination import Place, check_place, group_of, in_zones
from provisioning.compute.launch.flavor_and_image import check_flavor
from provisioning.compute.launch.guest_data import check_files, check_key_pair, check_user_data
from provisioning.compute.launch.quote import LaunchQuote, quote
from provisioning.compute.launch.request import LaunchRequest
from provisioning.compute.models import KeyPair, ServerGroup
from provisioning.compute.records.names import check_hostname, check_name, check_text
from provisioning.compute.services.metadata import check_metadata
from provisioning.compute.services.tags import check_tags
from provisioning.identity import policy
from provisioning.network import selectors as network
from provisioning.network.models import Network
from provisioning.network.selectors.ways_out import external_network_for
from provisioning.network.services import automatic_network, quota_of
from provisioning.quotas import selectors as quotas

MAX_COUNT = 100
"""Maximum number of servers in one request."""


@dataclass(frozen=True, slots=True)
class CheckedLaunch:
    """A validated launch: everything in it exists, and the caller may use it."""

    quote: LaunchQuote
    bounds: quotas.Bounds
    """The limits for the quota reservation of each server."""
    name: str
    hostname: str | None
    description: str | None
    key: KeyPair | None
    metadata: dict[str, str]
    tags: list[str]
    networks: list[dict[str, str | None]]
    security_groups: list[str]
    """Ids; empty: the project's default group, which is created if necessary."""
    floating_ip_network: Network | None
    """Network of the floating IP that each server gets automatically; None: no floating IP."""
    place: Place
    server_group: ServerGroup | None
    injected_files: list[dict[str, str]]
    disks: CheckedDisks


def check(context: RequestContext, request: LaunchRequest) -> CheckedLaunch:
    """Run all checks of a launch; writes nothing.

    Raises InvalidInputError, OverQuotaError, ForbiddenError or ConflictError.
    """
    if context.project_id is None or context.user_id is None:
        raise ForbiddenError("A server needs a project: use a token that is scoped to one.")
    counts = _counts(request)
    name = check_name(request.name)
    hostname = check_hostname(request.hostname) if request.hostname is not None else None
    description = check_text(request.description, "description") if request.description is not None else None
    flavor = check_flavor(context, request.flavor_ref)
    disks = check_disks(context, request, flavor)
    check_demands(disks.properties, flavor)
    bounds = quotas.bounds_of(context.project_id, context.user_id)
    each = bounds.least
    metadata, tags = check_metadata(request.metadata, each), check_tags(request.tags)
    key = check_key_pair(context, request.key_name)
    check_user_data(request.user_data)
    files = check_files(request.injected_files, each)
    if request.trusted_certificates is not None:
        policy.enforce(context, "os_compute_api:servers:create:trusted_certs")
    place = in_zones(check_place(context, request), disks.zones)
    networks = check_networks(context, request, max(counts))
    security_groups = network.security_group_ids_for(context, request.security_groups, networks)
    amounts = quota_amounts(flavor) | quota_of(networks)
    outside = _outside(context, request, networks)
    if outside is not None:
        amounts["floatingips"] = 1
    room = quotas.room_of(context.project_id, context.user_id, bounds)
    quoted = quote(flavor, disks.image, amounts, counts, room)
    return CheckedLaunch(
        quote=quoted,
        bounds=bounds,
        name=name,
        hostname=hostname,
        description=description,
        key=key,
        metadata=metadata,
        tags=tags,
        networks=networks,
        floating_ip_network=outside,
        security_groups=security_groups,
        place=place,
        server_group=group_of(context, place, quoted.count),
        injected_files=files,
        disks=disks,
    )


def _outside(context: RequestContext, request: LaunchRequest, networks: list[dict[str, str | None]]) -> Network | None:
    """Return the external network of the floating IP that each server gets; None: no floating IP."""
    automatic = automatic_network(networks)
    if automatic is not None or not request.reachable:
        return automatic
    policy.enforce(context, "create_floatingip")
    outside = external_network_for(context, networks)
    if outside is None:
        msg = "No router connects these networks to an external network, so the server cannot have a floating IP."
        raise InvalidInputError(msg, field="reachable", others=("networks",))
    return outside


def _counts(request: LaunchRequest) -> tuple[int, int]:
    """Return the minimum and maximum number of servers."""
    low, high = request.min_count, max(request.max_count, request.min_count)
    if low < 1:
        raise InvalidInputError("Invalid input for min_count: it must be at least 1.", field="min_count")
    if high > MAX_COUNT:
        field = "min_count" if low > MAX_COUNT else "max_count"
        raise InvalidInputError(f"Invalid input for {field}: at most {MAX_COUNT} servers in one request.", field=field)
    return low, high


def check_networks(context: RequestContext, request: LaunchRequest, count: int) -> list[dict[str, str | None]]:
    """Return each interface's ``network_id`` or ``port_id``, ``fixed_ip``, and optional ``tag``.

    ``count`` is the maximum number of servers; a request with a port or an address is limited to one. Raises
    InvalidInputError.
    """
    if request.networks is None or isinstance(request.networks, str):
        return network.requested_networks_for(context, request.networks, count=count)
    requested: network.Asked = [
        {
            "network_id": interface.network_id,
            "port_id": interface.port_id,
            "fixed_ip": interface.fixed_ip,
            "subnet_id": interface.subnet_id,
        }
        for interface in request.networks
    ]
    networks = network.requested_networks_for(context, requested, count=count)
    return [
        entry | ({"tag": interface.tag} if interface.tag else {})
        for entry, interface in zip(networks, request.networks, strict=True)
    ]
