"""Images in the Compute API up to 2.35, and their properties up to 2.38 ("Images (DEPRECATED)")."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from oslo_utils import strutils
from rest_framework.request import Request

from portal.api.compute.dialect import COUNT, LIST_PAGES, TEXT, last, timestamp
from portal.api.compute.proxies.base import ProxyView
from portal.api.compute.servers.schemas import METADATA
from portal.api.frame import Call, Entries, Json, Schema, Values, Version, endpoint, parts
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.identity import policy
from provisioning.images import selectors, services
from provisioning.images.models import Image
from provisioning.images.records import protections
from provisioning.images.records.changes import Change
from provisioning.images.records.fields import BASE, READ_ONLY

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


def _image(context: RequestContext, image_id: str) -> Image:
    """Return an image that the caller may see in the Image API."""
    policy.enforce(context, "get_image")
    try:
        return selectors.image_for(context, image_id)
    except NotFoundError as error:
        raise NotFoundError("Image not found.") from error


def _links(view: ProxyView, path: str) -> list[dict[str, str]]:
    return [{"rel": "self", "href": f"{view.base}/{path}"}, {"rel": "bookmark", "href": f"{view.bookmark}/{path}"}]


def _brief(view: ProxyView, image: Image) -> Json:
    path = f"images/{image.id}"
    elsewhere = f"{endpoint(view.request, 'image')}/{path}"
    alternate = {"rel": "alternate", "type": "application/vnd.openstack.image", "href": elsewhere}
    return {"id": str(image.id), "name": image.name or None, "links": [*_links(view, path), alternate]}


def _shape(view: ProxyView, image: Image) -> Json:
    metadata = _readable(view, image)
    shape = _brief(view, image) | {
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
        shape["server"] = {"id": server, "links": _links(view, f"servers/{server}")}
    if config is not None:
        shape["OS-DCF:diskConfig"] = "AUTO" if strutils.bool_from_string(config) else "MANUAL"
    return shape


class ImagesView(ProxyView):
    """``GET /images``."""

    rules = {"GET": "get_images"}
    queries = {"GET": listing}
    detailed = False

    def get(self, request: Request) -> Json:
        """List the images that the Image API would list for the caller."""
        filters, page = _filters(self.checked_query()), LIST_PAGES.read(request)
        found = selectors.images_for(self.context, filters, limit=page.limit, marker=page.marker)
        shape = _shape if self.detailed else _brief
        answer: Json = {"images": [shape(self, image) for image in found]}
        url = f"{self.base}/images{'/detail' if self.detailed else ''}"
        following = LIST_PAGES.links(request, page, [image.id for image in found], url)
        if following:
            answer["images_links"] = following
        return answer


class ImagesDetailView(ImagesView):
    """``GET /images/detail``."""

    detailed = True


def _filters(query: dict[str, list[str]]) -> Json:
    """Convert the filters of the query into filters of the Image service."""
    filters: Values = {}
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


def _readable(view: ProxyView, image: Image) -> Json:
    """Return the properties that the caller may read."""
    return protections.readable(view.context, image.properties)


def _change(context: RequestContext, image: Image, values: Mapping[str, str], removed: Sequence[str] = ()) -> Image:
    """Update properties as the Image API does."""
    for name in values:
        if name in BASE | READ_ONLY:
            raise InvalidInputError(f"{name} is an attribute of images, not metadata.", field=name)
    changes = [Change("remove", name) for name in removed]
    changes += [Change("add", name, value) for name, value in values.items()]
    return services.patch(context, image.id, changes)


def _replace(context: RequestContext, image_id: str, values: Mapping[str, str]) -> Image:
    image = _image(context, image_id)
    known = protections.readable(context, image.properties)
    return _change(context, image, values, [name for name in known if name not in values])


def _remove(context: RequestContext, image_id: str, key: str) -> None:
    image = _image(context, image_id)
    if key not in protections.readable(context, image.properties):
        raise NotFoundError(_MISSING)
    _change(context, image, {}, [key])


_MISSING = "Metadata item was not found"
_METADATA = Entries(
    name="metadata",
    item="meta",
    find=_image,
    values=_readable,
    schema=METADATA,
    merge=lambda context, image_id, specified: _change(context, _image(context, image_id), specified),
    replace=_replace,
    remove=_remove,
    missing=_MISSING,
)
PARTS = parts(
    ProxyView,
    "images/{image_id}",
    {
        "GET": Call(_image, "get_image", name="image", shape=_shape),
        "DELETE": Call(
            lambda context, image_id: services.delete(context, _image(context, image_id).id),
            "delete_image",
            "Delete an image, as the Image API does.",
        ),
    },
) | parts(
    ProxyView,
    "images/{image_id}/metadata",
    {
        "GET": _METADATA.all("get_image"),
        "POST": _METADATA.merging(
            "modify_image", "Add or update items; items that the body does not contain are kept."
        ),
        "PUT": _METADATA.replacing("modify_image"),
        "GET /{key}": _METADATA.one("get_image"),
        "PUT /{key}": _METADATA.setting("modify_image"),
        "DELETE /{key}": _METADATA.removing("modify_image"),
    },
    last_version=(2, 38),
)
