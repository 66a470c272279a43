"""The address at which a host receives guests, and its settings of TLS."""

import errno
import socket
import ssl

from compute_agent.virt.errors import RetryableHostError
from compute_agent.virt.machine.host_address import HostAddress


class MigrationAddress(HostAddress):
    """The address at which this host receives guests. Without certificates the host is simulated, and TLS is not
    used.
    """

    def listen(self) -> tuple[socket.socket, str, int]:
        """Return a listening socket, and the address and port at which other hosts reach it. The highest free port is
        used, because volumes use the lowest. Raises RetryableHostError.
        """
        reached = self.reached_at()
        if not reached or (self.certificates is not None and not self.certificates.complete):
            raise RetryableHostError("This host has no address or no certificates for migrations yet.")
        for port in range(self.ports[1], self.ports[0] - 1, -1):
            try:
                return self.listening(port), reached, port
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise RetryableHostError("This host cannot listen for a guest.", detail=str(error)) from error
        raise RetryableHostError("All ports for migrations of this host are in use.")

    def far(self, address: str) -> str:
        """Return the address at which this host reaches a host with ``address``: simulated hosts share a machine."""
        return address if self.certificates is not None else self.reached_at()

    def receiving(self) -> ssl.SSLContext | None:
        """Return the TLS settings of the receiving side, which requires a certificate of the other host."""
        return self._context(ssl.PROTOCOL_TLS_SERVER, "server")

    def sending(self) -> ssl.SSLContext | None:
        """Return the TLS settings of the sending side."""
        return self._context(ssl.PROTOCOL_TLS_CLIENT, "client")

    def _context(self, protocol: int, role: str) -> ssl.SSLContext | None:
        if self.certificates is None:
            return None
        folder = self.certificates.folder
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(folder / f"{role}-cert.pem", folder / f"{role}-key.pem")
        context.load_verify_locations(folder / "ca-cert.pem")
        return context
