"""Connections of clients to exported volumes, derived from the report of the daemon host (``Volume.daemon_host``).

A daemon host must not give clients access to other volumes, and programs on the client's host open the connection that
the daemon host reports. Therefore only the port and the export name are used from the report. The address is read from
the database, the TLS certificate must contain the daemon host's id, and the export must belong to the volume. Only
clients on the daemon host itself use its Unix socket.
"""

import logging
import re
import uuid
from pathlib import PurePosixPath
from typing import Any

import msgspec

from compute_agent.contract.build import VolumeConnection
from compute_agent.contract.certificates import tls_hostname
from compute_agent.contract.messages import AgentEvent
from compute_agent.contract.volume import VolumeSpec, client_export
from provisioning.hosts import addresses
from provisioning.hosts.models import Host

log = logging.getLogger(__name__)

PORTS = range(1024, 65536)
"""Ports that daemons may listen on (``--volume-ports``)."""
REFUSED = "The storage host did not report a valid connection of this volume."
_COUNTED = re.compile(r"(\.[0-9a-f-]{36})?\.[0-9]{1,9}")
"""The end of an export name after the volume's id: optionally the id of the attachment, and a number."""


def connection_for(
    event: AgentEvent,
    volume: VolumeSpec,
    *,
    client_id: uuid.UUID,
    client_host: uuid.UUID | None,
    daemon: uuid.UUID,
    move: int = 0,
) -> VolumeConnection | None:
    """Return the connection of a client to a volume, from the report of the host (``daemon``) that exports the volume.

    ``move``: the number of the guest's live migration to ``client_host``. Returns None if the host reported no
    connection or an invalid one.
    """
    try:
        reported = msgspec.json.decode(event.detail.get("connection") or "{}", type=VolumeConnection)
    except (msgspec.DecodeError, UnicodeError):
        return None
    hosts = Host.objects.in_bulk([daemon, client_host or daemon])
    host, client = hosts.get(daemon), hosts.get(client_host or daemon)
    if host is None or client is None or not _is_export_of(volume.id, reported.export):
        connection = None
    elif reported.socket and client_host == daemon:
        connection = _beside(volume.id, reported)
    else:
        connection = _over_tls(client, host, reported)
    if connection is None:
        log.warning("Host %s reported an invalid connection of volume %s: %s", daemon, volume.id, reported)
        return None
    name = client_export(reported.export, str(client_id), multiattach=volume.multiattach, move=move)
    return msgspec.structs.replace(connection, export=name)


def as_column(connection: VolumeConnection) -> dict[str, Any]:
    """Return a connection as stored in ``Attachment.connection``."""
    result: dict[str, Any] = msgspec.to_builtins(connection)
    return result


def _is_export_of(data_id: str, export: str) -> bool:
    return export.startswith(data_id) and _COUNTED.fullmatch(export.removeprefix(data_id)) is not None


def _over_tls(client: Host, host: Host, reported: VolumeConnection) -> VolumeConnection | None:
    """Return the TLS connection to a port; None for an invalid port, or a daemon's host without an address."""
    address = addresses.seen_from(client, host)
    if reported.port not in PORTS or not address:
        return None
    name = tls_hostname(str(host.id))
    return VolumeConnection(export=reported.export, address=address, port=reported.port, tls=True, tls_hostname=name)


def _beside(data_id: str, reported: VolumeConnection) -> VolumeConnection | None:
    """Return the connection to a daemon on the client's own host; None if the socket's path is invalid.

    The host checks the path again when it opens the socket.
    """
    socket = PurePosixPath(reported.socket)
    if not socket.is_absolute() or ".." in socket.parts or socket.name != f"{data_id}.sock":
        return None
    return VolumeConnection(export=reported.export, socket=reported.socket)
