"""Records of background tasks: creation, progress, end, and deletion some time after the end."""

import datetime
import uuid
from typing import Any

from django.conf import settings
from django.db.models import F
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.images.models import Image, ImageTask

OPEN = (ImageTask.Status.PENDING, ImageTask.Status.PROCESSING)
LONGEST_MESSAGE = 1000


def add(context: RequestContext, image: Image, kind: str, values: dict[str, Any]) -> ImageTask:
    """Create the record of a task of the image's project."""
    return ImageTask.objects.create(
        project_id=image.project_id,
        user_id=context.user_id,
        request_id=context.request_id[:255],
        image_id=image.id,
        type=kind,
        input=values,
    )


def has_turn(task: ImageTask) -> bool:
    """Return whether a task may run: it is one of the ``IMPORTS_AT_ONCE`` oldest of its project."""
    return task.pk in _in_turn(task.project_id)


def last_in_turn(project_id: uuid.UUID) -> uuid.UUID | None:
    """Return the task that may start because another task of the project has ended; None if no task was waiting.

    This is the last of the ``IMPORTS_AT_ONCE`` oldest tasks, if there are that many.
    """
    going_on = _in_turn(project_id)
    return going_on[-1] if len(going_on) == settings.IMPORTS_AT_ONCE else None


def _in_turn(project_id: uuid.UUID) -> list[uuid.UUID]:
    rows = ImageTask.objects.filter(project_id=project_id, status__in=OPEN).order_by("created_at", "id")
    return list(rows.values_list("pk", flat=True)[: settings.IMPORTS_AT_ONCE])


def begin(task_id: uuid.UUID) -> ImageTask | None:
    """Start a task, or restart an interrupted one. Returns None if it has ended or waits for its turn."""
    task = ImageTask.objects.filter(pk=task_id).first()
    if task is None or not has_turn(task):
        return None
    rows = ImageTask.objects.filter(pk=task_id, status__in=OPEN)
    if not rows.update(status=ImageTask.Status.PROCESSING, updated_at=timezone.now(), done=0, total=None, message=""):
        return None
    return ImageTask.objects.get(pk=task_id)


def move_on(task_id: uuid.UUID, done: int, total: int | None) -> None:
    """Record the number of bytes copied so far."""
    message = f"Copied {done >> 20} MiB" + (f" of {total >> 20} MiB" if total else "")
    rows = ImageTask.objects.filter(pk=task_id, status=ImageTask.Status.PROCESSING)
    rows.update(done=done, total=total, message=message, updated_at=timezone.now())


def succeed(task_id: uuid.UUID, size: int, result: dict[str, Any]) -> None:
    _end(task_id, status=ImageTask.Status.SUCCESS, message="", done=size, total=size, result=result)


def fail(task_id: uuid.UUID, reason: str) -> bool:
    """End a task with a reason for its owner; return False if it had already ended."""
    return _end(task_id, status=ImageTask.Status.FAILURE, message=reason[:LONGEST_MESSAGE], done=F("done"))


def expire() -> int:
    """Delete tasks whose retention has expired; return how many. For a periodic job."""
    return ImageTask.objects.filter(expires_at__lt=timezone.now()).delete()[0]


def _end(task_id: uuid.UUID, **columns: Any) -> bool:
    now = timezone.now()
    expires = now + datetime.timedelta(seconds=settings.TASK_RETENTION)
    rows = ImageTask.objects.filter(pk=task_id, status__in=OPEN)
    return bool(rows.update(updated_at=now, expires_at=expires, **columns))
