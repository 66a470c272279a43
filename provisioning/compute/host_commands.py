"""Commands to hosts about servers: the generation of a server is its attempt."""

import uuid
from datetime import datetime, timedelta

from django.db.models import IntegerField, Q, QuerySet, UUIDField
from django.utils import timezone

from compute_agent.contract.commands import CommandBody
from compute_agent.contract.messages import SERVER
from provisioning.common.ids import NOBODY
from provisioning.common.prepared import Prepared
from provisioning.compute.models import Instance
from provisioning.hosts import commands
from provisioning.hosts.models import HostCommand
from provisioning.hosts.subjects import Subject

LOST_AFTER = timedelta(minutes=10)
"""A command that a host took so long ago and never ended counts as lost: its report was, or the host's memory."""


def send(
    host_id: uuid.UUID,
    instance_id: uuid.UUID,
    attempt: int,
    body: CommandBody,
    deadline: datetime | None,
    *,
    beside: bool = False,
) -> HostCommand:
    """Command something of a host for a server, as ``hosts.commands.send``."""
    return commands.send(host_id, Subject(SERVER, instance_id, attempt), body, deadline, beside=beside)


def about_servers() -> QuerySet[HostCommand]:
    return HostCommand.objects.filter(subject_kind=SERVER)


def unfinished(instance_id: uuid.UUID) -> QuerySet[HostCommand]:
    """Return the commands about a server that have not ended."""
    return commands.unfinished(SERVER, instance_id)


def of_kind(instance: Instance, body: type[CommandBody]) -> QuerySet[HostCommand]:
    """Return the commands of a kind that the server's host has not ended, of its present attempt."""
    kind = str(body.__struct_config__.tag)
    rows = unfinished(instance.id).filter(host_id=instance.host_id or NOBODY)
    return rows.filter(kind=kind, generation=instance.attempt)


def to_destroy() -> QuerySet[HostCommand]:
    """Return every command to destroy a server, ended or not."""
    return about_servers().filter(kind="destroy_request")


def destroys_awaited() -> QuerySet[HostCommand]:
    """Return commands to destroy whose end can still be expected: they wait for their host, or it took them lately."""
    lately = Q(acknowledged_at=None) | Q(acknowledged_at__gte=timezone.now() - LOST_AFTER)
    return to_destroy().filter(lately, finished_at=None)


def of_tasks(rows: QuerySet[HostCommand]) -> QuerySet[HostCommand]:
    """Return those of ``rows`` that a task of their server waits for; deleting waits for what its host has."""
    return rows.filter(beside=False).exclude(kind="destroy_request")


def of_task(instance_id: uuid.UUID, attempt: int) -> HostCommand | None:
    """Return the newest unfinished command of a server's task, but to build it."""
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
    """Return the newest unfinished command that a server's task waits for, a build or any other."""
    return of_tasks(unfinished(instance_id)).filter(generation=attempt).order_by("-created_at").first()


def is_busy_with(instance_id: uuid.UUID) -> bool:
    """Whether any command but to destroy it has not ended for a server."""
    return unfinished(instance_id).exclude(kind="destroy_request").exists()


def withdraw(instance_id: uuid.UUID, older_than_attempt: int) -> int:
    """Send the commands of older attempts no more; returns how many were still unfinished.

    A host that was to destroy what it has of the server still is: it may be another host than that of this attempt.
    """
    older = unfinished(instance_id).filter(generation__lt=older_than_attempt)
    return commands.withdraw(older.exclude(kind="destroy_request"))


def withdraw_destroys(host_id: uuid.UUID, instance_id: uuid.UUID, older_than_attempt: int) -> int:
    """Forget what a host was told to destroy of older attempts: it is told anew.  Returns how many there were."""
    destroys = unfinished(instance_id).filter(host_id=host_id, kind="destroy_request")
    return commands.withdraw(destroys.filter(generation__lt=older_than_attempt))


def withdraw_of_tasks(instance_id: uuid.UUID) -> int:
    """Send no command of a task any more, and pass over what is still said of one; returns how many there were."""
    return commands.withdraw(of_tasks(unfinished(instance_id)))


def withdraw_unsent(host_id: uuid.UUID, instance_id: uuid.UUID, kind: str) -> int:
    """Forget the commands of a kind that the host has not taken yet, because the next one says all that they say;
    returns how many: however often it is asked for, one waits for a host that is away.
    """
    return commands.withdraw(unfinished(instance_id).filter(host_id=host_id, kind=kind, acknowledged_at=None))


def beside_overdue() -> QuerySet[HostCommand]:
    """Return the commands beside a server's tasks whose deadline has passed without a word."""
    return about_servers().filter(beside=True, finished_at=None, deadline__lt=timezone.now())
