"""HTML of an instance's status in tables."""

from collections.abc import Sequence
from typing import Protocol

from django.utils.safestring import SafeString

from portal.common.statuses import Status
from portal.dashboard.lists import cells
from portal.dashboard.templatetags import novella as tags
from portal.dashboard.words.markup import format_html
from provisioning.compute import selectors as compute
from provisioning.compute.models import Instance, InstanceFault


class StatusRow(Protocol):
    """The parts of an ``InstanceRow`` that its status shows."""

    @property
    def instance(self) -> Instance: ...

    @property
    def status(self) -> Status: ...

    @property
    def task(self) -> str: ...

    @property
    def silent(self) -> bool: ...

    @property
    def fault(self) -> InstanceFault | None: ...

    @property
    def steps(self) -> Sequence[compute.Step]: ...

    @property
    def step(self) -> compute.Step | None: ...

    @property
    def api_status(self) -> str: ...


def state(row: StatusRow) -> SafeString:
    """Render the status, and during an action the task and the progress through the steps."""
    instance = row.instance
    parts = [
        format_html(
            '<span data-testid="instance-status" data-status="{}" data-task="{}">{}</span>',
            row.api_status,
            instance.task_state or "",
            cells.status(row.status),
        )
    ]
    if instance.locked:
        title = instance.locked_reason or ""
        parts.append(format_html(' <span class="task" title="{}">{} Locked</span>', title, cells.icon("lock-fill")))
    parts.append(_doing(row))
    return cells.join("", parts)


def _doing(row: StatusRow) -> SafeString:
    if row.silent and row.instance.host:
        seen = row.instance.host.last_seen_at
        since = format_html(" since {}", cells.when(seen)) if seen else ""
        return format_html(' <span class="task" data-testid="silent">Its host does not answer{}</span>', since)
    if row.steps:
        attempt = f" · attempt {row.instance.attempt}" if row.instance.attempt > 1 else ""
        label = row.step.label if row.step else row.task
        return format_html(' <span class="task">{}{}</span>{}', label, attempt, _steps(row))
    if row.task:
        return format_html(' <span class="task">{}</span>', row.task)
    if row.fault:
        text = row.fault.message
        short = text if len(text) <= 70 else f"{text[:69]}…"
        return format_html(' <span class="task" title="{}">{}</span>', text, short)
    return cells.NOTHING


def _steps(row: StatusRow) -> SafeString:
    """Render the steps as segments of a line."""
    boxes = cells.join(
        "",
        (
            format_html('<rect x="{}" y="0" width="88" height="10" class="{}"></rect>', 100 * number, step.state)
            for number, step in enumerate(row.steps)
        ),
    )
    return format_html(
        '<svg class="progress-steps" viewBox="0 0 {}00 10" preserveAspectRatio="none" role="img" '
        'aria-label="{} of {} steps done">{}</svg>',
        len(row.steps),
        tags.steps_done(row.steps),
        len(row.steps),
        boxes,
    )
