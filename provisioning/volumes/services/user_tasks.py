"""Bases of the tasks of volumes that a request begins: one class has all parts of such a task, as a server action."""

import uuid
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from compute_agent.contract.commands import CommandBody
from provisioning.common.context import RequestContext
from provisioning.common.tasks import A, P, UserTask
from provisioning.quotas.services.sizes import grow
from provisioning.volumes.host_link.host_commands import send
from provisioning.volumes.models import Volume
from provisioning.volumes.services.checks import check_thawed, locked_volume, pool_of
from provisioning.volumes.state_machine import state
from provisioning.volumes.states import VolumeStatus
from provisioning.volumes.tasks import VolumeTask

B = TypeVar("B", bound=CommandBody)


@dataclass(frozen=True, slots=True)
class Deletion:
    """The parameters of a deletion."""

    force: bool = False
    """Whether the status does not matter."""


class OfVolume(UserTask[Volume, P, A], Generic[P, A]):
    """A task whose request names a volume."""

    def locked(self, context: RequestContext, key: str | uuid.UUID) -> Volume:
        return locked_volume(context, key)


class UserVolumeTask(OfVolume[P, Volume], VolumeTask[B], Generic[P, B]):
    """A task of a volume that begins with a status, a notification and a command."""

    status: ClassVar[VolumeStatus]
    """The status during the task."""

    def start(self, context: RequestContext, volume: Volume, request: P) -> Volume:
        """Start the task, and return the volume as it is afterwards.

        Raises InvalidVolumeError, OverQuotaError, UnavailableError if no host serves the pool, and the errors of
        ``prepare``, ``reserve`` and ``command``.
        """
        check_thawed(volume)
        pool_of(volume)
        columns = self.prepare(context, volume, request)
        if usage := self.usage(volume, request):
            grow(volume.project_id, volume.id, usage)
        self.reserve(volume, request)
        state.move(volume, self.status, *([self.start_of()] if self.notification else []), changes=columns)
        send(volume, self.command(context, volume, request))
        return volume

    def prepare(self, context: RequestContext, volume: Volume, request: P) -> Mapping[str, Any]:
        """Check the request for the locked volume, and return the columns that change with the status."""
        return {}

    def usage(self, volume: Volume, request: P) -> Mapping[str, int]:
        """Return the volume's usage of the project's quotas after the task; empty: unchanged."""
        return {}

    def reserve(self, volume: Volume, request: P) -> None:
        """Claim resources besides the quota, or withdraw earlier commands."""

    @abstractmethod
    def command(self, context: RequestContext, volume: Volume, request: P) -> B:
        """Return the command for the host. An error aborts the start of the task."""
