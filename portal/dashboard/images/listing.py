"""The list of images."""

import uuid
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from django.db.models import F, Q
from django.utils.html import format_html

from portal.common import statuses
from portal.dashboard.images.rows import announcement_of
from portal.dashboard.images.rows import rows_for as rows_of
from portal.dashboard.lists import cells, columns
from portal.dashboard.lists.bulk import bulk_actions
from portal.dashboard.lists.declaration import Column, Empty, Filter, HeadLink, RecordList, fixed, same, searched
from portal.dashboard.words import wording
from provisioning.common.context import RequestContext
from provisioning.common.values.ids import NOBODY
from provisioning.events.selectors import LoggedEvent
from provisioning.images import selectors
from provisioning.images.models import Image

IMAGE = "image"
"""The kind of events that change images."""
Row = dict[str, Any]
BUTTONS = (
    ("can_accept", "check-lg", "Accept", "dashboard:image_accept", True),
    ("can_decline", "x-lg", "Decline", "dashboard:image_decline", True),
    ("can_resume", "upload", "Resume", "dashboard:image_resume", False),
    ("can_equip", "cpu", "Hardware", "dashboard:image_hardware", False),
    ("can_share", "people", "Share", "dashboard:image_share", False),
    ("can_delete", "trash", "Delete", "dashboard:image_delete", True),
)
"""Key of a row, icon, title and URL name of a button, and whether it asks for confirmation."""


def _changed(events: Sequence[LoggedEvent]) -> Collection[uuid.UUID]:
    return {uuid.UUID(event.payload["id"]) for event in events if event.kind == IMAGE}


def _announced(events: Sequence[LoggedEvent]) -> Collection[uuid.UUID]:
    """Return the images whose data has changed; screen readers do not announce changes of a record."""
    return _changed([event for event in events if not event.payload.get("record")])


def _name(row: Row) -> object:
    image = row["image"]
    return cells.name(image.name or image.id) + cells.sub(image.id, "mono xsmall")


def _status(row: Row) -> object:
    bar = cells.NOTHING
    if row["percent"] is not None:
        bar = format_html(
            ' <progress class="upload-bar" max="100" value="{}" aria-label="Progress of {}">{} %</progress>',
            row["percent"],
            row["image"].name,
            row["percent"],
        )
    return cells.status(row["status"]) + bar + cells.sub(cells.bdi(row["reason"]))


def _format(row: Row) -> object:
    return cells.join("", (row["image"].disk_format or "-", cells.sub(row["hardware"])))


def _needs(row: Row) -> object:
    image = row["image"]
    memory = wording.mebibytes(image.min_ram) if image.min_ram else ""
    return ", ".join(filter(None, (memory, f"{image.min_disk} GiB disk" if image.min_disk else "")))


def _visibility(row: Row) -> object:
    tags = (("yours", row["mine"]), ("protected", row["image"].protected))
    return cells.join(" ", (row["seen_by"], *(cells.tag(text) for text, shown in tags if shown)))


def _size(row: Row) -> object:
    size = row["image"].size
    return "-" if size is None else wording.size_in_bytes(size)


def _buttons(row: Row) -> object:
    image = row["image"]
    return cells.join(
        "",
        (
            cells.button(sign, title, image.name, to, image.id, asks=asks)
            for may, sign, title, to, asks in BUTTONS
            if row.get(may)
        ),
    )


def _rows(context: RequestContext, images: Sequence[Image]) -> list[Row]:
    return rows_of(context, images)


def _visible(context: RequestContext, value: str) -> Q:
    own = Q(project_id=context.project_id or NOBODY)
    return {"own": own, "public": Q(visibility=Image.Visibility.PUBLIC), "shared": ~own & _SHARED}[value]


_SHARED = Q(visibility=Image.Visibility.SHARED)


def _formats(context: RequestContext) -> Iterable[tuple[str, str]]:
    images = selectors.listed_images(context).exclude(disk_format=None).exclude(disk_format="")
    return [
        (str(each), str(each))
        for each in images.order_by("disk_format").values_list("disk_format", flat=True).distinct()
    ]


IMAGES = RecordList[Image](
    key="images",
    model=Image,
    one="image",
    noun="images",
    rule="get_images",
    row_id="image",
    records=lambda context, _: selectors.listed_images(context),
    rows=_rows,
    default="-age",
    order=lambda context: (selectors.offered_first(context), F("created_at").desc()),
    columns=(
        columns.name(_name, lambda row: row["image"].name),
        Column("status", "Status", _status, sort="status", plain=lambda row: row["status"].word, titled=False),
        Column("size", "Size", _size, sort="size", css="num text-nowrap", largest_first=True),
        Column("format", "Format", _format, sort="disk_format"),
        Column("needs", "Needs", _needs, sort=("min_ram", "min_disk"), css="muted"),
        Column("visibility", "Visibility", _visibility, sort="visibility", css="muted"),
        columns.age("image"),
        columns.ident("image"),
    ),
    actions=_buttons,
    search=searched("name"),
    filters=(
        Filter(
            "whose",
            "Owner",
            fixed(("own", "Own"), ("public", "Public"), ("shared", "Shared with us")),
            _visible,
            quick=True,
        ),
        columns.status_filter(statuses.IMAGE_STATUS),
        Filter("disk_format", "Format", _formats, same("disk_format"), closed=False),
    ),
    bulk=bulk_actions("images"),
    kinds=frozenset({IMAGE}),
    changed=_changed,
    announced=_announced,
    announcement=announcement_of,
    named=lambda image: image.name or str(image.id),
    empty=Empty(
        "disc",
        "No images yet",
        "An image is a disk to start from: a cloud image of Debian, Ubuntu or Alma in qcow2 or raw format works as it "
        "is, and cloud-init adds your key.",
    ),
    create=HeadLink(
        "Upload image", "dashboard:image_upload", "upload", rule="add_image", first="Upload the first image"
    ),
    beside=(HeadLink("Image catalogue", "dashboard:catalogue", "journals"),),
)
