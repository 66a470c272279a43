"""Cached images of hosts, by their audits; only differences from the previous audit are written."""

import uuid
from collections.abc import Iterable
from itertools import islice

from django.db import IntegrityError, transaction

from provisioning.common.values.ids import read_id
from provisioning.hosts.models import CachedImage

MOST = 1000
"""Limit of recorded images for each host."""


def keep(host_id: uuid.UUID, names: Iterable[str]) -> None:
    """Record a host's cached images; names that are not image ids are ignored, and so is a host that was deleted."""
    has = {parsed for text in islice(names, MOST) if (parsed := read_id(text)) is not None}
    rows = CachedImage.objects.filter(host_id=host_id)
    known = set(rows.values_list("image_id", flat=True))
    gone, new = known - has, has - known
    if gone:
        rows.filter(image_id__in=gone).delete()
    if new:
        try:
            with transaction.atomic():
                CachedImage.objects.bulk_create(
                    [CachedImage(host_id=host_id, image_id=image_id) for image_id in sorted(new)],
                    ignore_conflicts=True,
                )
        except IntegrityError:
            return
