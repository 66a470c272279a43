"""Batches: create, carry out, resume and dismiss.

The job of a batch ends each item in one transaction with the service call, so a killed worker neither repeats nor
loses an item: the retried job continues with the first item that is still waiting. A job runs for a few seconds and
then queues its continuation, so that other jobs of the topic also get their turn.
"""

import logging
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db import Error, transaction
from django.db.models import F
from django.utils import timezone

from provisioning.batches.kinds import action_named
from provisioning.batches.kinds.declaration import BatchAction, Kind, Task
from provisioning.batches.kinds.instances import PERMANENT
from provisioning.batches.models import Batch, BatchItem
from provisioning.batches.selectors import batch_for
from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError, ForbiddenError, InvalidInputError, NotFoundError, NovellaError
from provisioning.common.processes import tracing
from provisioning.events import services as events
from provisioning.events.selectors import of_user
from provisioning.identity import policy
from provisioning.identity.records import owner_locks
from provisioning.identity.selectors.acting import context_of_user
from provisioning.jobs.queue.cast import cast
from provisioning.jobs.selectors import waiting_jobs

TOPIC, JOB = "conductor", "batches.run"
MOST_ITEMS = 1000
"""Maximum number of resources of one batch."""
MOST_AT_WORK = 10
"""Maximum number of unfinished batches of a user in a project."""
MOST_OF_USER = 30
"""Maximum number of batches of a user in a project that are kept; the oldest finished ones are deleted."""
ROUND = 4.0
"""Seconds after which a job queues its continuation."""
ANNOUNCE_EVERY = 0.4
"""Seconds between two events about the progress of a batch."""
LOST_AFTER = timedelta(seconds=60)
"""Time without progress after which a batch is queued again, if its message was lost."""
NOT_HERE = "It was deleted, or is not in this project."
BROKE = "An internal error occurred. The log of the cloud has the details."
NO_RIGHTS = "You no longer have the rights for this action."
EVENT = "batch"
"""The kind of events about batches."""
_State = BatchItem.State
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """A request: names of the kind and action, ids in the order of the work, and arguments.

    ``permanent``: ids of deleted resources that the user wants to delete permanently. A second request with the same
    ``key`` returns the first batch.
    """

    kind: str
    action: str
    ids: Sequence[str]
    arguments: dict[str, str] = field(default_factory=dict)
    permanent: Sequence[str] = ()
    key: uuid.UUID = field(default_factory=uuid.uuid4)


def create(context: RequestContext, request: BatchRequest) -> Batch:
    """Store a batch and queue its job. Ids that the caller cannot see become refused items.

    Raises NotFoundError for an unknown action, InvalidInputError for its argument or the number of ids, ForbiddenError,
    ConflictError for too many unfinished batches.
    """
    declared = action_named(request.kind, request.action)
    if declared is None:
        raise NotFoundError(f"There is no action {request.action[:40]!r} for {request.kind[:40]!r}.")
    kind, action = declared
    if context.user_id is None or context.project_id is None or context.is_delegated:
        raise ForbiddenError("Actions on many resources require a user in a project, without delegated rights.")
    policy.enforce(context, action.rule)
    ids = list(dict.fromkeys(request.ids))
    if not 1 <= len(ids) <= MOST_ITEMS:
        raise InvalidInputError(f"Select 1 to {MOST_ITEMS:,} {kind.plural}.", field="ids")
    arguments = checked_arguments(action, request.arguments)
    if request.permanent:
        arguments[PERMANENT] = list(request.permanent)
    names = {kind.id_of(record): kind.name_of(record) for record in kind.find(context, ids)}
    with transaction.atomic():
        owner_locks.lock_user(context.user_id)
        mine = Batch.objects.filter(user_id=context.user_id, project_id=context.project_id)
        if (earlier := mine.filter(pk=request.key).first()) is not None:
            return earlier
        if mine.filter(finished_at=None).count() >= MOST_AT_WORK:
            raise ConflictError(
                f"{MOST_AT_WORK} actions on many resources are already running. Wait until one has ended."
            )
        kept = mine.exclude(finished_at=None).order_by("-created_at").values_list("pk", flat=True)
        Batch.objects.filter(pk__in=list(kept[MOST_OF_USER - MOST_AT_WORK :])).delete()
        batch = Batch.objects.create(
            id=request.key,
            user_id=context.user_id,
            project_id=context.project_id,
            kind=kind.name,
            action=action.name,
            arguments=arguments,
            total=len(ids),
            unsuccessful=len(ids) - len(names),
            moved_at=timezone.now(),
        )
        BatchItem.objects.bulk_create(_items(batch, ids, names))
        cast(TOPIC, JOB, batch_id=str(batch.id))
        announce(batch)
    return batch


def checked_arguments(action: BatchAction, specified: dict[str, str]) -> dict[str, Any]:
    """Return the action's arguments. Raises InvalidInputError."""
    requested = action.argument
    if requested is None:
        return {}
    text = specified.get(requested.name, "").strip()
    if len(text) > requested.longest:
        raise InvalidInputError(f"At most {requested.longest} characters are allowed.", field=requested.name)
    try:
        requested.check(text)
    except InvalidInputError as error:
        raise InvalidInputError(error.message, field=requested.name) from error
    return {requested.name: text}


def _items(batch: Batch, ids: Sequence[str], names: dict[str, str]) -> list[BatchItem]:
    return [
        BatchItem(batch=batch, position=position, resource_id=key, name=names[key][:255])
        if key in names
        else BatchItem(
            batch=batch, position=position, resource_id=key[:255], name=key[:36], state=_State.REFUSED, reason=NOT_HERE
        )
        for position, key in enumerate(ids)
    ]


def run(batch_id: uuid.UUID | str) -> None:
    """Carry out waiting items, in order, for ``ROUND`` seconds. Then queue the remaining items, or finish the batch."""
    batch = Batch.objects.filter(pk=batch_id, finished_at=None).first()
    declared = action_named(batch.kind, batch.action) if batch else None
    if batch is None:
        return
    begun = announced = time.monotonic()
    while (item := _next(batch)) is not None:
        _carry_out(batch, item, declared)
        now = time.monotonic()
        if now - begun > ROUND:
            with transaction.atomic():
                cast(TOPIC, JOB, batch_id=str(batch.id))
                announce(batch)
            return
        if now - announced > ANNOUNCE_EVERY:
            announced = now
            announce(batch)
    _finish(batch)


def _next(batch: Batch) -> BatchItem | None:
    return batch.items.filter(state=_State.WAITING).order_by("position").first()


def _finish(batch: Batch) -> None:
    with transaction.atomic():
        now = timezone.now()
        if Batch.objects.filter(pk=batch.pk, finished_at=None).update(finished_at=now, moved_at=now):
            announce(batch)


def _carry_out(batch: Batch, item: BatchItem, declared: tuple[Kind, BatchAction] | None) -> None:
    """End one item: done, or refused with the reason of the service, or failed after an internal error.

    Errors of the database are raised, so that the job is retried.
    """
    try:
        if declared is None:
            _end(batch, item, _State.REFUSED, "This action no longer exists.")
        else:
            _do(batch, item, *declared)
    except NovellaError as error:
        _end(batch, item, _State.REFUSED, error.message, type(error).__name__)
    except Error:
        raise
    except Exception:
        logger.exception("Item %s of batch %s failed.", item.position, batch.id)
        _end(batch, item, _State.FAILED, BROKE)


@when_broken_off
def _do(batch: Batch, item: BatchItem, kind: Kind, action: BatchAction) -> None:
    """Claim the item and call the service, in one transaction. Another worker may have claimed the item."""
    with transaction.atomic():
        if not _end(batch, item, _State.DONE):
            return
        context = context_of_user(batch.user_id, batch.project_id, request_id=tracing.request_id.get().strip("-"))
        if context is None:
            raise ForbiddenError(NO_RIGHTS)
        record = next(iter(kind.find(context, [item.resource_id])), None)
        if record is None:
            if action.deletes:
                return  # it was deleted in the meantime
            raise NotFoundError(NOT_HERE)
        if not policy.allows(context, action.rule, kind.owners(record)):
            raise ForbiddenError(NO_RIGHTS)
        action.run(Task(context, record, batch.arguments))


def _end(batch: Batch, item: BatchItem, state: BatchItem.State, reason: str = "", error: str = "") -> bool:
    """End a waiting item and count it; return False if it is no longer waiting."""
    with transaction.atomic():
        waiting = BatchItem.objects.filter(pk=item.pk, state=_State.WAITING)
        if not waiting.update(state=state, reason=reason, error=error):
            return False
        column = "done" if state == _State.DONE else "unsuccessful"
        Batch.objects.filter(pk=batch.pk).update(moved_at=timezone.now(), **{column: F(column) + 1})
    return True


def give_up(reason: str, batch_id: str) -> None:
    """Set the item at which the job's worker died or failed repeatedly to failed, and queue the remaining items."""
    batch = Batch.objects.filter(pk=batch_id, finished_at=None).first()
    if batch is None:
        return
    logger.error("Batch %s: %s", batch_id, reason)
    with transaction.atomic():
        item = _next(batch)
        if item is not None:
            _end(batch, item, _State.FAILED, BROKE)
        cast(TOPIC, JOB, batch_id=str(batch.id))


def resume() -> int:
    """Queue unfinished batches without a message again; return how many. For a periodic job."""
    late = list(Batch.objects.filter(finished_at=None, moved_at__lt=timezone.now() - LOST_AFTER))
    if not late:
        return 0
    queued = {job.payload.get("batch_id") for job in waiting_jobs(JOB)}
    lost = [batch for batch in late if str(batch.id) not in queued]
    for batch in lost:
        with transaction.atomic():
            Batch.objects.filter(pk=batch.pk).update(moved_at=timezone.now())
            cast(TOPIC, JOB, batch_id=str(batch.id))
    return len(lost)


def dismiss(context: RequestContext, batch_id: uuid.UUID) -> None:
    """Remove a finished batch from the user's tray. Raises NotFoundError, ConflictError while it is running."""
    with transaction.atomic():
        batch = batch_for(context, batch_id)
        if batch.finished_at is None:
            raise ConflictError("The action is still running.")
        Batch.objects.filter(pk=batch_id, dismissed_at=None).update(dismissed_at=timezone.now())
        announce(batch)


def undo(context: RequestContext, batch_id: uuid.UUID) -> Batch:
    """Start the reverse action for the resources that a finished batch has changed, and remove it from the tray.

    Idempotent. Raises NotFoundError, ConflictError while the batch is running or if its action has no reverse, and the
    errors of ``create``.
    """
    with transaction.atomic():
        batch = batch_for(context, batch_id)
        declared = action_named(batch.kind, batch.action)
        if declared is None or not declared[1].undone_by:
            raise ConflictError("The action cannot be undone.")
        dismiss(context, batch_id)
        ids = batch.items.filter(state=_State.DONE).order_by("position").values_list("resource_id", flat=True)
        key = uuid.uuid5(batch.id, "undo")
        return create(context, BatchRequest(batch.kind, declared[1].undone_by, list(ids), key=key))


def announce(batch: Batch) -> None:
    """Wake the pages of the batch's user."""
    payload = {"id": str(batch.id), "project_id": str(batch.project_id)}
    events.record(of_user(batch.user_id), EVENT, payload)
