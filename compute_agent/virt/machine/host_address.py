"""The address at which other hosts reach this host, and its certificates: for volumes, disks and running guests."""

import errno
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


class Certificates(Protocol):
    """The certificates of the host, in the form that QEMU's ``tls-creds-x509`` expects."""

    @property
    def folder(self) -> Path:
        """The folder with ``ca-cert.pem``, and certificate and key of ``server`` and ``client``."""

    @property
    def complete(self) -> bool:
        """Whether all certificate files exist."""

    @property
    def tls_hostname(self) -> str:
        """The host name in the server's certificate."""


@dataclass(frozen=True)
class HostAddress:
    """The address, the certificates and the ports of this host for connections from other hosts."""

    reached_at: Callable[[], str]
    """Returns the address of this host; empty while it is unknown."""
    certificates: Certificates | None = None
    ports: tuple[int, int] = (10809, 11832)
    """The first and the last port at which this host may listen."""

    def listening(self, port: int = 0) -> socket.socket:
        """Return a TCP socket that listens at the host's address, or at the wildcard address if the host's address is
        not on any interface, for example behind NAT. Raises OSError.
        """
        reached = self.reached_at()
        family, every = (socket.AF_INET6, "::") if ":" in reached else (socket.AF_INET, "0.0.0.0")  # noqa: S104 (see above)
        try:
            return _listening(family, reached, port)
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise
        return _listening(family, every, port)


def _listening(family: int, address: str, port: int) -> socket.socket:
    result = socket.socket(family)
    try:
        result.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        result.bind((address, port))
        result.listen()
    except OSError:
        result.close()
        raise
    return result
