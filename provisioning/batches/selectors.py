"""Batches of the caller."""

import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from django.db.models import DateTimeField, Q, QuerySet, UUIDField
from django.utils import timezone

from provisioning.batches.models import Batch, BatchItem
from provisioning.common.context import RequestContext
from provisioning.common.database.prepared import Prepared
from provisioning.common.errors import NotFoundError
from provisioning.common.values.ids import NOBODY

SHOWN = 5
"""Maximum number of batches in the tray."""
SHOWN_ITEMS = 10
"""Maximum number of items that are named for one batch in the tray."""
SUCCESS_SHOWN = timedelta(minutes=2)
"""Time for which a batch without refusals stays in the tray."""
UNSUCCESSFUL = (BatchItem.State.REFUSED, BatchItem.State.FAILED)


@dataclass(frozen=True, slots=True)
class InTray:
    """A batch in the tray, with the first of its items that were refused or failed."""

    batch: Batch
    unsuccessful: list[BatchItem] = field(default_factory=list)


def in_tray(context: RequestContext) -> list[InTray]:
    """Return the caller's unfinished batches and recent results that are not dismissed, newest first."""
    batches = _IN_TRAY(
        user_id=context.user_id or NOBODY,
        project_id=context.project_id or NOBODY,
        since=timezone.now() - SUCCESS_SHOWN,
    )
    with_trouble = [batch.id for batch in batches if batch.unsuccessful]
    items: dict[uuid.UUID, list[BatchItem]] = defaultdict(list)
    for key in with_trouble:
        rows = BatchItem.objects.filter(batch_id=key, state__in=UNSUCCESSFUL).order_by("position")
        items[key] = list(rows[:SHOWN_ITEMS])
    return [InTray(batch, items[batch.id]) for batch in batches]


def batches_for(context: RequestContext) -> QuerySet[Batch]:
    """Return the caller's batches in the project, newest first."""
    return _own(context)


def batch_for(context: RequestContext, batch_id: uuid.UUID) -> Batch:
    """Return a batch of the caller in the project. Raises NotFoundError."""
    batch = _own(context).filter(pk=batch_id).first()
    if batch is None:
        raise NotFoundError("This action was not found.")
    return batch


def items_of(batch: Batch) -> Sequence[BatchItem]:
    """Return the items, those that were refused or failed first."""
    rows = list(batch.items.order_by("position"))
    return sorted(rows, key=lambda item: item.state not in UNSUCCESSFUL)


def _own(context: RequestContext) -> QuerySet[Batch]:
    return _of(context.user_id or NOBODY, context.project_id or NOBODY)


def _of(user_id: uuid.UUID, project_id: uuid.UUID) -> QuerySet[Batch]:
    return Batch.objects.filter(user_id=user_id, project_id=project_id).order_by("-created_at")


_IN_TRAY = Prepared(
    lambda user_id, project_id, since: _of(user_id, project_id).filter(
        Q(finished_at=None) | Q(unsuccessful__gt=0) | Q(finished_at__gt=since), dismissed_at=None
    )[:SHOWN],
    user_id=UUIDField(),
    project_id=UUIDField(),
    since=DateTimeField(),
)
