"""The summary of volumes, their metadata and their encryption (reference, "Volumes (volumes)")."""

import hashlib
from collections.abc import Set as AbstractSet
from dataclasses import replace as changed
from functools import partial
from typing import Any

import orjson
from django.db.models import QuerySet
from rest_framework.response import Response

from portal.api.frame.parts import Call, Entries, parts
from portal.api.volume.base import VolumeView
from portal.api.volume.dialect.listing import narrowed, wants_all
from portal.api.volume.dialect.schemas import METADATA
from portal.api.volume.volumes.resource import VOLUME, metadata_of
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.volumes import services
from provisioning.volumes.models import Volume
from provisioning.volumes.selectors.access import visible_volumes, volume_for

TAGGED = (3, 15)
"""From this version on metadata has an ETag."""


def _summary(view: VolumeView, rows: QuerySet[Volume]) -> dict[str, Any]:
    every = list(narrowed(VOLUME.lists, rows, view.request, view.microversion).values_list("size_gb", "metadata"))
    result: dict[str, Any] = {"total_count": len(every), "total_size": sum(size for size, _ in every)}
    if view.microversion >= (3, 36):
        values: dict[str, set[str]] = {}
        for _, metadata in every:
            for name, value in metadata.items():
                values.setdefault(name, set()).add(value)
        result["metadata"] = {name: sorted(each) for name, each in sorted(values.items())}
    return result


def _etag(values: dict[str, str]) -> str:
    """Return Cinder's ETag of metadata."""
    return hashlib.sha256(orjson.dumps(values, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]


def _headers(view: VolumeView, values: dict[str, str]) -> dict[str, str]:
    return {"ETag": f'"{_etag(values)}"'} if view.microversion >= TAGGED else {}


def _expected(view: VolumeView) -> dict[str, AbstractSet[str] | None]:
    """Return the ETags of If-Match that an update requires; None if every metadata may be updated."""
    named = view.request.headers.get("If-Match", "").strip()
    if not named or named == "*" or view.microversion < TAGGED:
        return {"expected": None}
    # Some releases of Cinder send their ETags without quotes, and clients send them back unchanged. The ETag of a
    # compressed response is weak.
    return {"expected": {each.strip().removeprefix("W/").strip('"') for each in named.split(",")}}


def _set(
    context: RequestContext,
    volume_id: str,
    items: dict[str, str],
    *,
    replace: bool = False,
    expected: AbstractSet[str] | None = None,
) -> Volume | Response:
    """Update the metadata; 412 without a body if its ETag is not one of the expected ones."""
    if expected is not None and _etag(metadata_of(volume_for(context, volume_id))) not in expected:
        return Response(status=412)
    return services.set_items(context, volume_id, items, replace=replace)


def _delete(context: RequestContext, volume_id: str, key: str) -> None:
    if key not in volume_for(context, volume_id).metadata:
        raise NotFoundError(f"Volume {volume_id[:64]} has no metadata with key {key[:64]}.")
    services.delete_item(context, volume_id, key)


_METADATA = Entries(
    name="metadata",
    item="meta",
    find=volume_for,
    values=lambda view, volume: metadata_of(volume),
    headers=_headers,
    schema=METADATA,
    merge=_set,
    replace=partial(_set, replace=True),
    remove=_delete,
    missing="Volume {found.id} has no metadata with key {key:.64}.",
)


def _encryption(view: VolumeView, found: Volume) -> dict[str, Any]:
    """Return the encryption settings, without the key."""
    if not found.encryption_key:
        return {"encryption_key_id": None}
    return {
        "encryption_key_id": str(found.id),
        "provider": "luks",
        "cipher": found.cipher or None,
        "key_size": found.key_size or None,
        "control_location": "front-end",
    }


_ENCRYPTED = "volume_extension:volume_encryption_metadata"
_ENCRYPTION = Entries(
    name="encryption",
    find=volume_for,
    values=_encryption,
    missing="There is no {key:.64} of the volume's encryption.",
)
_OF_ENCRYPTION = parts(
    VolumeView,
    "volumes/{volume_id}/encryption",
    {
        "GET": Call(volume_for, _ENCRYPTED, "Show the encryption settings, without the key.", shape=_encryption),
        "GET /{key}": _ENCRYPTION.one(_ENCRYPTED, "Show one value of the encryption."),
    },
)
PARTS = (
    parts(
        VolumeView,
        "volumes/summary",
        {
            "GET": Call(
                visible_volumes,
                "volume:get_all",
                "Show the number and total size of volumes, from 3.36 on with all values of their metadata.",
                name="volume-summary",
                shape=_summary,
                more=lambda view: {"all_projects": wants_all(view.request)},
                since=(3, 12),
            )
        },
    )
    | parts(
        VolumeView,
        "volumes/{volume_id}/metadata",
        {
            "GET": _METADATA.all("volume:get_volume_metadata", "Show the metadata of a volume."),
            "POST": _METADATA.merging("volume:create_volume_metadata", "Add or update items."),
            "PUT": changed(
                _METADATA.replacing("volume:update_volume_metadata", "Replace the metadata."), more=_expected
            ),
            "GET /{key}": _METADATA.one("volume:get_volume_metadata", "Show an item of the metadata."),
            "PUT /{key}": changed(
                _METADATA.setting("volume:update_volume_metadata", "Set an item of the metadata."), more=_expected
            ),
            "DELETE /{key}": _METADATA.removing(
                "volume:delete_volume_metadata", "Delete an item of the metadata.", status=200
            ),
        },
    )
    | _OF_ENCRYPTION
)
