"""HTTP connections to the portal, with this host's credential."""

import http.client
import ssl
from urllib.parse import quote, urlsplit

from compute_agent.link.credential import load_or_make
from compute_agent.link.dial import SocketOpener, dial
from compute_agent.settings import AgentSettings

ANSWER_TIMEOUT = 60.0
"""Seconds without data after which a connection counts as broken."""


def image_path(instance_uuid: str, image_id: str) -> str:
    """Return the URL path of an image's data. A command about the instance authorizes access to it."""
    return f"/agent/v1/instances/{quote(instance_uuid)}/images/{quote(image_id)}"


class PortalHttp:
    """Connects to the portal for one host.  Used from worker threads."""

    def __init__(self, settings: AgentSettings, opener: SocketOpener) -> None:
        """Use the portal and the credential of one host."""
        self._settings = settings
        self._opener = opener

    @property
    def encrypted(self) -> bool:
        """Whether the portal is accessed by TLS."""
        return urlsplit(self._settings.portal_url).scheme == "https"

    def connect(self) -> http.client.HTTPConnection:
        """Connect; raises OSError."""
        url = urlsplit(self._settings.portal_url)
        connected = dial(self._settings.portal_url, self._opener)
        connected.settimeout(ANSWER_TIMEOUT)
        connection = http.client.HTTPConnection(url.hostname or "", url.port)
        if self.encrypted:
            connected = ssl.create_default_context().wrap_socket(connected, server_hostname=url.hostname)
        connection.sock = connected
        return connection

    def headers(self) -> dict[str, str]:
        """Return the headers that authenticate this host."""
        secret = load_or_make(self._settings.state_dir, self._settings.host).secret
        return {"Authorization": f"Bearer {secret}", "X-Novella-Host": self._settings.host, "Connection": "close"}
