"""What a launch must satisfy before anything is written; every error names the field of the Compute API it is about."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError, InvalidInputError, NotFoundError, OverQuotaError
from provisioning.compute import selectors
from provisioning.compute.launch.destination import Place, check_place, group_of
from provisioning.compute.launch.injected_files import check_files
from provisioning.compute.launch.local_disks import check_local_disks
from provisioning.compute.launch.request import LaunchRequest
from provisioning.compute.models import Flavor, KeyPair, ServerGroup
from provisioning.compute.names import check_hostname, check_name, check_text
from provisioning.compute.services.metadata import check_metadata
from provisioning.compute.services.tags import check_tags
from provisioning.compute.sizes import GIB, quota_amounts, root_gb
from provisioning.identity import policy
from provisioning.images import selectors as images
from provisioning.images.models import Image
from provisioning.images.selectors.companions import companions
from provisioning.network import selectors as network
from provisioning.network.services import new_ports
from provisioning.quotas import selectors as quotas

MAX_USER_DATA = 65_535
"""Bytes of base64, as Nova's schema."""
MAX_COUNT = 100
"""Servers of one request."""


@dataclass(frozen=True, slots=True)
class LaunchQuote:
    """What a launch would take: ``amounts`` per server, limits (-1: unlimited) and what the project holds."""

    flavor: Flavor
    image: Image
    count: int
    """How many servers would be made: as many of ``max_count`` as the quota allows."""
    amounts: dict[str, int]
    limits: dict[str, int]
    usage: dict[str, int]


@dataclass(frozen=True, slots=True)
class CheckedLaunch:
    """A launch whose every part exists and is the caller's to use."""

    quote: LaunchQuote
    name: str
    hostname: str | None
    description: str | None
    key: KeyPair | None
    metadata: dict[str, str]
    tags: list[str]
    networks: list[dict[str, str | None]]
    security_groups: list[str]
    """Ids; empty: the project's default group, which may have to be made."""
    place: Place
    server_group: ServerGroup | None
    injected_files: list[dict[str, str]]


def check(context: RequestContext, request: LaunchRequest) -> CheckedLaunch:
    """Run every check that needs no write.

    Raises InvalidInputError, OverQuotaError, ForbiddenError or ConflictError.
    """
    if context.project_id is None or context.user_id is None:
        raise ForbiddenError("A server needs a project: use a token that is scoped to one.")
    name = check_name(request.name)
    flavor, image = check_flavor(context, request.flavor_ref), check_image(context, request.image_id)
    check_fit(flavor, image)
    limits = quotas.limits_of(context.project_id)
    metadata, tags = check_metadata(request.metadata, limits), check_tags(request.tags)
    files = check_files(request.injected_files, limits)
    check_local_disks(request.local_disks, flavor)
    check_user_data(request.user_data)
    if request.trusted_certificates is not None:
        policy.enforce(context, "os_compute_api:servers:create:trusted_certs")
    place = check_place(context, request)
    low, high = _counts(request)
    networks = _networks(context, request, high)
    amounts = quota_amounts(flavor) | {"ports": new_ports(networks)}
    quote = _quote(flavor, image, amounts, (low, high), limits, quotas.usage_of(context.project_id))
    return CheckedLaunch(
        quote=quote,
        name=name,
        hostname=check_hostname(request.hostname) if request.hostname is not None else None,
        description=check_text(request.description, "description") if request.description is not None else None,
        key=_key(context, request.key_name),
        metadata=metadata,
        tags=tags,
        networks=networks,
        security_groups=network.security_group_ids_for(context, request.security_groups),
        place=place,
        server_group=group_of(context, place, quote.count),
        injected_files=files,
    )


def check_flavor(context: RequestContext, ref: str) -> Flavor:
    """Return a flavor that the caller may use; InvalidInputError."""
    try:
        return selectors.flavor_for(context, ref)
    except NotFoundError as error:
        raise InvalidInputError(f"Flavor {ref!r} could not be found.", field="flavorRef") from error


def check_image(context: RequestContext, image_id: str) -> Image:
    """Return an image that the project may boot from, with the kernel and the ramdisk it names; InvalidInputError."""
    try:
        image = images.usable_image_for(context, image_id)
        companions(image, context.project_id or image.project_id)
    except NotFoundError as error:
        raise InvalidInputError(f"Image {image_id!r} could not be found.", field="imageRef") from error
    except InvalidInputError as error:
        raise InvalidInputError(error.message, field="imageRef") from error
    return image


def _networks(context: RequestContext, request: LaunchRequest, count: int) -> list[dict[str, str | None]]:
    """Return what is asked of each card: ``network_id`` or ``port_id``, ``fixed_ip``, and ``tag`` where it has one."""
    if request.networks is None or isinstance(request.networks, str):
        return network.requested_networks_for(context, request.networks, count=count)
    asked: network.Asked = [
        {"network_id": card.network_id, "port_id": card.port_id, "fixed_ip": card.fixed_ip} for card in request.networks
    ]
    found = network.requested_networks_for(context, asked, count=count)
    return [
        entry | ({"tag": card.tag} if card.tag else {}) for entry, card in zip(found, request.networks, strict=True)
    ]


def check_fit(flavor: Flavor, image: Image) -> None:
    """Raise InvalidInputError for ``flavorRef`` when the image needs more memory or disk than the flavor has."""
    if image.min_ram > flavor.memory_mb:
        raise InvalidInputError(
            f"The image needs {image.min_ram} MiB of memory (min_ram); flavor"
            f" {flavor.name} has {flavor.memory_mb} MiB.",
            field="flavorRef",
        )
    if flavor.root_gb == 0:
        return
    if image.min_disk > flavor.root_gb:
        raise InvalidInputError(
            f"The image needs a disk of {image.min_disk} GiB (min_disk); flavor"
            f" {flavor.name} has {flavor.root_gb} GiB.",
            field="flavorRef",
        )
    bytes_needed = max(image.virtual_size or 0, image.size or 0)
    if bytes_needed > flavor.root_gb * GIB:
        raise InvalidInputError(
            f"The image is {math.ceil(bytes_needed / GIB)} GiB large; the disk of"
            f" flavor {flavor.name} has {flavor.root_gb} GiB.",
            field="flavorRef",
        )


def check_disk(flavor: Mapping[str, Any], image: Image) -> None:
    """Raise InvalidInputError for ``imageRef`` when a disk made from the image would take more of the host than what an
    instance with this copy of a flavor holds there for its root disk.
    """
    room, needed = root_gb(flavor), math.ceil(max(image.virtual_size or 0, image.size or 0) / GIB)
    if needed > room:
        raise InvalidInputError(
            f"The image is {needed} GiB large; the server has a disk of {room} GiB.", field="imageRef"
        )


def _key(context: RequestContext, name: str | None) -> KeyPair | None:
    if name is None:
        return None
    try:
        return selectors.key_pair_for(context, name)
    except NotFoundError as error:
        raise InvalidInputError(f"Key pair {name!r} could not be found.", field="key_name") from error


def check_user_data(user_data: str | None) -> None:
    """Raise InvalidInputError for what is too large or no base64."""
    if user_data is None:
        return
    if len(user_data) > MAX_USER_DATA:
        raise InvalidInputError(
            f"Invalid input for user_data: it has {len(user_data)} bytes of base64;"
            f" at most {MAX_USER_DATA} are allowed.",
            field="user_data",
        )
    try:
        base64.b64decode("".join(user_data.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidInputError("Invalid input for user_data: it is not base64.", field="user_data") from error


def _counts(request: LaunchRequest) -> tuple[int, int]:
    low, high = request.min_count, max(request.max_count, request.min_count)
    if low < 1:
        raise InvalidInputError("Invalid input for min_count: it must be at least 1.", field="min_count")
    if high > MAX_COUNT:
        field = "min_count" if low > MAX_COUNT else "max_count"
        raise InvalidInputError(f"Invalid input for {field}: at most {MAX_COUNT} servers in one request.", field=field)
    return low, high


def _quote(
    flavor: Flavor,
    image: Image,
    amounts: dict[str, int],
    counts: tuple[int, int],
    limits: dict[str, int],
    usage: dict[str, int],
) -> LaunchQuote:
    """Find how many servers the quota allows, from the lower of ``counts``: else raises OverQuotaError."""
    low, high = counts
    count = high
    for resource, amount in amounts.items():
        limit, used = limits.get(resource, -1), usage.get(resource, 0)
        if limit < 0 or amount == 0:
            continue
        if used + low * amount > limit:
            raise OverQuotaError(resource, limit=limit, used=used, asked=low * amount)
        count = min(count, (limit - used) // amount)
    return LaunchQuote(flavor=flavor, image=image, count=count, amounts=amounts, limits=limits, usage=usage)
