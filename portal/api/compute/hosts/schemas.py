"""JSON schemas of requests about hosts."""

from portal.api.compute.schemas import TEXT, Schema, Version

WORDS = {word: word.lower() == "enable" for word in ("enable", "disable", "Enable", "Disable", "ENABLE", "DISABLE")}
"""Valid values of ``status`` and ``maintenance_mode`` → whether they enable."""
UPDATE: Schema = {
    "type": "object",
    "properties": {"status": {"enum": [*WORDS]}, "maintenance_mode": {"enum": [*WORDS]}},
    "anyOf": [{"required": ["status"]}, {"required": ["maintenance_mode"]}],
    "additionalProperties": False,
}


def listing(version: Version) -> Schema:
    """Return the schema of the query of ``GET /os-hosts``."""
    return {
        "type": "object",
        "properties": {"zone": {"type": "array", "items": TEXT}, "service": {"type": "array", "items": TEXT}},
        "additionalProperties": True,
    }
