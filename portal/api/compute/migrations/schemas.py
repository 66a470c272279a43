"""JSON schemas of requests about migrations."""

from __future__ import annotations

from portal.api.compute.schemas import COUNT, STRICT_QUERIES, TEXT, Schema, Version, query

KINDS, PAGED, BEFORE, OWNERS = (2, 23), (2, 59), (2, 66), (2, 80)
FORCE_COMPLETE, ABORT, ABORT_EARLY = (2, 22), (2, 24), (2, 65)
FORCE: Schema = {
    "type": "object",
    "properties": {"force_complete": {"type": "null"}},
    "required": ["force_complete"],
    "additionalProperties": False,
}


def listing(version: Version) -> Schema:
    """Return the schema of the query of ``GET /os-migrations``: strict and paged from 2.59 on."""
    names = ("hidden", "host", "instance_uuid", "migration_type", "source_compute", "status")
    parameters: dict[str, Schema] = dict.fromkeys(names, TEXT)
    if version < PAGED:
        return query((2, 1), parameters)
    parameters |= {"limit": COUNT, "marker": TEXT, "changes-since": TEXT}
    if version >= BEFORE:
        parameters["changes-before"] = TEXT
    if version >= OWNERS:
        parameters |= {"user_id": TEXT, "project_id": TEXT}
    return query(STRICT_QUERIES, parameters)
