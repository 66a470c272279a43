"""Volumes (Block Storage API v3 reference, "Volumes (volumes)")."""

import hashlib
from typing import Any

import orjson
from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.microversions import NEWEST
from portal.api.common.validation import Schema
from portal.api.frame.parts import Call, Entries, parts
from portal.api.volume.base import VolumeView
from portal.api.volume.dialect.listing import narrowed, wants_all
from portal.api.volume.dialect.schemas import METADATA, asked_for, boolean, of_metadata, text_of, texts_of
from portal.api.volume.dialect.views import ListingView
from portal.api.volume.volumes import schemas
from portal.api.volume.volumes.lists import VOLUMES
from portal.api.volume.volumes.shapes import accepted, metadata_of, shape, summary
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.identity import policy
from provisioning.volumes import services
from provisioning.volumes.models import Volume
from provisioning.volumes.selectors.access import visible_volumes, volume_for
from provisioning.volumes.selectors.pools import servings

HINTS = ("OS-SCH-HNT:scheduler_hints", "scheduler_hints")


def with_parts(rows: QuerySet[Volume]) -> QuerySet[Volume]:
    """Prefetch the related rows of the representations, with a constant number of queries."""
    return rows.prefetch_related("attachments__host", servings("pool__"))


class VolumeBase(VolumeView):
    """Base of the volume views."""

    def answer(self, volume: Volume, status: int = 200) -> Response:
        """Answer a create or an update."""
        return Response({"volume": accepted(self, volume)}, status=status)

    def found(self, volume_id: str) -> Volume:
        return volume_for(self.context, volume_id)


class VolumesView(VolumeBase, ListingView):
    """``GET`` and ``POST /volumes``."""

    rules = {"GET": "volume:get_all", "POST": "volume:create"}
    schemas = {"POST": schemas.create}
    path = "volumes"
    lists = VOLUMES
    queries = {"GET": lists.schema}

    def get(self, request: Request) -> Response:
        """List volumes by id and name."""
        return self.listed(request)

    def rows(self, *, all_projects: bool) -> QuerySet[Volume]:
        return with_parts(visible_volumes(self.context, all_projects=all_projects))

    def shapes(self, rows: list[Volume]) -> list[dict[str, Any]]:
        return [summary(self, row) for row in rows]

    def post(self, request: Request) -> Response:
        """Create a volume: empty, or from an image, a snapshot, a volume or a backup."""
        body = self.checked_body()
        asked = body["volume"]
        hints: dict[str, Any] = next((body[name] for name in HINTS if body.get(name)), {})
        image = asked.get("imageRef") or asked.get("image_id") or ""
        if image:
            policy.enforce(self.context, "volume:create_from_image", {})
        if boolean(asked.get("multiattach", False)):
            policy.enforce(self.context, "volume:multiattach", {})
        size = asked.get("size")
        wanted = services.VolumeRequest(
            size_gb=None if size is None else int(size),
            name=text_of(asked, "name") or text_of(asked, "display_name"),
            description=text_of(asked, "description") or text_of(asked, "display_description"),
            volume_type=asked.get("volume_type") or "",
            availability_zone=asked.get("availability_zone") or "",
            image_id=image.rpartition("/")[2],
            snapshot_id=asked.get("snapshot_id") or "",
            source_volume_id=asked.get("source_volid") or "",
            backup_id=asked.get("backup_id") or "" if self.microversion >= (3, 47) else "",
            group_id=asked.get("group_id") or "" if self.microversion >= (3, 13) else "",
            metadata=asked.get("metadata") or {},
            scheduler_hints=hints,
            multiattach=boolean(asked.get("multiattach", False)),
        )
        if size is None and not (wanted.snapshot_id or wanted.source_volume_id or wanted.backup_id):
            raise InvalidInputError("Size (GB) must be specified for a new volume.", field="size")
        made = services.create_volume(self.context, wanted)
        return self.answer(self.found(str(made.id)), 202)


class VolumesDetailView(VolumesView):
    """``GET /volumes/detail``."""

    rules = {"GET": "volume:get_all"}
    http_method_names = ["get", "head"]
    path = "volumes/detail"

    def get(self, request: Request) -> Response:
        """List volumes with all their attributes."""
        return self.listed(request)

    def shapes(self, rows: list[Volume]) -> list[dict[str, Any]]:
        return [shape(self, row) for row in rows]


class SummaryView(VolumeBase):
    """``GET /volumes/summary``, from 3.12 on."""

    rules = {"GET": "volume:get_all"}
    versions = {"GET": ((3, 12), NEWEST)}

    def get(self, request: Request) -> Response:
        """Show the number and total size of volumes, from 3.36 on with all values of their metadata."""
        rows = visible_volumes(self.context, all_projects=wants_all(request))
        every = list(narrowed(VOLUMES, rows, request, self.microversion).values_list("size_gb", "metadata"))
        found: dict[str, Any] = {"total_count": len(every), "total_size": sum(size for size, _ in every)}
        if self.microversion >= (3, 36):
            values: dict[str, set[str]] = {}
            for _, metadata in every:
                for name, value in metadata.items():
                    values.setdefault(name, set()).add(value)
            found["metadata"] = {name: sorted(each) for name, each in sorted(values.items())}
        return Response({"volume-summary": found})


class VolumeOneView(VolumeBase):
    """``GET``, ``PUT`` and ``DELETE /volumes/{id}``."""

    rules = {"GET": "volume:get", "PUT": "volume:update", "DELETE": "volume:delete"}
    schemas = {"PUT": schemas.update}

    def get(self, request: Request, volume_id: str) -> Response:
        """Show a volume with its attachments."""
        return Response({"volume": shape(self, self.found(volume_id))})

    def put(self, request: Request, volume_id: str) -> Response:
        """Update name, description and metadata."""
        asked = self.checked_body()["volume"]
        changes = texts_of(asked)
        services.update_volume(self.context, volume_id, **changes, metadata=asked.get("metadata"))
        return self.answer(self.found(volume_id))

    def delete(self, request: Request, volume_id: str) -> Response:
        """Delete a volume; ``cascade=True`` with its snapshots; ``force=True`` (3.23, operators) in any status."""
        cascade = asked_for(request, "cascade")
        force = self.microversion >= (3, 23) and asked_for(request, "force")
        if force:
            policy.enforce(self.context, "volume:force_delete", {})
        services.delete_volume(self.context, volume_id, cascade=cascade, force=force)
        return self.accepted()


def etag_of(values: dict[str, str]) -> str:
    """Return Cinder's ETag of metadata, from 3.15 on."""
    return hashlib.sha256(orjson.dumps(values, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]


def is_expected(view: VolumeView, found: Volume) -> bool:
    """Whether the metadata matches If-Match, which Cinder checks from 3.15 on."""
    named = view.request.headers.get("If-Match", "").strip()
    if not named or named == "*" or view.microversion < (3, 15):
        return True
    # Some releases of Cinder send their ETags without quotes, and clients send them back unchanged. The ETag of a
    # compressed response is weak.
    return etag_of(metadata_of(found)) in {each.strip().removeprefix("W/").strip('"') for each in named.split(",")}


class MetadataView(VolumeBase):
    """``GET``, ``POST`` and ``PUT /volumes/{id}/metadata``; from 3.15 on with an ETag, and If-Match for PUT."""

    rules = {
        "GET": "volume:get_volume_metadata",
        "POST": "volume:create_volume_metadata",
        "PUT": "volume:update_volume_metadata",
    }
    schemas = {"POST": of_metadata(), "PUT": of_metadata()}

    def get(self, request: Request, volume_id: str) -> Response:
        """Show the metadata of a volume."""
        return self._metadata(metadata_of(self.found(volume_id)))

    def post(self, request: Request, volume_id: str) -> Response:
        """Add or update items."""
        found = self.found(volume_id)
        asked = self.checked_body()["metadata"]
        return self._write(found, asked, replace=False)

    def put(self, request: Request, volume_id: str) -> Response:
        """Replace the metadata."""
        found = self.found(volume_id)
        asked = self.checked_body()["metadata"]
        if not is_expected(self, found):
            return Response(status=412)
        return self._write(found, asked, replace=True)

    def _write(self, found: Volume, items: dict[str, str], *, replace: bool) -> Response:
        changed = services.set_items(self.context, found.id, items, replace=replace)
        return self._metadata(metadata_of(changed))

    def _metadata(self, values: dict[str, str]) -> Response:
        answer = Response({"metadata": values})
        if self.microversion >= (3, 15):
            answer["ETag"] = f'"{etag_of(values)}"'
        return answer


_ITEM: Schema = {
    "type": "object",
    "properties": {"meta": METADATA | {"minProperties": 1, "maxProperties": 1}},
    "required": ["meta"],
    "additionalProperties": False,
}


class MetadataItemView(VolumeBase):
    """``GET``, ``PUT`` and ``DELETE /volumes/{id}/metadata/{key}``."""

    rules = {
        "GET": "volume:get_volume_metadata",
        "PUT": "volume:update_volume_metadata",
        "DELETE": "volume:delete_volume_metadata",
    }
    schemas = {"PUT": _ITEM}

    def get(self, request: Request, volume_id: str, key: str) -> Response:
        """Show an item of the metadata."""
        values = metadata_of(self.found(volume_id))
        if key not in values:
            raise NotFoundError(f"Volume {volume_id[:64]} has no metadata with key {key[:64]}.")
        return Response({"meta": {key: values[key]}})

    def put(self, request: Request, volume_id: str, key: str) -> Response:
        """Set an item of the metadata."""
        asked = self.checked_body()["meta"]
        if key not in asked:
            raise InvalidInputError("Request body and URI mismatch")
        if not is_expected(self, self.found(volume_id)):
            return Response(status=412)
        services.set_items(self.context, volume_id, asked)
        return Response({"meta": asked})

    def delete(self, request: Request, volume_id: str, key: str) -> Response:
        """Delete an item of the metadata."""
        if key not in self.found(volume_id).metadata:
            raise NotFoundError(f"Volume {volume_id[:64]} has no metadata with key {key[:64]}.")
        services.delete_item(self.context, volume_id, key)
        return Response(status=200)


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
PARTS = parts(
    VolumeView,
    "volumes/{volume_id}/encryption",
    {
        "GET": Call(volume_for, _ENCRYPTED, "Show the encryption settings, without the key.", shape=_encryption),
        "GET /{key}": _ENCRYPTION.one(_ENCRYPTED, "Show one value of the encryption."),
    },
)
