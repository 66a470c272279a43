"""The catalogue as a caller sees it: its entries, and the images that were added from them."""

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from django.conf import settings
from django.db.models import Q, QuerySet

from provisioning.catalogue.index.entries import Entry, Index, read
from provisioning.catalogue.index.reading import BUILT_IN, NONE, is_address
from provisioning.catalogue.models import CatalogueImage, CatalogueIndex
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.common.values.ids import NOBODY
from provisioning.images.models import Image, ImageTask


class State(StrEnum):
    """The state of an entry for a project."""

    ABSENT = "not added"
    FETCHING = "fetching"
    ADDED = "added"
    NEWER = "newer version available"


@dataclass(frozen=True)
class Offer:
    """An entry with its state. ``fault`` is the reason of the last failure."""

    entry: Entry
    state: State = State.ABSENT
    image: Image | None = None
    """The image of this version, or with ``NEWER`` of an earlier version."""
    version: str = ""
    """The version of ``image``."""
    for_all: bool = False
    """Whether ``image`` is for all projects."""
    done: int = 0
    """Bytes that have arrived."""
    total: int | None = None
    """Bytes to download, None while unknown."""
    fault: str = ""

    @property
    def percent(self) -> int:
        """The progress of a download."""
        return min(100 * self.done // self.total, 100) if self.total else 0


@dataclass(frozen=True)
class Catalogue:
    """The catalogue; without entries if no valid index was read. ``fault``: why the last attempt to read it failed."""

    enabled: bool
    name: str
    updated: datetime | None
    read_at: datetime | None
    fault: str
    offers: list[Offer]


def current_index() -> tuple[CatalogueIndex | None, Index | None]:
    """Return the row of the index, and the index if it comes from the configured source and its key is trusted."""
    row = CatalogueIndex.objects.filter(source=settings.CATALOGUE).first()
    if row is None or not row.document or settings.CATALOGUE == NONE:
        return row, None
    if row.source != BUILT_IN and row.key not in settings.CATALOGUE_KEYS:
        return row, None
    return row, read(row.document.encode(), row.source if is_address(row.source) else "")


def entry_of(entry_id: str) -> Entry:
    """Return an entry of the index. Raises NotFoundError."""
    _, index = current_index()
    offered = next((entry for entry in (index.images if index else ()) if entry.id == entry_id), None)
    if offered is None:
        raise NotFoundError(f"The catalogue has no image {entry_id[:64]}.")
    return offered


def catalogue_for(context: RequestContext, only: Collection[str] | None = None) -> Catalogue:
    """Return the catalogue with all entries, or with the entries ``only`` (ids), and the caller's images of each."""
    row, index = current_index()
    entries = [entry for entry in (index.images if index else ()) if only is None or entry.id in only]
    return Catalogue(
        enabled=settings.CATALOGUE != NONE,
        name=index.name if index else "",
        updated=row.updated if row and index else None,
        read_at=row.read_at if row else None,
        fault=row.fault if row else "",
        offers=_offers(context, entries),
    )


def offer_for(context: RequestContext, entry_id: str) -> Offer:
    """Return one entry. Raises NotFoundError."""
    return _offers(context, [entry_of(entry_id)])[0]


def entries_of_images(image_ids: Iterable[uuid.UUID]) -> set[str]:
    """Return the ids of the entries that the images were added from."""
    return set(CatalogueImage.objects.filter(image_id__in=list(image_ids)).values_list("entry", flat=True))


def added(project_id: uuid.UUID | None) -> QuerySet[CatalogueImage]:
    """Return the rows of images for all projects and for one project."""
    return CatalogueImage.objects.filter(Q(project_id=None) | Q(project_id=project_id or NOBODY))


def is_live(row: CatalogueImage) -> bool:
    """Return whether the image of a row exists."""
    return row.image is not None and row.image.status != Image.Status.DELETED


def _offers(context: RequestContext, entries: list[Entry]) -> list[Offer]:
    rows: dict[str, list[CatalogueImage]] = {}
    if entries:
        records = added(context.project_id).filter(entry__in=[entry.id for entry in entries]).select_related("image")
        for row in records.order_by("project_id", "pk"):
            rows.setdefault(row.entry, []).append(row)
    waiting = [each.task_id for some in rows.values() for each in some if each.task_id and _is_fetching(each)]
    tasks = {task.pk: task for task in ImageTask.objects.filter(pk__in=waiting)} if waiting else {}
    return [_offer(entry, rows.get(entry.id, []), tasks) for entry in entries]


def _offer(entry: Entry, rows: list[CatalogueImage], tasks: dict[uuid.UUID, ImageTask]) -> Offer:
    same = [row for row in rows if row.version == entry.version]
    live = sorted(
        (row for row in same if is_live(row)), key=lambda row: (_is_fetching(row), row.project_id is not None)
    )
    if live:
        row, task = live[0], tasks.get(live[0].task_id or NOBODY)
        state = State.FETCHING if _is_fetching(row) else State.ADDED
        done, total = (task.done, task.total) if task else (0, None)
        return Offer(entry, state, row.image, row.version, row.project_id is None, done, total)
    fault = next((row.fault for row in same if row.fault), "")
    older = [row for row in rows if is_live(row) and not _is_fetching(row) and row.replaced_at is None]
    if older:
        newest = older[-1]
        return Offer(entry, State.NEWER, newest.image, newest.version, newest.project_id is None, fault=fault)
    return Offer(entry, fault=fault)


def _is_fetching(row: CatalogueImage) -> bool:
    return is_live(row) and row.image is not None and row.image.status == Image.Status.IMPORTING
