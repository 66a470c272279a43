"""The summary of volumes, their metadata and their encryption (Block Storage API v3 reference, "Volumes (volumes)"),
and unmanaged disks in pools, which can become volumes ("Volume manage extension"), from 3.8 on.
"""

import hashlib
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from dataclasses import replace as changed
from functools import partial
from typing import ClassVar

import orjson
from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.frame import NEWEST, Call, Entries, Json, Schema, body, parts
from portal.api.volume.dialect import ResourceView, VolumeView, listing, schemas
from portal.api.volume.volumes.resource import LEGACY, VOLUME, metadata_of, with_parts
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.volumes import services
from provisioning.volumes.models import StoragePool, Volume
from provisioning.volumes.selectors.access import visible_volumes, volume_for
from provisioning.volumes.selectors.pools import pool_named
from provisioning.volumes.services.lifecycle.manage import Manage, ManageRequest, gib, manageable

TAGGED = (3, 15)
"""From this version on metadata has an ETag."""


def _summary(view: VolumeView, rows: QuerySet[Volume]) -> Json:
    every = list(
        listing.narrowed(VOLUME.lists, rows, view.request, view.microversion).values_list("size_gb", "metadata")
    )
    result: Json = {"total_count": len(every), "total_size": sum(size for size, _ in every)}
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
    schema=schemas.METADATA,
    merge=_set,
    replace=partial(_set, replace=True),
    remove=_delete,
    missing="Volume {found.id} has no metadata with key {key:.64}.",
)


def _encryption(view: VolumeView, found: Volume) -> Json:
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
                more=lambda view: {"all_projects": listing.wants_all(view.request)},
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


SINCE = (3, 8)
REFERENCE = "source-name"
SORTS = ("reference", "size")
REF: Schema = {
    "type": "object",
    "additionalProperties": {"type": "string", "minLength": 1, "maxLength": 255},
    "minProperties": 1,
}
MANAGE = body(
    "volume",
    {
        "host": schemas.ID,
        "ref": REF,
        "name": schemas.NAME,
        "description": schemas.NAME,
        "volume_type": schemas.ID_OR_NULL,
        "availability_zone": schemas.ID_OR_NULL,
        "bootable": schemas.BOOLEAN,
        "metadata": schemas.METADATA | {"type": ["object", "null"]},
        "cluster": {"type": "null"},
    },
    ("host", "ref"),
)


def pool_of(named: str) -> StoragePool:
    """Return the pool in ``HOST@DRIVER#POOL``. Raises InvalidInputError for an unknown one."""
    try:
        return pool_named(named)
    except NotFoundError as error:
        raise InvalidInputError(error.message, field="host") from None


@dataclass(frozen=True)
class Unmanaged:
    """An unmanaged disk or snapshot in a pool."""

    name: str
    size_gb: int
    reason: str = ""
    """Why it cannot be managed."""
    volume: str = ""
    """The name of its volume in the pool, if it is a snapshot."""


class ManageableView(ResourceView):
    """Base of the lists of unmanaged disks and snapshots: ``GET /manageable_volumes`` and similar paths."""

    versions = dict.fromkeys(("GET", "POST"), (SINCE, NEWEST))
    rules = {"GET": "volume_extension:list_manageable"}
    detailed: ClassVar[bool] = False
    listed: ClassVar[str]
    """The member of the response with the list."""

    def unmanaged(self, pool: StoragePool) -> list[Unmanaged]:
        """Return the unmanaged disks or snapshots in a pool."""
        raise NotImplementedError

    def get(self, request: Request) -> Json:
        """List by name; ``sort=size:desc``, ``limit`` and ``offset``."""
        named = request.query_params.get("host", "")
        if not named:
            raise InvalidInputError("Specify the pool in host: HOST@DRIVER#POOL.", field="host")
        found = self.unmanaged(pool_of(named))
        key, _, way = request.query_params.get("sort", "reference:asc").partition(":")
        if key not in SORTS or way not in ("", "asc", "desc"):
            raise InvalidInputError(f"These lists can be sorted by {' and '.join(SORTS)}, asc or desc.", field="sort")
        found.sort(key=lambda each: (each.size_gb if key == "size" else 0, each.name), reverse=way == "desc")
        return {self.listed: [self.shape(each) for each in found[listing.LIST_PAGES.read_slice(request)]]}

    def shape(self, each: Unmanaged) -> Json:
        shown: Json = {
            "reference": {REFERENCE: each.name},
            "size": each.size_gb,
            "safe_to_manage": not each.reason,
        }
        if each.volume:
            shown["source_reference"] = {REFERENCE: each.volume}
        if self.detailed:
            shown |= {"reason_not_safe": each.reason or None, "cinder_id": None, "extra_info": None}
        return shown


def reference_of(body: Json) -> str:
    """Return the name in the pool that a request refers to. Raises InvalidInputError."""
    if body["ref"].keys() != {REFERENCE}:
        raise InvalidInputError(f"Specify the disk or snapshot by its {REFERENCE} only.", field="ref")
    return str(body["ref"][REFERENCE])


class ManageableVolumesView(ManageableView):
    """``GET`` and ``POST /manageable_volumes`` and similar paths."""

    resource = VOLUME
    listed = "manageable-volumes"
    rules = {"GET": "volume_extension:list_manageable", "POST": Manage.rule}
    schemas = {"POST": MANAGE}
    sentences = {"GET": "List the unmanaged disks of a pool."}

    def unmanaged(self, pool: StoragePool) -> list[Unmanaged]:
        return [Unmanaged(disk.name, gib(disk.size), disk.reason) for disk in manageable(pool)]

    def post(self, request: Request) -> Response:
        """Manage a disk as a new volume."""
        body = self.checked_body()["volume"]
        name, pool = reference_of(body), pool_of(body["host"])
        if body.get("availability_zone") not in (None, "", pool.availability_zone):
            raise InvalidInputError(f"The pool is in zone {pool.availability_zone}.", field="availability_zone")
        specified = ManageRequest(
            pool,
            name,
            name=schemas.text_of(body, "name"),
            description=schemas.text_of(body, "description"),
            volume_type=body.get("volume_type") or "",
            bootable=schemas.boolean(body.get("bootable", False)),
            metadata=body.get("metadata") or {},
        )
        made = Manage.begin(self.context, specified)
        [shape] = self.shapes([with_parts(self.context).get(id=made.id)], LEGACY)
        return Response({"volume": shape}, status=202)


class ManageableVolumesDetailView(ManageableVolumesView):
    """``GET /manageable_volumes/detail`` and similar paths."""

    rules = {"GET": "volume_extension:list_manageable"}
    http_method_names = ["get", "head"]
    detailed = True
