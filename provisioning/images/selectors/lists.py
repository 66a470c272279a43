"""Lists of images, with filters, sorting and pages."""

import datetime
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.db.models.expressions import OrderBy

from provisioning.common.context import RequestContext
from provisioning.common.lists.listing import Listing, Part, Sort
from provisioning.images.models import Image, ImageMember, ImageProperty, ImageTag
from provisioning.images.records import protections
from provisioning.images.records.properties import digest
from provisioning.images.selectors.access import FOR_ALL, own, sees_all, shared_with, visible_images

SORT_KEYS = frozenset({"name", "status", "container_format", "disk_format", "size", "id", "created_at", "updated_at"})
"""Columns that a list can be sorted by, as in Glance."""
NUMBERS = ("size", "virtual_size", "min_disk", "min_ram")
"""Columns with numeric filters: equal, minimum (``_min``) and maximum (``_max``)."""
NEWEST_FIRST = (Sort("created_at"), Sort("id"))
SECOND = datetime.timedelta(seconds=1)


def images_for(
    context: RequestContext,
    filters: Mapping[str, Any] | None = None,
    *,
    limit: int | None = None,
    marker: str | uuid.UUID | None = None,
    sort: Sequence[Sort] = (),
) -> list[Image]:
    """Return one page of images, by default the newest first.

    ``filters``, all optional:

    * ``name status disk_format container_format id``: lists of values
    * ``visibility``: text; without it, community images of other projects are omitted
    * ``member_status``: text; without it, images shared with the project are only listed if accepted
    * ``tags``: the image must have all of them
    * ``hidden``: bool; hidden images are only listed if it is true
    * ``properties``: name → text
    * ``times``: list of (column, comparison, time in whole seconds)
    * the filters of ``IMAGES``: ``owner`` is a UUID, sizes are in bytes

    Raises InvalidInputError for an unknown ``marker``.
    """
    conditions: dict[str, Any] = {"hidden": False, **(filters or {})}
    rows = _listed(
        context, conditions.pop("visibility", None), conditions.pop("member_status", ImageMember.Status.ACCEPTED)
    )
    requested = conditions.get("properties", {})
    if len(protections.readable(context, requested)) < len(requested):
        rows = rows.none()  # a filter would reveal values that the caller may not read
    part = Part([*conditions.items()], sort, limit, marker)
    return IMAGES.page(rows, part, among=visible_images(context))


def listed_images(context: RequestContext) -> QuerySet[Image]:
    """Return the images of ``images_for`` without filters, and those that are offered to the caller's project."""
    rows = _listed(context, None, ImageMember.Status.ACCEPTED) | Image.objects.filter(_offered(context))
    return rows.exclude(status=Image.Status.DELETED).filter(hidden=False)


def offered_first(context: RequestContext) -> OrderBy:
    """Return the ordering that puts images that are offered to the caller's project before others."""
    return ExpressionWrapper(_offered(context), output_field=BooleanField()).desc()


def _offered(context: RequestContext) -> Q:
    return shared_with(context, ImageMember.Status.PENDING) & ~own(context)


def _listed(context: RequestContext, visibility: str | None, member_status: str) -> QuerySet[Image]:
    """Return the images of a list before other filters. Operators see images shared with any project."""
    rows = Image.objects.exclude(status=Image.Status.DELETED)
    if not sees_all(context):
        status = None if member_status == "all" else member_status
        rows = rows.filter(own(context) | Q(visibility__in=FOR_ALL) | shared_with(context, status))
    if visibility is None:
        return rows.filter(own(context) | ~Q(visibility=Image.Visibility.COMMUNITY))
    return rows if visibility == "all" else rows.filter(visibility=visibility)


def _at(column: str, comparison: str, moment: datetime.datetime) -> Q:
    """Compare a time as the API shows it, in whole seconds: ``eq`` matches any time within that second."""
    before, after = Q(**{f"{column}__lt": moment}), Q(**{f"{column}__gte": moment + SECOND})
    return {"eq": ~before & ~after, "neq": before | after, "gt": after, "gte": ~before, "lt": before, "lte": ~after}[
        comparison
    ]


def _at_times(times: Iterable[tuple[str, str, datetime.datetime]]) -> Q:
    return Q(*(_at(*time) for time in times))


def _tagged(tags: Iterable[str]) -> Q:
    return Q(*(Q(pk__in=ImageTag.objects.filter(tag=tag).values("image_id")) for tag in tags))


def _with_properties(requested: Mapping[str, str]) -> Q:
    matches = (ImageProperty.objects.filter(name=name, digest=digest(value)) for name, value in requested.items())
    return Q(*(Q(pk__in=rows.values("image_id")) for rows in matches))


IMAGES = Listing[Image](
    order=NEWEST_FIRST,
    filters={
        **{name: f"{name}__in" for name in ("status", "container_format", "disk_format", "name", "id")},
        **{f"{name}_min": f"{name}__gte" for name in NUMBERS},
        **{f"{name}_max": f"{name}__lte" for name in NUMBERS},
        "owner": "project_id",
        "tags": _tagged,
        "times": _at_times,
        "properties": _with_properties,
    },
    no_marker="Invalid marker {marker}: there is no such image.",
)
