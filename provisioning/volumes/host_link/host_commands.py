"""Commands to hosts about volumes: the choice of the host, and the volume's spec."""

import uuid
from collections.abc import Mapping

import msgspec
from django.db.models import QuerySet
from django.utils import timezone

from compute_agent.contract.commands import CommandBody
from compute_agent.contract.volume import VOLUME, VOLUME_COPY, VolumeSpec
from provisioning.common.errors import UnavailableError
from provisioning.hosts import commands
from provisioning.hosts.models import Host, HostCommand
from provisioning.hosts.selectors import is_alive
from provisioning.hosts.subjects import Subject
from provisioning.volumes.models import StoragePool, Volume
from provisioning.volumes.records import holds
from provisioning.volumes.records.keys import encryption_of
from provisioning.volumes.state_machine.deadlines import connecting, deadline_of

NO_HOST = "No host serves the pool of this volume."
DEAD = "The host of this volume is down."


def spec_of(
    volume: Volume, *, size_gb: int | None = None, pool_id: uuid.UUID | None = None, with_key: bool = True
) -> VolumeSpec:
    """Return the spec of a volume for the hosts of its pool. ``with_key``: False for commands that need no data."""
    return VolumeSpec(
        id=data_id_of(volume),
        pool_id=str(pool_id or volume.pool_id),
        size_gb=size_gb or volume.size_gb,
        encryption=encryption_of(volume) if with_key else None,
        multiattach=volume.multiattach,
        version=volume.version,
    )


def data_id_of(volume: Volume) -> str:
    """Return the id under which the pool stores the volume; it differs from the volume's id after a migration."""
    return str(volume.data_id or volume.id)


def hosts_of(pool: StoragePool) -> list[Host]:
    """Return the hosts that serve a pool and are not forced down, hosts that are up first."""
    now = timezone.now()
    rows = Host.objects.filter(servings__pool_id=pool.id, servings__serving=True, forced_down=False)
    rows = rows.order_by("servings__last_seen_at", "name")
    return sorted(rows, key=lambda host: not is_alive(host, now))


def host_of(volume: Volume) -> uuid.UUID:
    """Return the host for commands about a volume: the host of its daemon, otherwise one that serves its pool.

    Raises UnavailableError if there is no such host, if it is forced down, or if another host may have the volume open.
    """
    if reason := holds.reason(volume):
        raise UnavailableError(reason)
    if volume.daemon_host_id is not None:
        if Host.objects.filter(id=volume.daemon_host_id, forced_down=True).exists():
            raise UnavailableError(DEAD)
        return volume.daemon_host_id
    hosts = hosts_of(volume.pool) if volume.pool is not None else []
    if not hosts:
        raise UnavailableError(NO_HOST)
    return hosts[0].id


def send(volume: Volume, body: CommandBody, *, status: str = "", beside: bool = False) -> HostCommand:
    """Send a command about a volume to the host that serves it, as ``send_to``. Raises the errors of ``host_of``."""
    return send_to(host_of(volume), volume, body, status=status, beside=beside)


def send_to(
    host_id: uuid.UUID,
    volume: Volume,
    body: CommandBody,
    *,
    status: str = "",
    beside: bool = False,
    lasting: bool = False,
) -> HostCommand:
    """Send a command about a volume to a host, in the caller's transaction.

    ``status``: the command gets the timeout of this status; default: the volume's own. ``beside``: the command belongs
    to no task of the volume and runs independently of it. ``lasting``: see ``commands.send``.
    """
    subject = Subject(VOLUME, volume.id, volume.generation)
    deadline = deadline_of(status or volume.status) or timezone.now() + connecting()
    return commands.send(host_id, subject, body, deadline, beside=beside, lasting=lasting)


def send_copy(volume: Volume, copy_id: uuid.UUID, body: CommandBody, *, status: str) -> HostCommand:
    """Send a command that copies a volume's data, independently of the volume's other commands.

    ``copy_id``: the id of the new image or backup; ``status``: the command gets the timeout of this status.
    """
    return commands.send(host_of(volume), Subject(VOLUME_COPY, copy_id, 1), body, deadline_of(status))


def open_commands(volume_id: uuid.UUID) -> QuerySet[HostCommand]:
    """Return the unfinished commands about a volume."""
    return commands.unfinished(VOLUME, volume_id)


def plain(message: msgspec.Struct) -> Mapping[str, object]:
    """Return a message as plain JSON values, to be stored in a column."""
    result: Mapping[str, object] = msgspec.to_builtins(message)
    return result


__all__ = [
    "NO_HOST",
    "data_id_of",
    "host_of",
    "hosts_of",
    "open_commands",
    "plain",
    "send",
    "send_copy",
    "send_to",
    "spec_of",
]
