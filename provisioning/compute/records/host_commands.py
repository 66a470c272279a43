"""Commands to hosts about servers. The generation of a command is the server's attempt."""

import uuid
from datetime import datetime, timedelta

from django.db.models import DateTimeField, IntegerField, Q, QuerySet, UUIDField
from django.utils import timezone

from compute_agent.contract.commands import CommandBody
from compute_agent.contract.messages import SERVER
from provisioning.common.database.prepared import Prepared, PreparedUpdate
from provisioning.common.values.ids import NOBODY
from provisioning.compute.models import Instance
from provisioning.hosts import commands
from provisioning.hosts.models import Host, HostCommand
from provisioning.hosts.subjects import Subject

LOST_AFTER = timedelta(minutes=10)
"""A command that was acknowledged this long ago without an end counts as lost."""


def send(
    host_id: uuid.UUID,
    instance_id: uuid.UUID,
    attempt: int,
    body: CommandBody,
    deadline: datetime | None,
    *,
    beside: bool = False,
) -> HostCommand:
    """Send a command about a server to a host; see ``hosts.commands.send``."""
    return commands.send(host_id, Subject(SERVER, instance_id, attempt), body, deadline, beside=beside)


def about_servers() -> QuerySet[HostCommand]:
    return HostCommand.objects.filter(subject_kind=SERVER)


def unfinished(instance_id: uuid.UUID) -> QuerySet[HostCommand]:
    """Return the commands of a server that have not ended."""
    return commands.unfinished(SERVER, instance_id)


def has_unfinished(instance_id: uuid.UUID) -> bool:
    """Whether a server has commands that have not ended."""
    return bool(_UNFINISHED(instance_id=instance_id))


_UNFINISHED = Prepared(
    lambda instance_id: unfinished(instance_id).values_list("id", flat=True)[:1], instance_id=UUIDField()
)


def of_kind(instance: Instance, body: type[CommandBody]) -> QuerySet[HostCommand]:
    """Return the server's commands of this type, of its current attempt, that its host has not ended."""
    kind = str(body.__struct_config__.tag)
    rows = unfinished(instance.id).filter(host_id=instance.host_id or NOBODY)
    return rows.filter(kind=kind, generation=instance.attempt)


def to_destroy() -> QuerySet[HostCommand]:
    """Return all commands to destroy a server, ended or not."""
    return about_servers().filter(kind="destroy_request")


def has_destroy(host_id: uuid.UUID, instance_id: uuid.UUID, attempt: int) -> bool:
    """Whether a host was sent a command to destroy this attempt of a server."""
    return bool(_DESTROYS(host_id=host_id, instance_id=instance_id, attempt=attempt))


_DESTROYS = Prepared(
    lambda host_id, instance_id, attempt: (
        to_destroy()
        .filter(subject_id=instance_id, host_id=host_id, generation=attempt)
        .values_list("id", flat=True)[:1]
    ),
    host_id=UUIDField(),
    instance_id=UUIDField(),
    attempt=IntegerField(),
)


def destroys_awaited() -> QuerySet[HostCommand]:
    """Return destroy commands whose end is still expected: not yet acknowledged, or acknowledged recently."""
    lately = Q(acknowledged_at=None) | Q(acknowledged_at__gte=timezone.now() - LOST_AFTER)
    return to_destroy().filter(lately, finished_at=None)


def of_tasks(rows: QuerySet[HostCommand]) -> QuerySet[HostCommand]:
    """Restrict ``rows`` to commands that a task waits for. A deletion waits for the host's allocation instead."""
    return rows.filter(beside=False).exclude(kind="destroy_request")


def of_task(instance_id: uuid.UUID, attempt: int) -> HostCommand | None:
    """Return the newest unfinished command of a server's task, except a build."""
    return _OF_TASK.first(instance_id=instance_id, attempt=attempt)


_OF_TASK = Prepared(
    lambda instance_id, attempt: (
        of_tasks(unfinished(instance_id))
        .filter(generation=attempt)
        .exclude(kind="build_request")
        .order_by("-created_at")[:1]
    ),
    instance_id=UUIDField(),
    attempt=IntegerField(),
)


def working_at(instance_id: uuid.UUID, attempt: int) -> HostCommand | None:
    """Return the newest unfinished command that a server's task waits for, including a build."""
    return of_tasks(unfinished(instance_id)).filter(generation=attempt).order_by("-created_at").first()


def is_busy_with(instance_id: uuid.UUID) -> bool:
    """Whether a server has an unfinished command other than a destroy."""
    return unfinished(instance_id).exclude(kind="destroy_request").exists()


def withdraw(instance_id: uuid.UUID, older_than_attempt: int) -> int:
    """Withdraw the commands of older attempts, except destroy commands; returns how many were unfinished.

    Destroy commands stay, because they may be for another host than the host of the current attempt.
    """
    return _WITHDRAW(instance_id=instance_id, attempt=older_than_attempt, now=timezone.now())


_WITHDRAW = PreparedUpdate(
    lambda instance_id, attempt, now: (
        unfinished(instance_id).filter(generation__lt=attempt).exclude(kind="destroy_request"),
        commands.withdrawn(now),
    ),
    instance_id=UUIDField(),
    attempt=IntegerField(),
    now=DateTimeField(),
)


def withdraw_destroys(host_id: uuid.UUID, instance_id: uuid.UUID, older_than_attempt: int) -> int:
    """Withdraw the host's destroy commands of older attempts, before a new one is sent. Returns their number."""
    return _WITHDRAW_DESTROYS(host_id=host_id, instance_id=instance_id, attempt=older_than_attempt, now=timezone.now())


_WITHDRAW_DESTROYS = PreparedUpdate(
    lambda host_id, instance_id, attempt, now: (
        unfinished(instance_id).filter(host_id=host_id, kind="destroy_request", generation__lt=attempt),
        commands.withdrawn(now),
    ),
    host_id=UUIDField(),
    instance_id=UUIDField(),
    attempt=IntegerField(),
    now=DateTimeField(),
)


def spare(host: Host, instance_id: uuid.UUID, attempt: int) -> bool:
    """Withdraw the commands to destroy the guest of this attempt, for a host that is down. Returns whether the host
    keeps the guest: it does not if it has got such a command, or may be getting one now.
    """
    removals = to_destroy().filter(subject_id=instance_id, host_id=host.id, generation__gt=attempt)
    if not host.connected:
        commands.withdraw(removals.filter(acknowledged_at=None))
    return not removals.filter(Q(finished_at=None) | Q(acknowledged_at__isnull=False)).exists()


def withdraw_of_tasks(instance_id: uuid.UUID) -> int:
    """Withdraw all commands that tasks wait for; later reports about them are ignored. Returns their number."""
    return commands.withdraw(of_tasks(unfinished(instance_id)))


def withdraw_unsent(host_id: uuid.UUID, instance_id: uuid.UUID, kind: str) -> int:
    """Withdraw the commands of this kind that the host has not acknowledged, because a newer one replaces them.

    So at most one command of a kind waits for a host that is down. Returns their number.
    """
    return commands.withdraw(unfinished(instance_id).filter(host_id=host_id, kind=kind, acknowledged_at=None))


def beside_overdue() -> QuerySet[HostCommand]:
    """Return the overdue commands that no task waits for."""
    return about_servers().filter(beside=True, finished_at=None, deadline__lt=timezone.now())
