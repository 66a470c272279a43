"""JSON schemas of requests about hypervisors."""

from portal.api.compute.schemas import BOOLEAN, COUNT, HOST, TEXT, Schema, Version

PAGING = (2, 33)
BY_UUID = (2, 53)
"""From this version on hypervisors have UUIDs, and lists accept ``hypervisor_hostname_pattern`` and
``with_servers``.
"""


def listing(version: Version) -> Schema:
    """Return the schema of the query of ``GET /os-hypervisors`` and ``…/detail``."""
    if version < PAGING:
        return _query({}, strict=False)
    pages = {"limit": _many(COUNT), "marker": _many(TEXT)}
    if version < BY_UUID:
        return _query(pages, strict=False)
    more = {"hypervisor_hostname_pattern": HOST, "with_servers": BOOLEAN}
    return _query({name: _one(schema) for name, schema in {"limit": COUNT, "marker": TEXT, **more}.items()})


def showing(version: Version) -> Schema:
    """Return the schema of the query of ``GET /os-hypervisors/{id}``."""
    if version < BY_UUID:
        return _query({}, strict=False)
    return _query({"with_servers": _one(BOOLEAN)})


def _query(properties: Schema, *, strict: bool = True) -> Schema:
    return {"type": "object", "properties": properties, "additionalProperties": not strict}


def _one(schema: Schema) -> Schema:
    return _many(schema) | {"maxItems": 1}


def _many(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}
