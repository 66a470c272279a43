"""JSON schemas of requests about whether servers would fit."""

from portal.api.compute.schemas import NOT_NEGATIVE, POSITIVE, Schema, Version, body
from portal.api.compute.servers.fields import NAMED, UUID
from portal.api.compute.servers.schemas import HINTS


def would_fit(version: Version) -> Schema:
    """Return the schema of ``POST /novella-would-fit``, equal at every microversion; memory in MiB, disk in GiB."""
    return body(
        "would_fit",
        {
            "flavorRef": {"type": ["string", "integer"], "minLength": 1, "maxLength": 1024},
            "vcpus": POSITIVE,
            "ram": POSITIVE,
            "disk": NOT_NEGATIVE,
            "imageRef": {"type": "string", "maxLength": 1024},
            "availability_zone": NAMED,
            "count": POSITIVE,
            "group": UUID,
            "os:scheduler_hints": HINTS,
            "host": NAMED,
        },
    )
