"""From the wizard's fields to one LaunchRequest, and from the services' errors back to the fields."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from django.http import QueryDict

from provisioning.common.errors import InvalidInputError, NovellaError, OverQuotaError
from provisioning.compute.launch.request import LaunchRequest, NetworkRequest

FIELDS: Mapping[str, str] = {
    "name": "name",
    "imageRef": "image",
    "flavorRef": "flavor",
    "key_name": "key_name",
    "networks": "networks",
    "security_groups": "security_groups",
    "availability_zone": "availability_zone",
    "group": "server_group",
    "user_data": "user_data",
    "metadata": "metadata",
    "description": "description",
    "hostname": "name",
    "min_count": "count",
    "max_count": "count",
}
"""Where the wizard shows an error about a field of the Compute API."""
MOST_DIGITS = 18
FAR_TOO_MANY = 9999
"""Any greater number of servers is refused, and drawn, as this one."""
ADVANCED = {
    "count", "networks", "security_groups", "availability_zone", "server_group", "user_data", "metadata", "description",
}  # fmt: skip
NO_NETWORK = "none"


@dataclass
class Choices:
    """What stands in the wizard: text as it was typed."""

    name: str = ""
    image: str = ""
    flavor: str = ""
    key_name: str = ""
    count: str = "1"
    networks: list[str] = field(default_factory=list)
    security_groups: list[str] = field(default_factory=list)
    availability_zone: str = ""
    server_group: str = ""
    user_data: str = ""
    metadata: str = ""
    description: str = ""
    config_drive: bool = False
    idempotency_key: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def number(self) -> int:
        """How many servers; 1 while the field says nothing that can be counted."""
        return min(int(self.count[:MOST_DIGITS]), FAR_TOO_MANY) if self.count.isdecimal() else 1


def read(data: QueryDict) -> Choices:
    """Read the wizard's fields."""
    return Choices(
        name=data.get("name", ""),
        image=data.get("image", ""),
        flavor=data.get("flavor", ""),
        key_name=data.get("key_name", ""),
        count=data.get("count", "1").strip(),
        networks=data.getlist("networks"),
        security_groups=data.getlist("security_groups"),
        availability_zone=data.get("availability_zone", ""),
        server_group=data.get("server_group", ""),
        user_data=data.get("user_data", "").replace("\r\n", "\n"),
        metadata=data.get("metadata", ""),
        description=data.get("description", "").strip(),
        config_drive="config_drive" in data,
        idempotency_key=data.get("idempotency_key", "")[:64] or uuid.uuid4().hex,
    )


def request_of(choices: Choices) -> LaunchRequest:
    """Return what the service is asked.  Raises InvalidInputError for what cannot even be asked."""
    if not choices.image:
        raise InvalidInputError("Choose an image.", field="imageRef")
    if not choices.flavor:
        raise InvalidInputError("Choose a size.", field="flavorRef")
    if not (choices.count.isdecimal() and choices.number >= 1):
        raise InvalidInputError("The number of instances must be a whole number, 1 or more.", field="max_count")
    cards = tuple(NetworkRequest(network_id=value) for value in choices.networks if value != NO_NETWORK)
    return LaunchRequest(
        name=choices.name,
        image_id=choices.image,
        flavor_ref=choices.flavor,
        key_name=choices.key_name or None,
        networks=cards or "none",
        security_groups=tuple(choices.security_groups) or None,
        user_data=base64.b64encode(choices.user_data.encode()).decode() if choices.user_data.strip() else None,
        metadata=_metadata(choices.metadata),
        config_drive=choices.config_drive,
        min_count=choices.number,
        max_count=choices.number,
        availability_zone=choices.availability_zone or None,
        scheduler_hints={"group": choices.server_group} if choices.server_group else {},
        description=choices.description or None,
        idempotency_key=choices.idempotency_key,
    )


def place_of(error: NovellaError) -> str:
    """Return the wizard's field that an error belongs to; ``quota`` and ``form`` are places of their own."""
    if isinstance(error, OverQuotaError) and error.resource in {"instances", "cores", "ram"}:
        return "quota"
    if isinstance(error, OverQuotaError) and error.resource == "metadata_items":
        return "metadata"
    return FIELDS.get(error.field or "", "form")


def _metadata(text: str) -> dict[str, str]:
    """Read one ``key=value`` a line."""
    metadata: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        key, equals, value = line.partition("=")
        if not equals:
            raise InvalidInputError(f"Line {number} has no '='. Write one key=value on each line.", field="metadata")
        metadata[key.strip()] = value.strip()
    return metadata
