"""Bodies of requests about backups."""

from portal.api.common.microversions import Version
from portal.api.common.validation import Schema
from portal.api.frame.schemas import body
from portal.api.volume.dialect.schemas import BOOLEAN, ID, ID_OR_NULL, METADATA, NAME

METADATA_SINCE, ZONE_SINCE = (3, 43), (3, 51)


def create(version: Version) -> Schema:
    """Return the schema of a new backup's body."""
    fields: dict[str, Schema] = {
        "volume_id": ID,
        "container": NAME,
        "description": NAME,
        "name": NAME,
        "incremental": BOOLEAN,
        "force": BOOLEAN,
        "snapshot_id": ID_OR_NULL,
    }
    if version >= METADATA_SINCE:
        fields["metadata"] = {"oneOf": [METADATA, {"type": "null"}]}
    if version >= ZONE_SINCE:
        fields["availability_zone"] = NAME
    return body("backup", fields, ("volume_id",))


def update(version: Version) -> Schema:
    """Return the schema of a change's body."""
    fields: dict[str, Schema] = {"name": NAME, "description": NAME}
    if version >= METADATA_SINCE:
        fields["metadata"] = {"oneOf": [METADATA, {"type": "null"}]}
    return body("backup", fields)


RESTORE = body("restore", {"volume_id": ID_OR_NULL, "name": NAME})
RECORD = body(
    "backup-record",
    {
        "backup_service": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[^\x00]*\Z"},
        "backup_url": {"type": "string", "minLength": 1, "maxLength": 65_536, "pattern": r"^[^\x00]*\Z"},
    },
    ("backup_service", "backup_url"),
)
STATUS: Schema = {
    "type": "object",
    "properties": {"status": {"type": "string", "maxLength": 255}},
    "required": ["status"],
    "additionalProperties": False,
}
