"""The address and the certificates with which a host exports volumes to other hosts."""

import errno

from compute_agent.virt.machine.host_address import Certificates, HostAddress
from compute_agent.volumes.errors import NotExportedError

TCP_WITHOUT_TLS = (
    "The volume is on another host than the server, and this host has no certificates to export it over TLS."
)


def check_certificates(certificates: Certificates | None) -> Certificates:
    """Return the host's certificates. Raises NotExportedError if it has none, or if files are missing."""
    if certificates is None or not certificates.complete:
        raise NotExportedError(TCP_WITHOUT_TLS)
    return certificates


class Address(HostAddress):
    """The address at which the storage daemons of this host listen."""

    def bind(self, port: int = 0) -> str:
        """Return the address on which daemons listen. Raises NotExportedError if the port is in use, or if the host has
        no address.
        """
        try:
            with self.listening(port) as probe:
                address: str = probe.getsockname()[0]
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                raise NotExportedError("The host has no address at which it can export volumes.") from error
            raise NotExportedError("The port is in use.", detail=f"{self.reached_at()} {port}") from error
        return address
