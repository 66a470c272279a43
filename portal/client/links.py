"""Where a tunnel's WebSocket is, and what opens it."""

import json
import ssl
from dataclasses import asdict, dataclass
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

ENVIRONMENT = "NOVELLA_TUNNEL"
"""With it ``novella ssh`` hands a link to the program that ssh starts: the environment is nobody else's to read."""
SCHEMES = {"http": "ws", "https": "wss"}
COMPUTE = "/compute"
"""Where the Compute API begins in the catalog's address; the WebSockets lie beside it."""


@dataclass(frozen=True, slots=True)
class Link:
    """One port of one server: the WebSocket's address, the token, and how the portal's certificate is checked."""

    url: str
    token: str
    verify: bool = True
    cafile: str | None = None

    def dump(self) -> str:
        """Return it as text for another process."""
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, text: str) -> "Link":
        """Read what ``dump`` has written."""
        return cls(**json.loads(text))

    def tls(self) -> ssl.SSLContext | None:
        """Return how TLS is spoken; None without TLS."""
        if not self.url.startswith("wss:"):
            return None
        context = ssl.create_default_context(cafile=self.cafile)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def tunnel_url(compute: str, server_id: str, port: int, address: str | None) -> str:
    """Return the WebSocket's address beside the Compute API's, ``https://cloud.example.org/compute/v2.1``.

    Raises ValueError for an address that is not Novella's.
    """
    parts = urlsplit(compute)
    before, found, _ = parts.path.rpartition(COMPUTE)
    if parts.scheme not in SCHEMES or not found:
        raise ValueError(compute)
    query = {"port": str(port), **({"address": address} if address else {})}
    path = f"{before}/ws/servers/{quote(server_id, safe='')}/tunnel"
    return urlunsplit((SCHEMES[parts.scheme], parts.netloc, path, urlencode(query), ""))
