"""Images as a caller may see them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from django.db.models import Q, QuerySet

from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.common.ids import read_id
from provisioning.common.ordering import Sort, behind, order_by
from provisioning.identity import policy
from provisioning.images import store
from provisioning.images.errors import NoImageDataError
from provisioning.images.inspection import DISK_FORMATS
from provisioning.images.models import Image

NOBODY = uuid.UUID(int=0)
SORT_KEYS = frozenset({"name", "status", "container_format", "disk_format", "size", "id", "created_at", "updated_at"})
"""Columns that a list can be sorted by; Glance's own."""
COLUMNS = {"owner": "project_id", "protected": "protected", "size_min": "size__gte", "size_max": "size__lte"}
"""Filters with one value, and what they compare."""
TIMES = {
    "eq": "{}".format,
    "neq": "{}".format,
    "gt": "{}__gt".format,
    "gte": "{}__gte".format,
    "lt": "{}__lt".format,
    "lte": "{}__lte".format,
}
"""Glance's comparisons of ``created_at`` and ``updated_at``."""
EXACT = {"status", "container_format", "disk_format", "name", "id"}
"""Filters that compare one column with one of several values."""


NEWEST_FIRST = (Sort("created_at"), Sort("id"))


def visible_images(context: RequestContext) -> QuerySet[Image]:
    """Return every image the caller may open: the project's, public ones and community ones; operators open all."""
    every = Image.objects.exclude(status=Image.Status.DELETED)
    if policy.allows(context, "image:images:list:all_projects"):
        return every
    return every.filter(_own(context) | Q(visibility__in=(Image.Visibility.PUBLIC, Image.Visibility.COMMUNITY)))


def images_for(
    context: RequestContext,
    filters: Mapping[str, Any] | None = None,
    *,
    limit: int | None = None,
    marker: str | uuid.UUID | None = None,
    sort: Sequence[Sort] = NEWEST_FIRST,
) -> list[Image]:
    """Return the images a list shows, newest first unless ``sort`` says otherwise, at most ``limit`` behind ``marker``.

    ``filters``, all optional: ``name status disk_format container_format id`` (lists of values), ``visibility`` (text;
    without it, community images of others stay out), ``owner`` (UUID), ``tags`` (all of them), ``protected`` and
    ``hidden`` (bool; hidden images show only when asked for), ``size_min`` and ``size_max`` (bytes), ``properties``
    (text to text), ``times`` (list of column, comparison of ``TIMES``, moment).
    Raises InvalidInputError for ``marker`` when that image is not there.
    """
    rows = _filtered(context, visible_images(context), dict(filters or {}))
    keys = [*sort, *(extra for extra in NEWEST_FIRST if extra.key not in {part.key for part in sort})]
    if marker is not None:
        rows = rows.filter(behind(_marker(context, marker), keys))
    ordered = rows.order_by(*order_by(keys))
    wanted_tags = set((filters or {}).get("tags", ()))
    wanted_properties = dict((filters or {}).get("properties", {}))
    if not wanted_tags and not wanted_properties:
        return list(ordered[:limit])
    # Tags and properties are JSON, which SQLite cannot search by key; the list is short and read as it streams.
    found = []
    for image in ordered.iterator(chunk_size=200):
        if wanted_tags <= set(image.tags) and wanted_properties.items() <= image.properties.items():
            found.append(image)
            if limit is not None and len(found) == limit:
                break
    return found


def image_for(context: RequestContext, image_id: str | uuid.UUID) -> Image:
    """Return one image; NotFoundError when there is none or it is another project's."""
    found = visible_images(context).filter(pk=_key(image_id)).first()
    if found is None:
        msg = f"No image found with ID {image_id}"
        raise NotFoundError(msg)
    return found


def usable_image_for(context: RequestContext, image_id: str | uuid.UUID) -> Image:
    """Return an image that the project may boot from now.

    An operator boots from no other project's private image either.  Raises InvalidInputError for ``imageRef`` when
    there is none, when it has no data yet, or when no host opens its format.
    """
    usable = _own(context) | Q(visibility__in=(Image.Visibility.PUBLIC, Image.Visibility.COMMUNITY))
    found = Image.objects.exclude(status=Image.Status.DELETED).filter(usable, pk=_key(image_id)).first()
    if found is None:
        msg = f"Can not find requested image {image_id}"
        raise InvalidInputError(msg, field="imageRef")
    if found.status != Image.Status.ACTIVE:
        msg = f"Image {image_id} is not active."
        raise InvalidInputError(msg, field="imageRef")
    if found.disk_format not in DISK_FORMATS:
        msg = f"Image {image_id} is unacceptable: no host opens the format {found.disk_format}."
        raise InvalidInputError(msg, field="imageRef")
    return found


def usable_images_for(context: RequestContext) -> list[Image]:
    """Return the images to choose from for a launch, by name; community images are used by id only."""
    usable = _own(context) | Q(visibility=Image.Visibility.PUBLIC)
    rows = Image.objects.filter(usable, status=Image.Status.ACTIVE, hidden=False, disk_format__in=DISK_FORMATS)
    return list(rows.order_by("name", "-created_at"))


def open_data(image: Image) -> Path:
    """Return the file with an image's bits; NoImageDataError before they are there."""
    path = store.path_of(image.id)
    if image.status != Image.Status.ACTIVE or not path.exists():
        msg = f"Image {image.id} has no data."
        raise NoImageDataError(msg)
    return path


def _filtered(context: RequestContext, rows: QuerySet[Image], filters: dict[str, Any]) -> QuerySet[Image]:
    """Apply the filters that the database can."""
    visibility = filters.get("visibility")
    if visibility is None:
        rows = rows.filter(_own(context) | ~Q(visibility=Image.Visibility.COMMUNITY))
    elif visibility != "all":
        rows = rows.filter(visibility=visibility)
    rows = rows.filter(hidden=filters.get("hidden", False))
    for name in EXACT & filters.keys():
        rows = rows.filter(**{f"{name}__in": filters[name]})
    for name, column in COLUMNS.items():
        if name in filters:
            rows = rows.filter(**{column: filters[name]})
    for column, comparison, moment in filters.get("times", ()):
        rows = (
            rows.exclude(**{column: moment})
            if comparison == "neq"
            else rows.filter(**{TIMES[comparison](column): moment})
        )
    return rows


def _marker(context: RequestContext, marker: str | uuid.UUID) -> Image:
    """Return the image a page begins behind."""
    found = visible_images(context).filter(pk=_key(marker)).first()
    if found is None:
        msg = f"Invalid marker {marker}: there is no such image."
        raise InvalidInputError(msg, field="marker")
    return found


def _own(context: RequestContext) -> Q:
    """Match the caller's project's images; an unscoped caller owns none."""
    return Q(project_id=context.project_id or NOBODY)


def _key(identity: str | uuid.UUID) -> uuid.UUID:
    """Read an id; what is no UUID is the id of nothing."""
    return read_id(identity) or NOBODY
