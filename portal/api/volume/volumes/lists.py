"""Filters and sort keys of lists of volumes."""

from django.db.models import Q

from portal.api.volume.dialect import listing
from portal.api.volume.dialect.listing import Lists

_SPELLED = (3, 2)
"""From this version on ``bootable`` must be true or false; before, every value except false is true."""


def _anything_but_false(value: str) -> Q:
    return Q(bootable=value.lower() not in {"false", "f", "0"})


VOLUMES = Lists(
    plural="volumes",
    filters={
        "id": listing.identity("id"),
        "name": listing.text("name"),
        "display_name": listing.text("name"),
        "status": listing.text("status"),
        "metadata": listing.pairs("metadata"),
        "bootable": listing.boolean("bootable"),
        "migration_status": listing.text("migration_status"),
        "availability_zone": listing.text("availability_zone"),
        "group_id": listing.identity("group_id"),
        "size": listing.number("size_gb"),
        "created_at": listing.moments("created_at"),
        "updated_at": listing.moments("updated_at"),
        "glance_metadata": listing.pairs("image_metadata"),
        "user_id": listing.identity("user_id"),
        "project_id": listing.identity("project_id"),
        "snapshot_id": listing.identity("source_snapshot_id"),
        "volume_type_id": listing.identity("volume_type_id"),
        "multiattach": listing.boolean("multiattach"),
        "consumes_quota": lambda value: _consumes(value),
    },
    since={
        "glance_metadata": (3, 4),
        "group_id": (3, 10),
        "created_at": (3, 60),
        "updated_at": (3, 60),
        "consumes_quota": (3, 65),
    },
    before={"bootable": (_SPELLED, _anything_but_false)},
    like={"name": "name", "status": "status", "availability_zone": "availability_zone"},
    sort={
        "id": "id",
        "name": "name",
        "display_name": "name",
        "status": "status",
        "size": "size_gb",
        "availability_zone": "availability_zone",
        "bootable": "bootable",
        "created_at": "created_at",
        "updated_at": "updated_at",
        "user_id": "user_id",
        "project_id": "project_id",
    },
)


_TAKING_OVER = listing.boolean("migration_of__isnull", "consumes_quota")


def _consumes(value: str) -> Q:
    return _TAKING_OVER(value)
