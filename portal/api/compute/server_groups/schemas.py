"""JSON schemas of requests about server groups."""

from portal.api.compute.aggregates.schemas import NAME
from portal.api.compute.schemas import COUNT, POSITIVE, TEXT, Schema, Version, body, query

SOFT = (2, 15)
"""From this version on soft policies exist."""
ONE_POLICY = (2, 64)
"""From this version on a group has one policy with rules instead of a list of policies."""
_HARD = ("affinity", "anti-affinity")


def create(version: Version) -> Schema:
    """Return the schema of ``POST /os-server-groups``."""
    policy: Schema = {"enum": [*_HARD, *(f"soft-{name}" for name in _HARD if version >= SOFT)]}
    if version >= ONE_POLICY:
        rules: Schema = {
            "type": "object",
            "properties": {"max_server_per_host": POSITIVE},
            "additionalProperties": False,
        }
        return body("server_group", {"name": NAME, "policy": policy, "rules": rules}, ("name", "policy"))
    policies: Schema = {"type": "array", "items": policy, "minItems": 1, "maxItems": 1}
    return body("server_group", {"name": NAME, "policies": policies}, ("name", "policies"))


def listing(version: Version) -> Schema:
    """Return the schema of the query of ``GET /os-server-groups``."""
    return query(version, {"all_projects": TEXT, "limit": COUNT, "offset": COUNT})
