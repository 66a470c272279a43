"""Validates connections to volumes before a program of this host opens them.

The portal builds connections from reports of storage hosts. A host opens only exports for the specific client. It
rejects files outside its socket directory, other volumes, and TCP without TLS.
"""

import re
from pathlib import Path

from compute_agent.contract.build import VolumeConnection
from compute_agent.virt.errors import HostError

_DATA_ID = re.compile(r"[0-9A-Za-z-]{1,200}")


class ConnectionRefusedByHostError(HostError):
    """A connection does not point to an export for its client."""

    code = "connection_refused"

    def __init__(self, detail: str) -> None:
        super().__init__("The connection to the volume is not one that this host opens.", detail=detail)


def check(connection: VolumeConnection, *, client_id: str, data_id: str = "", sockets: Path) -> None:
    """Raise ConnectionRefusedByHostError if the connection is not to an export for this client.

    ``client_id`` is the attachment that the export must name (``exports.name_of``). It is empty for a guest's own root
    disk, whose export begins with ``data_id``. ``sockets``: the folder of the sockets of this host's daemons.
    """
    found, *named = connection.export.split(".")
    known = client_id in named if client_id else found == data_id
    if not known or not _DATA_ID.fullmatch(found):
        raise ConnectionRefusedByHostError(f"the export {connection.export!r} is for another client")
    if connection.socket:
        if Path(connection.socket) != socket_of(sockets, found):
            raise ConnectionRefusedByHostError(
                f"the socket {connection.socket!r} does not belong to the volume's daemon"
            )
    elif not (connection.tls and connection.tls_hostname and connection.address and connection.port):
        raise ConnectionRefusedByHostError("a volume on another host is opened over TLS only")


def socket_of(sockets: Path, data_id: str) -> Path:
    """Return the socket at which the daemon of a volume listens for guests of its own host."""
    return sockets / f"{data_id}.sock"
