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
from provisioning.compute.models import Flavor, KeyPair
from provisioning.compute.names import check_hostname, check_name, check_text
from provisioning.compute.requests import LaunchRequest
from provisioning.compute.sizes import GIB, quota_amounts
from provisioning.images import selectors as images
from provisioning.images.models import Image
from provisioning.network import selectors as network
from provisioning.network.services import new_ports
from provisioning.quotas import selectors as quotas
from provisioning.quotas.services import check_each

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
    availability_zone: str


def check(context: RequestContext, request: LaunchRequest) -> CheckedLaunch:
    """Run every check that needs no write.

    Raises InvalidInputError, OverQuotaError, ForbiddenError or ConflictError.
    """
    if context.project_id is None or context.user_id is None:
        raise ForbiddenError("A server needs a project: use a token that is scoped to one.")
    name = check_name(request.name)
    flavor, image = _flavor(context, request.flavor_ref), _image(context, request.image_id)
    check_fit(flavor, image)
    limits = quotas.limits_of(context.project_id)
    metadata, tags = _metadata(request.metadata, limits), _tags(request.tags)
    _check_user_data(request.user_data)
    zone = _zone(request.availability_zone)
    low, high = _counts(request)
    networks = network.requested_networks_for(context, _asked(request), count=high)
    return CheckedLaunch(
        quote=_quote(
            flavor,
            image,
            quota_amounts(flavor) | {"ports": new_ports(networks)},
            (low, high),
            limits,
            quotas.usage_of(context.project_id),
        ),
        name=name,
        hostname=check_hostname(request.hostname) if request.hostname is not None else None,
        description=check_text(request.description, "description") if request.description is not None else None,
        key=_key(context, request.key_name),
        metadata=metadata,
        tags=tags,
        networks=networks,
        security_groups=network.security_group_ids_for(context, request.security_groups),
        availability_zone=zone,
    )


def _flavor(context: RequestContext, ref: str) -> Flavor:
    try:
        return selectors.flavor_for(context, ref)
    except NotFoundError as error:
        raise InvalidInputError(f"Flavor {ref!r} could not be found.", field="flavorRef") from error


def _image(context: RequestContext, image_id: str) -> Image:
    try:
        return images.usable_image_for(context, image_id)
    except NotFoundError as error:
        raise InvalidInputError(f"Image {image_id!r} could not be found.", field="imageRef") from error
    except InvalidInputError as error:
        raise InvalidInputError(error.message, field="imageRef") from error


def _asked(request: LaunchRequest) -> network.Asked:
    if request.networks is None or isinstance(request.networks, str):
        return request.networks
    return [
        {"network_id": card.network_id, "port_id": card.port_id, "fixed_ip": card.fixed_ip} for card in request.networks
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


def _key(context: RequestContext, name: str | None) -> KeyPair | None:
    if name is None:
        return None
    try:
        return selectors.key_pair_for(context, name)
    except NotFoundError as error:
        raise InvalidInputError(f"Key pair {name!r} could not be found.", field="key_name") from error


def check_metadata(metadata: Mapping[str, Any], limits: Mapping[str, int]) -> dict[str, str]:
    """Return metadata fit to be kept: keys of 1 to 255 characters, text values of at most 255, no more than the limit
    of items.
    """
    check_each(limits, "metadata_items", len(metadata))
    for key, value in metadata.items():
        if not 1 <= len(key) <= 255:
            raise InvalidInputError(
                "Invalid input for metadata: a key must have 1 to 255 characters.", field="metadata"
            )
        if not isinstance(value, str) or len(value) > 255:
            raise InvalidInputError(
                f"Invalid input for metadata: the value of {key!r} must be text of at most 255 characters.",
                field="metadata",
            )
        if "\x00" in key or "\x00" in value:
            raise InvalidInputError("Invalid input for metadata: the character NUL is not allowed.", field="metadata")
    return dict(metadata)


_metadata = check_metadata


def _tags(tags: tuple[str, ...]) -> list[str]:
    if len(set(tags)) > 50:
        raise InvalidInputError("Invalid input for tags: a server has at most 50 tags.", field="tags")
    for tag in tags:
        if not 1 <= len(tag) <= 60 or "/" in tag or "," in tag or not tag.isprintable():
            raise InvalidInputError(
                f"Invalid input for tags: {tag[:60]!r} must have 1 to 60 printable characters without '/' and ','.",
                field="tags",
            )
    return list(dict.fromkeys(tags))


def _check_user_data(user_data: str | None) -> None:
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


def _zone(zone: str | None) -> str:
    if not zone:
        return ""
    if zone not in selectors.availability_zones():
        raise InvalidInputError(
            f"The requested availability zone {zone!r} is not available.", field="availability_zone"
        )
    return zone


def _counts(request: LaunchRequest) -> tuple[int, int]:
    low, high = request.min_count, max(request.max_count, request.min_count)
    if low < 1:
        raise InvalidInputError("Invalid input for min_count: it must be at least 1.", field="min_count")
    if high > MAX_COUNT:
        raise InvalidInputError(
            f"Invalid input for max_count: at most {MAX_COUNT} servers in one request.", field="max_count"
        )
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
