"""The address and the certificates with which a host exports volumes to other hosts."""

import errno
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from compute_agent.volumes.errors import NotExportedError

TCP_WITHOUT_TLS = (
    "The volume is on another host than the server, and this host has no certificates to export it over TLS."
)


class Certificates(Protocol):
    """The certificates of the host, in the form that QEMU's ``tls-creds-x509`` expects."""

    @property
    def folder(self) -> Path:
        """The folder with ``ca-cert.pem``, ``server-cert.pem`` and ``server-key.pem``."""

    @property
    def complete(self) -> bool:
        """Whether all certificate files exist."""

    @property
    def tls_hostname(self) -> str:
        """The host name in the server's certificate."""


def check_certificates(certificates: Certificates | None) -> Certificates:
    """Return the host's certificates. Raises NotExportedError if it has none, or if files are missing."""
    if certificates is None or not certificates.complete:
        raise NotExportedError(TCP_WITHOUT_TLS)
    return certificates


@dataclass(frozen=True)
class Address:
    """The address at which other hosts reach this host, and the certificates with which it authenticates."""

    reached_at: Callable[[], str]
    """Returns the address of this host; empty while it is unknown."""
    certificates: Certificates | None = None
    ports: tuple[int, int] = (10809, 11832)
    """The first and the last port at which daemons may listen."""

    def bind(self, port: int = 0) -> str:
        """Return the address on which daemons listen: the host's address, or the wildcard address if the host's address
        is not on any interface, for example behind NAT. Raises NotExportedError if the port is in use.
        """
        reached = self.reached_at()
        family, every = (socket.AF_INET6, "::") if ":" in reached else (socket.AF_INET, "0.0.0.0")  # noqa: S104 (see above)
        for address in (reached, every):
            with socket.socket(family) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((address, port))
                except OSError as error:
                    if error.errno == errno.EADDRNOTAVAIL:
                        continue
                    raise NotExportedError("The port is in use.", detail=f"{address} {port}") from error
                return address
        raise NotExportedError("The host has no address at which it can export volumes.")
