"""The address and credentials of a tunnel's WebSocket."""

import json
import ssl
from dataclasses import asdict, dataclass
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

ENVIRONMENT = "NOVELLA_TUNNEL"
"""Environment variable in which ``novella ssh`` passes a link to the program that ssh starts; only the user can read
it.
"""
SCHEMES = {"http": "ws", "https": "wss"}
COMPUTE = "/compute"
"""Path of the Compute API in the catalog. The paths of the WebSockets have the same prefix."""


@dataclass(frozen=True, slots=True)
class Link:
    """One port of one server: the WebSocket's address, the token, and how the portal's certificate is verified."""

    url: str
    token: str
    verify: bool = True
    cafile: str | None = None

    def dump(self) -> str:
        """Serialize the link for another process."""
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, text: str) -> "Link":
        """Read the output of ``dump``."""
        return cls(**json.loads(text))

    def tls(self) -> ssl.SSLContext | None:
        """Return the TLS settings; None without TLS."""
        if not self.url.startswith("wss:"):
            return None
        context = ssl.create_default_context(cafile=self.cafile)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def tunnel_url(compute: str, server_id: str, port: int, address: str | None) -> str:
    """Return the WebSocket's address, derived from the address of the Compute API,
    ``https://cloud.example.org/compute/v2.1``.

    Raises ValueError for an address that is not Novella's.
    """
    parts = urlsplit(compute)
    before, found, _ = parts.path.rpartition(COMPUTE)
    if parts.scheme not in SCHEMES or not found:
        raise ValueError(compute)
    query = {"port": str(port), **({"address": address} if address else {})}
    path = f"{before}/ws/servers/{quote(server_id, safe='')}/tunnel"
    return urlunsplit((SCHEMES[parts.scheme], parts.netloc, path, urlencode(query), ""))
