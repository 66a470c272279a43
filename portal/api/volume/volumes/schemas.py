"""JSON schemas of requests about volumes."""

from typing import Any

from portal.api.common.requests import Schema, Version
from portal.api.frame.resource import inner
from portal.api.volume.dialect.schemas import BOOLEAN, ID, ID_OR_NULL, METADATA, NAME, SIZE, UUID

STRICT = (3, 53)
"""From this version on undocumented members are rejected."""
_NULLABLE_SIZE: Schema = SIZE | {"type": ["integer", "string", "null"]}
_METADATA: Schema = METADATA | {"type": ["object", "null"]}


def create(version: Version) -> Schema:
    """Return the schema of ``POST /volumes``."""
    properties: dict[str, Schema] = {
        "size": _NULLABLE_SIZE,
        "name": NAME,
        "display_name": NAME,
        "description": NAME,
        "display_description": NAME,
        "volume_type": ID_OR_NULL,
        "availability_zone": ID_OR_NULL,
        "imageRef": ID_OR_NULL,
        "image_id": ID_OR_NULL,
        "snapshot_id": ID_OR_NULL,
        "source_volid": ID_OR_NULL,
        "consistencygroup_id": {"type": "null"},
        "metadata": _METADATA,
        "multiattach": BOOLEAN,
    }
    if version >= (3, 13):
        properties["group_id"] = ID_OR_NULL
    if version >= (3, 47):
        properties["backup_id"] = ID_OR_NULL
    hints: Schema = {"type": ["object", "null"]}
    return {
        "type": "object",
        "properties": {
            "volume": inner(properties, closed=version >= STRICT),
            "OS-SCH-HNT:scheduler_hints": hints,
            "scheduler_hints": hints,
        },
        "required": ["volume"],
        "additionalProperties": False,
    }


def update(version: Version) -> Schema:
    """Return the schema of ``PUT /volumes/{id}``."""
    properties = {
        "name": NAME,
        "display_name": NAME,
        "description": NAME,
        "display_description": NAME,
        "metadata": _METADATA,
    }
    one = inner(properties, closed=version >= STRICT)
    if version >= STRICT:
        one["minProperties"] = 1
    return {"type": "object", "properties": {"volume": one}, "required": ["volume"], "additionalProperties": False}


_CONNECTOR: Schema = inner({"connector": {"type": ["object", "null"]}}, closed=False)
_WORD: Schema = ID
NEW_SIZE = inner({"new_size": SIZE}, ("new_size",))
ATTACH = inner(
    {
        "instance_uuid": UUID,
        "mountpoint": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[^\x00]*\Z"},
        "host_name": {"type": ["string", "null"], "maxLength": 255},
        "mode": {"enum": ["rw", "ro"]},
    },
    ("mountpoint",),
)
DETACH: Schema = {"type": ["object", "null"], "properties": {"attachment_id": ID_OR_NULL}}
FORCE_DETACH = inner({"attachment_id": ID_OR_NULL, "connector": {"type": ["object", "null"]}})
CONNECTOR = inner({"connector": {"type": "object"}}, ("connector",))
READ_ONLY = inner({"readonly": BOOLEAN}, ("readonly",))
BOOTABLE = inner({"bootable": BOOLEAN}, ("bootable",))
RESET = inner(
    {
        "status": {"type": ["string", "null"], "maxLength": 64},
        "attach_status": {"enum": ["attached", "detached", None]},
        "migration_status": {"enum": ["none", "migrating", "error", "completing", "success", "starting", None]},
    }
)
SET_IMAGE_METADATA = inner({"metadata": METADATA}, ("metadata",))
UNSET_IMAGE_METADATA = inner({"key": ID}, ("key",))
RETYPE = inner({"new_type": ID, "migration_policy": {"enum": ["on-demand", "never", None]}}, ("new_type",))
EXTEND_COMPLETION = inner({"error": BOOLEAN})
REVERT = inner({"snapshot_id": ID}, ("snapshot_id",))
REIMAGE = inner({"image_id": ID, "reimage_reserved": BOOLEAN}, ("image_id",))
MIGRATE_COMPLETION = inner({"new_volume": ID, "error": BOOLEAN}, ("new_volume",))


def migrate(version: Version) -> Schema:
    """Return the schema of ``os-migrate_volume``; from 3.16 on with ``cluster``, although there are no clusters."""
    properties: dict[str, Any] = {
        "host": ID,
        "force_host_copy": BOOLEAN,
        "lock_volume": BOOLEAN,
    }
    if version >= (3, 16):
        properties["cluster"] = ID_OR_NULL
    return inner(properties)


def upload(version: Version) -> Schema:
    """Return the schema of ``os-volume_upload_image``; from 3.1 on with ``visibility`` and ``protected``."""
    properties: dict[str, Schema] = {
        "image_name": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[^\x00]*\Z"},
        "force": BOOLEAN,
        "disk_format": {"enum": ["raw", "vmdk", "vdi", "qcow2", "vhd", "vhdx", "ploop", None]},
        "container_format": {"type": ["string", "null"], "maxLength": 255},
    }
    if version >= (3, 1):
        properties |= {
            "visibility": {"enum": ["community", "public", "private", "shared"]},
            "protected": BOOLEAN,
        }
    return inner(properties, ("image_name",))
