"""Images and their members in Glance's format (Image service API v2 reference)."""

import datetime
from collections.abc import Mapping
from typing import Any

from django.conf import settings

from provisioning.images.models import Image, ImageMember

Shape = dict[str, Any]


def image(row: Image, properties: Mapping[str, str | None]) -> Shape:
    """Show an image; the additional properties that the caller may read are on the same level as its attributes."""
    path = f"/v2/images/{row.id}"
    return {
        **properties,
        **row.import_state,
        "id": str(row.id),
        "name": row.name or ("" if row.empty_name else None),
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
        "created_at": moment(row.created_at),
        "updated_at": moment(row.updated_at),
        "self": path,
        "file": f"{path}/file",
        "schema": "/v2/schemas/image",
        **({"stores": settings.IMAGE_STORE_ID} if row.os_hash_value else {}),
    }


def member(row: ImageMember) -> Shape:
    return {
        "image_id": str(row.image_id),
        "member_id": row.project_id.hex,
        "status": row.status,
        "created_at": moment(row.created_at),
        "updated_at": moment(row.updated_at),
        "schema": "/v2/schemas/member",
    }


def moment(value: datetime.datetime) -> str:
    """Return a time as Glance writes it, in UTC without fractions."""
    return value.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
