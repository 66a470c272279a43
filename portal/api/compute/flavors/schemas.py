"""JSON schemas of requests about flavors, their extra specs and their access lists."""

from portal.api.compute.schemas import BOOLEAN, NOT_NEGATIVE, PAGES, POSITIVE, TEXT, Schema, Version, body, query

SORT_KEYS = {
    "created_at": "created_at",
    "description": "description",
    "disabled": "disabled",
    "ephemeral_gb": "ephemeral_gb",
    "flavorid": "flavorid",
    "id": "id",
    "is_public": "is_public",
    "memory_mb": "memory_mb",
    "name": "name",
    "root_gb": "root_gb",
    "rxtx_factor": "rxtx_factor",
    "swap": "swap_mb",
    "updated_at": "id",
    "vcpu_weight": "id",
    "vcpus": "vcpus",
}
"""Sort key of the API → column.

Neither weights nor update times are stored; sorting by them keeps the order of creation.
"""
_DESCRIPTION: Schema = {"type": ["string", "null"], "maxLength": 65_535}
_SPEC: Schema = {
    "type": "object",
    "patternProperties": {r"^[a-zA-Z0-9-_:. ]{1,255}\Z": {"type": ["string", "number"], "maxLength": 255}},
    "additionalProperties": False,
}
_TENANT: Schema = {"tenant": {"type": "string", "minLength": 1, "maxLength": 255}}


def create(version: Version) -> Schema:
    """Return the schema of ``POST /flavors``."""
    properties: Schema = {
        "name": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^\S(.*\S)?\Z"},
        "id": {
            "type": ["string", "number", "null"],
            "minLength": 1,
            "maxLength": 255,
            "pattern": r"^(?! )[a-zA-Z0-9. _-]+(?<! )\Z",
        },
        "ram": POSITIVE,
        "vcpus": POSITIVE,
        "disk": NOT_NEGATIVE,
        "OS-FLV-EXT-DATA:ephemeral": NOT_NEGATIVE,
        "swap": NOT_NEGATIVE,
        "rxtx_factor": {
            "type": ["number", "string"],
            "pattern": r"^[0-9]+(\.[0-9]+)?\Z",
            "maxLength": 64,
            "exclusiveMinimum": 0,
            "maximum": 3.40282e38,
        },
        "os-flavor-access:is_public": BOOLEAN,
    }
    if version >= (2, 55):
        properties["description"] = _DESCRIPTION
    return body("flavor", properties, ("name", "ram", "vcpus", "disk"))


def update(version: Version) -> Schema:
    """Return the schema of ``PUT /flavors/{id}``, which exists from 2.55 on."""
    return body("flavor", {"description": _DESCRIPTION}, ("description",))


def listing(version: Version) -> Schema:
    """Return the schema of the query of ``GET /flavors``."""
    return query(
        version,
        {
            **PAGES,
            "is_public": TEXT,
            "minRam": TEXT,
            "minDisk": TEXT,
            "sort_key": {"enum": list(SORT_KEYS)},
            "sort_dir": {"enum": ["asc", "desc"]},
        },
    )


def action(version: Version) -> Schema:
    """Return the schema of ``POST /flavors/{id}/action``."""
    one: Schema = {"type": "object", "properties": _TENANT, "required": ["tenant"], "additionalProperties": False}
    return {
        "type": "object",
        "properties": {"addTenantAccess": one, "removeTenantAccess": one},
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
    }


def specs(version: Version) -> Schema:
    """Return the schema of ``POST /flavors/{id}/os-extra_specs``."""
    return {
        "type": "object",
        "properties": {"extra_specs": _SPEC},
        "required": ["extra_specs"],
        "additionalProperties": False,
    }


def spec(version: Version) -> Schema:
    """Return the schema of ``PUT /flavors/{id}/os-extra_specs/{key}``."""
    return _SPEC | {"minProperties": 1, "maxProperties": 1}
