"""Reads the configured index, verifies it, and stores it for all processes."""

import logging
from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from provisioning.catalogue.errors import CatalogueError
from provisioning.catalogue.index.entries import read
from provisioning.catalogue.index.reading import NONE, is_address, signed_index
from provisioning.catalogue.models import CatalogueIndex
from provisioning.common.errors import NovellaError

RETRY = timedelta(minutes=10)
"""Time until the next download after a failed one."""

log = logging.getLogger(__name__)


def is_due() -> bool:
    """Return whether the index should be read now. Only an index at an address has an interval; all others are always
    due.
    """
    if settings.CATALOGUE == NONE:
        return False
    row = CatalogueIndex.objects.filter(source=settings.CATALOGUE).only("fault", "read_at").first()
    if row is None or not is_address(settings.CATALOGUE):
        return True
    interval = timedelta(seconds=settings.CATALOGUE_INTERVAL)
    return timezone.now() - row.read_at >= (min(RETRY, interval) if row.fault else interval)


def refresh() -> CatalogueIndex:
    """Read and store the index. After an error the last valid index of the same source stays in use, with ``fault``.

    An index that is older than the index in use is refused, so that a replayed index does not restore old images.
    """
    source, now = settings.CATALOGUE, timezone.now()
    row = CatalogueIndex.objects.filter(source=source).first() or CatalogueIndex(source=source)
    before = (row.document, row.key, row.fault)
    try:
        if source == NONE:
            raise CatalogueError("The catalogue is switched off: NOVELLA_CATALOGUE is none.")
        content, row_key = signed_index(source)
        index = read(content, source if is_address(source) else "")
        if row.updated is not None and row.document and index.updated < row.updated:
            raise CatalogueError(
                f"The index of {index.updated:%Y-%m-%d %H:%M} UTC is older than the one in use"
                f" ({row.updated:%Y-%m-%d %H:%M} UTC)."
            )
        row.document, row.key, row.updated, row.fault = content.decode(), row_key, index.updated, ""
    except NovellaError as error:
        row.fault = error.message
        if row.fault != before[2]:
            log.warning("The image catalogue cannot be read: %s", error.message)
    if (row.document, row.key, row.fault) != before or is_address(source) or row.read_at is None:
        values = {name: getattr(row, name) for name in ("source", "document", "key", "updated", "fault")}
        row, _ = CatalogueIndex.objects.update_or_create(pk=1, defaults={**values, "read_at": now})
    return row
