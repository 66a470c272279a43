"""Images in the Compute API up to 2.35 ("Images (DEPRECATED)")."""

import re
from datetime import UTC, datetime
from typing import Any

from oslo_utils import strutils
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common import links
from portal.api.common.paging import next_links, read_page
from portal.api.compute.proxies.base import ProxyView
from portal.api.compute.schemas import COUNT, TEXT, Schema, Version, last
from portal.api.compute.timestamps import timestamp
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.identity import policy
from provisioning.images import protections, selectors, services
from provisioning.images.models import Image

_STATUS = {"active": "ACTIVE", "queued": "SAVING", "saving": "SAVING", "deleted": "DELETED", "killed": "ERROR"}
_PROGRESS = {"queued": 25, "saving": 50, "active": 100}
_PROPERTIES = {"server": "instance_uuid", "type": "image_type"}
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,6})?(Z|[+-]\d\d:\d\d)?", re.ASCII)


def listing(version: Version) -> Schema:
    """Return the schema of the query of ``GET /images``: ``property-…`` filters by a property; unknown parameters are
    ignored.
    """
    texts: Schema = {"type": "array", "items": TEXT}
    counts: Schema = {"type": "array", "items": COUNT}
    names = ("name", "status", "server", "type", "changes-since", "marker")
    return {
        "type": "object",
        "properties": dict.fromkeys(names, texts) | dict.fromkeys(("minRam", "minDisk", "limit"), counts),
        "patternProperties": {"^property-": texts},
        "additionalProperties": True,
    }


class ImageProxy(ProxyView):
    """Base of the image views."""

    def image(self, image_id: str) -> Image:
        """Return an image that the caller may see in the Image API."""
        policy.enforce(self.context, "get_image")
        try:
            return selectors.image_for(self.context, image_id)
        except NotFoundError as error:
            raise NotFoundError("Image not found.") from error

    def brief(self, image: Image) -> dict[str, Any]:
        path, bookmark = f"images/{image.id}", self.bookmark
        elsewhere = f"{links.endpoint(self.request, 'image')}/{path}"
        return {
            "id": str(image.id),
            "name": image.name or None,
            "links": [
                {"rel": "self", "href": f"{self.base}/{path}"},
                {"rel": "bookmark", "href": f"{bookmark}/{path}"},
                {"rel": "alternate", "type": "application/vnd.openstack.image", "href": elsewhere},
            ],
        }

    def shape(self, image: Image) -> dict[str, Any]:
        metadata = protections.readable(self.context, image.properties)
        shape = self.brief(image) | {
            "minRam": image.min_ram,
            "minDisk": image.min_disk,
            "metadata": metadata,
            "created": timestamp(image.created_at),
            "updated": timestamp(image.updated_at),
            "status": _STATUS.get(image.status, "UNKNOWN"),
            "progress": _PROGRESS.get(image.status, 0),
            "OS-EXT-IMG-SIZE:size": image.size,
        }
        server, config = metadata.get("instance_uuid"), metadata.get("auto_disk_config")
        if server is not None:
            path, bookmark = f"servers/{server}", self.bookmark
            hrefs = [
                {"rel": "self", "href": f"{self.base}/{path}"},
                {"rel": "bookmark", "href": f"{bookmark}/{path}"},
            ]
            shape["server"] = {"id": server, "links": hrefs}
        if config is not None:
            shape["OS-DCF:diskConfig"] = "AUTO" if strutils.bool_from_string(config) else "MANUAL"
        return shape


class ImagesView(ImageProxy):
    """``GET /images``."""

    rules = {"GET": "get_images"}
    queries = {"GET": listing}
    detailed = False

    def get(self, request: Request) -> Response:
        """List the images that the Image API would list for the caller."""
        filters, page = _filters(self.checked_query()), read_page(request, zero_is_none=True)
        found = selectors.images_for(self.context, filters, limit=page.limit, marker=page.marker)
        answer: dict[str, Any] = {
            "images": [self.shape(image) if self.detailed else self.brief(image) for image in found]
        }
        url = f"{self.base}/images{'/detail' if self.detailed else ''}"
        following = next_links(request, page, [image.id for image in found], url)
        if following:
            answer["images_links"] = following
        return Response(answer)


class ImagesDetailView(ImagesView):
    """``GET /images/detail``."""

    detailed = True


class ImageView(ImageProxy):
    """``GET`` and ``DELETE /images/{id}``."""

    rules = {"GET": "get_image", "DELETE": "delete_image"}

    def get(self, request: Request, image_id: str) -> Response:
        return Response({"image": self.shape(self.image(image_id))})

    def delete(self, request: Request, image_id: str) -> Response:
        """Delete an image, as the Image API does."""
        services.delete(self.context, self.image(image_id).id)
        return Response(status=204)


def _filters(query: dict[str, list[str]]) -> dict[str, Any]:
    """Convert the filters of the query into filters of the Image service."""
    filters: dict[str, Any] = {}
    for name in ("name", "status"):
        value = last(query, name)
        if value is not None:
            filters[name] = [value.lower() if name == "status" else value]
    for name, column in (("minRam", "min_ram"), ("minDisk", "min_disk")):
        number = last(query, name)
        if number:
            filters[f"{column}_min"] = int(number)
    changed = last(query, "changes-since")
    if changed:
        filters["times"] = [("updated_at", "gte", _moment(changed))]
    properties = {
        name.removeprefix("property-"): values[-1]
        for name, values in query.items()
        if name.startswith("property-") and "\0" not in name
    }
    for name, known in _PROPERTIES.items():
        value = last(query, name)
        if value is not None:
            properties[known] = value.rsplit("/", 1)[-1]
    return filters | ({"properties": properties} if properties else {})


def _moment(text: str) -> datetime:
    found = _MOMENT.fullmatch(text.strip())
    try:
        moment = datetime.fromisoformat(found[1] + (found[3] or "Z")) if found else None
    except (ValueError, OverflowError):
        moment = None
    if moment is None or not 1 < moment.year < 9999:
        raise InvalidInputError(f"Invalid changes-since filter [{text[:40]}]", field="changes-since")
    return moment.astimezone(UTC)
