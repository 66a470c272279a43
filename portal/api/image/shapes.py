"""Images in Glance's words (Image service API v2 reference)."""

from __future__ import annotations

import datetime
from typing import Any

from provisioning.images.inspection import CONTAINER_FORMATS, DISK_FORMATS
from provisioning.images.models import Image

Shape = dict[str, Any]


def image(row: Image) -> Shape:
    """Show an image; its additional properties stand beside the others."""
    path = f"/v2/images/{row.id}"
    return {
        **row.properties,
        "id": str(row.id),
        "name": row.name or None,
        "status": row.status,
        "visibility": row.visibility,
        "owner": row.project_id.hex,
        "disk_format": row.disk_format,
        "container_format": row.container_format,
        "size": row.size,
        "virtual_size": row.virtual_size,
        "checksum": row.checksum,
        "os_hash_algo": row.os_hash_algo,
        "os_hash_value": row.os_hash_value,
        "os_hidden": row.hidden,
        "protected": row.protected,
        "min_disk": row.min_disk,
        "min_ram": row.min_ram,
        "tags": row.tags,
        "created_at": _moment(row.created_at),
        "updated_at": _moment(row.updated_at),
        "self": path,
        "file": f"{path}/file",
        "schema": "/v2/schemas/image",
    }


def _moment(value: datetime.datetime) -> str:
    """Return a time as Glance writes it, in UTC without fractions."""
    return value.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _text(description: str, **more: Any) -> Shape:
    return {"type": "string", "description": description, **more}


def _read_only(kind: str | list[str], description: str, **more: Any) -> Shape:
    return {"type": kind, "description": description, "readOnly": True, **more}


IMAGE_PROPERTIES: Shape = {
    "id": _text("An identifier for the image", pattern="^([0-9a-fA-F]){8}(-([0-9a-fA-F]){4}){3}-([0-9a-fA-F]){12}$"),
    "name": {"type": ["null", "string"], "maxLength": 255, "description": "Descriptive name for the image"},
    "status": _read_only("string", "Status of the image", enum=["queued", "saving", "active"]),
    "visibility": _text("Scope of image accessibility", enum=["community", "public", "private", "shared"]),
    "owner": _read_only(["null", "string"], "Owner of the image", maxLength=255),
    "disk_format": {
        "type": ["null", "string"],
        "enum": [None, *DISK_FORMATS],
        "description": "Format of the disk",
    },
    "container_format": {
        "type": ["null", "string"],
        "enum": [None, *CONTAINER_FORMATS],
        "description": "Format of the container",
    },
    "size": _read_only(["null", "integer"], "Size of image file in bytes"),
    "virtual_size": _read_only(["null", "integer"], "Virtual size of image in bytes"),
    "checksum": _read_only(["null", "string"], "md5 hash of image contents.", maxLength=32),
    "os_hash_algo": _read_only(["null", "string"], "Algorithm to calculate the os_hash_value", maxLength=64),
    "os_hash_value": _read_only(["null", "string"], "Hexdigest of the image contents", maxLength=128),
    "os_hidden": {"type": "boolean", "description": "If true, image will not appear in default image list response."},
    "protected": {"type": "boolean", "description": "If true, image will not be deletable."},
    "min_disk": {"type": "integer", "description": "Amount of disk space (in GB) required to boot image."},
    "min_ram": {"type": "integer", "description": "Amount of ram (in MB) required to boot image."},
    "tags": {
        "type": "array",
        "items": {"type": "string", "maxLength": 255},
        "description": "List of strings related to the image",
    },
    "created_at": _read_only("string", "Date and time of image registration"),
    "updated_at": _read_only("string", "Date and time of the last image modification"),
    "self": _read_only("string", "An image self url"),
    "file": _read_only("string", "An image file url"),
    "schema": _read_only("string", "An image schema url"),
}
MEMBER_PROPERTIES: Shape = {
    "image_id": _text("An identifier for the image"),
    "member_id": _text("An identifier for the image member (tenantId)"),
    "status": _text("The status of this image member", enum=["pending", "accepted", "rejected"]),
    "created_at": _text("Date and time of image member creation"),
    "updated_at": _text("Date and time of last modification of image member"),
    "schema": _read_only("string", "Schema of the member"),
}


def _list_of(name: str, plural: str, item: Shape) -> Shape:
    """Return the schema of a list."""
    link = {"type": "string"}
    return {
        "name": plural,
        "properties": {plural: {"type": "array", "items": item}, "first": link, "next": link, "schema": link},
        "links": [
            {"rel": "first", "href": "{first}"},
            {"rel": "next", "href": "{next}"},
            {"rel": "describedby", "href": "{schema}"},
        ],
        "description": f"A list of {name}s.",
    }


IMAGE_SCHEMA: Shape = {
    "name": "image",
    "properties": IMAGE_PROPERTIES,
    "additionalProperties": {"type": "string"},
    "links": [
        {"rel": "self", "href": "{self}"},
        {"rel": "enclosure", "href": "{file}"},
        {"rel": "describedby", "href": "{schema}"},
    ],
}
MEMBER_SCHEMA: Shape = {"name": "member", "properties": MEMBER_PROPERTIES}
SCHEMAS: dict[str, Shape] = {
    "image": IMAGE_SCHEMA,
    "images": _list_of("image", "images", IMAGE_SCHEMA),
    "member": MEMBER_SCHEMA,
    "members": _list_of("member", "members", MEMBER_SCHEMA),
}
