"""Records of the actions on an instance and of their steps."""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache

from django.db.models import Case, CharField, DateTimeField, TextField, UUIDField, Value, When
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.database.prepared import Prepared, PreparedInsert, PreparedUpdate
from provisioning.compute.models import (
    Instance,
    InstanceAction,
    InstanceActionEvent,
    InstanceFault,
    Migration,
    SchedulingDecision,
)
from provisioning.compute.records.migration_records import UNDER_WAY, WAITING

SUCCESS, ERROR = "Success", "Error"
MOST_OF_SERVER = 500
"""Number of finished actions kept for a server, and of faults, scheduling decisions and migrations; the oldest are
removed.
"""
REMOVED_AT_ONCE = 20
"""Maximum number of old records removed with one new action."""


def begin(context: RequestContext, instance_id: uuid.UUID, action: str, started: datetime) -> InstanceAction:
    """Create the action record; a request repeated with the same id gets the existing one.

    Removes the oldest finished actions beyond ``MOST_OF_SERVER``, except the creation, and other old history of the
    server.
    """
    made = begin_all(context, [instance_id], action, started)
    if not made:
        return InstanceAction.objects.get(instance_id=instance_id, request_id=context.request_id, action=action)
    _remove_oldest(instance_id)
    return made[0]


def begin_all(
    context: RequestContext, instance_ids: Iterable[uuid.UUID], action: str, started: datetime
) -> list[InstanceAction]:
    """Create the action records of several instances, except those that exist already; return the new ones."""
    rows = {
        instance_id: InstanceAction(
            instance_id=instance_id,
            request_id=context.request_id,
            action=action,
            user_id=context.user_id,
            project_id=context.project_id,
            started_at=started,
        )
        for instance_id in instance_ids
    }
    made = []
    for key, instance_id in _BEGIN(rows.values()):
        rows[instance_id].pk = key
        made.append(rows[instance_id])
    return made


_BEGIN = PreparedInsert(InstanceAction, unique=("instance", "request_id", "action"), returning=("id", "instance_id"))


def _remove_oldest(instance_id: uuid.UUID) -> None:
    beyond = _beyond(MOST_OF_SERVER)(instance_id=instance_id)
    if not beyond:  # the other tables have a few rows for each action
        return
    InstanceAction.objects.filter(id__in=beyond).delete()
    moves = Migration.objects.exclude(status__in=[*UNDER_WAY, *WAITING])
    for others in (InstanceFault.objects.all(), SchedulingDecision.objects.all(), moves):
        newest = others.filter(instance_id=instance_id).order_by("-id").values_list("id", flat=True)
        old = list(newest[MOST_OF_SERVER : MOST_OF_SERVER + REMOVED_AT_ONCE])
        if old:
            others.filter(id__in=old).delete()


@cache
def _beyond(most: int) -> Prepared[int]:
    """Return the query for finished actions of a server beyond the newest ``most``."""
    return Prepared(
        lambda instance_id: (
            InstanceAction.objects.filter(instance_id=instance_id, counted=True, finished_at__isnull=False)
            .exclude(action="create")
            .order_by("-id")
            .values_list("id", flat=True)[most : most + REMOVED_AT_ONCE]
        ),
        instance_id=UUIDField(),
    )


def current(instance_id: uuid.UUID, action: str) -> InstanceAction | None:
    """Return the newest unfinished record of this action, or None."""
    return _CURRENT.first(instance_id=instance_id, action=action)


_CURRENT = Prepared(
    lambda instance_id, action: InstanceAction.objects.filter(
        instance_id=instance_id, action=action, finished_at=None
    ).order_by("-id")[:1],
    instance_id=UUIDField(),
    action=CharField(),
)


def first_detail(row: InstanceAction) -> Mapping[str, str]:
    """Return the detail of an action's first step; empty when there is none."""
    first = InstanceActionEvent.objects.filter(action=row, name=f"api_{row.action}")
    return first.values_list("detail", flat=True).first() or {}


def newest_detail(instance_id: uuid.UUID, action: str) -> Mapping[str, str]:
    """Return the detail of the first step of an instance's newest action of this kind, ended or not."""
    row = InstanceAction.objects.filter(instance_id=instance_id, action=action).order_by("-id").first()
    return first_detail(row) if row is not None else {}


def started(row: InstanceAction, name: str, attempt: int) -> datetime:
    """Return when a step began; the current time if it is not recorded."""
    rows = InstanceActionEvent.objects.filter(action=row, name=name, attempt=attempt)
    return rows.values_list("started_at", flat=True).first() or timezone.now()


def finish(instance_id: uuid.UUID, action: str, *, message: str | None = None) -> None:
    """Close the unfinished actions of one kind of an instance; ``message`` is the reason of a failure."""
    _FINISH(instance_id=instance_id, action=action, now=timezone.now(), message=message)


_FINISH = PreparedUpdate(
    lambda instance_id, action, now, message: (
        InstanceAction.objects.filter(instance_id=instance_id, action=action, finished_at=None),
        {"finished_at": now, "message": message},
    ),
    instance_id=UUIDField(),
    action=CharField(),
    now=DateTimeField(),
    message=TextField(),
)


def finish_all(instance_id: uuid.UUID, *well: str, message: str) -> None:
    """Close all unfinished actions of an instance: actions of the kinds ``well`` as successful, others as failed with
    the reason ``message``.
    """
    _finish_all(well)(instance_id=instance_id, now=timezone.now(), message=message)


@cache
def _finish_all(well: tuple[str, ...]) -> PreparedUpdate:
    return PreparedUpdate(
        lambda instance_id, now, message: (
            InstanceAction.objects.filter(instance_id=instance_id, finished_at=None),
            {"finished_at": now, "message": Case(When(action__in=well, then=Value(None)), default=message)},
        ),
        instance_id=UUIDField(),
        now=DateTimeField(),
        message=TextField(),
    )


def of_port(instance_id: uuid.UUID, action: str, port_id: str) -> InstanceAction | None:
    """Return the newest unfinished record of this action on an interface."""
    return _about(instance_id, action, detail__port_id=port_id)


def of_volume(instance_id: uuid.UUID, action: str, volume_id: str) -> InstanceAction | None:
    """Return the newest unfinished record of this action on a volume."""
    return _about(instance_id, action, detail__volume_id=volume_id)


def _about(instance_id: uuid.UUID, action: str, **named: str) -> InstanceAction | None:
    steps = InstanceActionEvent.objects.select_related("action").filter(
        action__instance_id=instance_id,
        action__action=action,
        action__finished_at=None,
        name=f"api_{action}",
        **named,
    )
    row = steps.order_by("-id").first()
    return row.action if row is not None else None


def close(row: InstanceAction, message: str | None) -> None:
    """Close one action; ``message`` is the reason of a failure."""
    InstanceAction.objects.filter(pk=row.pk, finished_at=None).update(finished_at=timezone.now(), message=message)


def prolong(action_id: int, until: datetime) -> None:
    """Move the end of a finished action to a later time."""
    InstanceAction.objects.filter(pk=action_id, finished_at__lt=until).update(finished_at=until)


@dataclass(frozen=True, slots=True)
class Step:
    """A step of an action, finished now by default; ``finished`` None: it is running."""

    name: str
    started: datetime
    finished: datetime | None = field(default_factory=timezone.now)
    host: str = ""
    detail: Mapping[str, str] = field(default_factory=dict)
    failure: str | None = None
    """The reason of a failure."""
    message: str = ""


def record(action: InstanceAction, attempt: int, *steps: Step) -> list[InstanceActionEvent]:
    """Save steps of one attempt like ``write``, and return their rows."""
    rows = [row_of(action, attempt, step) for step in steps]
    write(rows)
    return rows


def row_of(action: InstanceAction, attempt: int, step: Step) -> InstanceActionEvent:
    """Return the unsaved row of a step."""
    result = SUCCESS if step.failure is None else ERROR
    return InstanceActionEvent(
        action=action,
        name=step.name,
        attempt=attempt,
        started_at=step.started,
        finished_at=step.finished,
        result=result if step.finished else "",
        host=step.host,
        detail=dict(step.detail),
        message=(step.failure or step.message)[:1024],
    )


def write(rows: list[InstanceActionEvent]) -> None:
    """Save steps. An existing step (same action, name and attempt) is updated, but never loses its end."""
    fresh = [row for row in rows if row.finished_at is None]
    ended = [row for row in rows if row.finished_at is not None]
    _WRITE_RUNNING(fresh)
    _WRITE_ENDED(ended)


_STEP = ("action", "name", "attempt")
_WRITE_RUNNING = PreparedInsert(InstanceActionEvent, unique=_STEP)
_WRITE_ENDED = PreparedInsert(
    InstanceActionEvent,
    unique=_STEP,
    update=("started_at", "finished_at", "result", "host", "detail", "message"),
)


def record_fault(instance: Instance, message: str, *, details: str = "", host_name: str = "") -> None:
    """Store a fault: ``message`` for the owner (without host names), ``details`` and ``host_name`` for operators."""
    InstanceFault.objects.create(
        instance=instance, code=500, message=message[:1024], details=details[:20_000], host_name=host_name
    )
