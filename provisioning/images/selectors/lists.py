"""Lists of images: filters that the database answers, sorting, pages."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import Q, QuerySet

from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.common.ordering import Sort, behind, order_by
from provisioning.images import protections
from provisioning.images.digests import digest
from provisioning.images.models import Image, ImageMember, ImageProperty, ImageTag
from provisioning.images.selectors.access import FOR_ALL, key, own, sees_all, shared_with, visible_images

SORT_KEYS = frozenset({"name", "status", "container_format", "disk_format", "size", "id", "created_at", "updated_at"})
"""Columns that a list can be sorted by; Glance's own."""
EXACT = frozenset({"status", "container_format", "disk_format", "name", "id"})
"""Filters that compare one column with one of several values."""
NUMBERS = ("size", "virtual_size", "min_disk", "min_ram")
"""Columns that a filter compares with a number: equal, or from (``_min``) and to (``_max``)."""
COLUMNS = (
    {"owner": "project_id", "protected": "protected", "hidden": "hidden"}
    | {name: name for name in ("checksum", "os_hash_algo", "os_hash_value", *NUMBERS)}
    | {f"{name}_min": f"{name}__gte" for name in NUMBERS}
    | {f"{name}_max": f"{name}__lte" for name in NUMBERS}
)
"""Filters with one value, and what they compare."""
NEWEST_FIRST = (Sort("created_at"), Sort("id"))
SECOND = datetime.timedelta(seconds=1)


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
    without it, community images of others stay out), ``member_status`` (text; of images shared with the project those
    accepted show without it), ``tags`` (all of them), ``hidden`` (bool; hidden images show only when asked for), what
    ``COLUMNS`` names (``owner`` is a UUID, sizes are bytes), ``properties`` (text to text), ``times`` (list of column,
    comparison, moment in whole seconds).  Raises InvalidInputError for ``marker`` when that image is not there.
    """
    rows = _filtered(context, {"hidden": False, **(filters or {})})
    keys = [*sort, *(extra for extra in NEWEST_FIRST if extra.key not in {part.key for part in sort})]
    if marker is not None:
        rows = rows.filter(behind(_marker(context, marker), keys))
    return list(rows.order_by(*order_by(keys))[:limit])


def _filtered(context: RequestContext, filters: Mapping[str, Any]) -> QuerySet[Image]:
    rows = _listed(context, filters.get("visibility"), filters.get("member_status", ImageMember.Status.ACCEPTED))
    for name in EXACT & filters.keys():
        rows = rows.filter(**{f"{name}__in": filters[name]})
    rows = rows.filter(**{column: filters[name] for name, column in COLUMNS.items() if name in filters})
    for column, comparison, moment in filters.get("times", ()):
        rows = rows.filter(_at(column, comparison, moment))
    for tag in filters.get("tags", ()):
        rows = rows.filter(pk__in=ImageTag.objects.filter(tag=tag).values("image_id"))
    wanted = filters.get("properties", {})
    if len(protections.readable(context, wanted)) < len(wanted):
        return rows.none()  # a filter would tell what the caller may not read
    for name, value in wanted.items():
        found = ImageProperty.objects.filter(name=name, digest=digest(value))
        rows = rows.filter(pk__in=found.values("image_id"))
    return rows


def _listed(context: RequestContext, visibility: str | None, member_status: str) -> QuerySet[Image]:
    """Return the images of a list before any other filter; operators see those shared with anybody."""
    rows = Image.objects.exclude(status=Image.Status.DELETED)
    if not sees_all(context):
        status = None if member_status == "all" else member_status
        rows = rows.filter(own(context) | Q(visibility__in=FOR_ALL) | shared_with(context, status))
    if visibility is None:
        return rows.filter(own(context) | ~Q(visibility=Image.Visibility.COMMUNITY))
    return rows if visibility == "all" else rows.filter(visibility=visibility)


def _at(column: str, comparison: str, moment: datetime.datetime) -> Q:
    """Compare a time as the API shows it, in whole seconds: ``eq`` is anything within that second."""
    before, after = Q(**{f"{column}__lt": moment}), Q(**{f"{column}__gte": moment + SECOND})
    return {"eq": ~before & ~after, "neq": before | after, "gt": after, "gte": ~before, "lt": before, "lte": ~after}[
        comparison
    ]


def _marker(context: RequestContext, marker: str | uuid.UUID) -> Image:
    """Return the image a page begins behind."""
    found = visible_images(context).filter(pk=key(marker)).first()
    if found is None:
        msg = f"Invalid marker {str(marker)[:64]}: there is no such image."
        raise InvalidInputError(msg, field="marker")
    return found
