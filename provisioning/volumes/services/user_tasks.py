"""Base of the tasks of a volume that a request begins: one class has all parts of such a task, as a server action."""

import uuid
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

from django.db import transaction

from compute_agent.contract.commands import CommandBody
from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.quotas.services.sizes import grow
from provisioning.volumes.host_link.host_commands import send
from provisioning.volumes.models import Volume
from provisioning.volumes.services.checks import check_thawed, locked_volume, pool_of
from provisioning.volumes.state_machine import state
from provisioning.volumes.states import VolumeStatus
from provisioning.volumes.tasks import VolumeTask

Q = TypeVar("Q")
"""The request's parameters."""
B = TypeVar("B", bound=CommandBody)


class UserTask(VolumeTask[B], Generic[Q, B]):
    """A task that begins with a status, a notification and a command, in one transaction."""

    rule: ClassVar[str]
    """The policy rule, which the API and the pages check."""
    status: ClassVar[VolumeStatus]
    """The status during the task."""

    @classmethod
    @when_broken_off
    @transaction.atomic
    def begin(cls, context: RequestContext, volume_id: str | uuid.UUID, request: Q) -> Volume:
        """Begin the task, and return the volume as it is afterwards.

        Raises VolumeNotFoundError, InvalidVolumeError, OverQuotaError, UnavailableError if no host serves the pool, and
        the errors of ``prepare`` and ``reserve``.
        """
        task = cls()
        volume = locked_volume(context, volume_id)
        task.check(volume)
        check_thawed(volume)
        pool_of(volume)
        columns = task.prepare(context, volume, request)
        if usage := task.usage(volume, request):
            grow(volume.project_id, volume.id, usage)
        task.reserve(volume, request)
        state.move(volume, task.status, task.start_of(), changes=columns)
        send(volume, task.command(volume, request))
        return volume

    def prepare(self, context: RequestContext, volume: Volume, request: Q) -> Mapping[str, Any]:
        """Check the request for the locked volume, and return the columns that change with the status."""
        return {}

    def usage(self, volume: Volume, request: Q) -> Mapping[str, int]:
        """Return the volume's usage of the project's quotas after the task; empty: unchanged."""
        return {}

    def reserve(self, volume: Volume, request: Q) -> None:
        """Claim resources besides the quota, or withdraw earlier commands."""

    @abstractmethod
    def command(self, volume: Volume, request: Q) -> B:
        """Return the command for the host."""
