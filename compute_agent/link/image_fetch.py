"""Fetches an image's bits from the portal, for the image cache; the right to them comes with an order."""

from __future__ import annotations

import http.client
import logging
import ssl
import time
from collections.abc import Iterator
from urllib.parse import quote, urlsplit

from compute_agent.contract.build import ImageRef
from compute_agent.link.credential import load_or_make
from compute_agent.link.dial import SocketOpener, dial
from compute_agent.settings import AgentSettings
from compute_agent.virt.errors import ImageFetchError

log = logging.getLogger(__name__)

CHUNK = 1024 * 1024
READ_TIMEOUT = 60.0
TRIES = 6
PAUSE = 0.25
"""Seconds before the next try while the portal cannot be reached; doubles."""


class ImageFetcher:
    """Called with an image and the instance that needs it; gives the bits in pieces.  Used from worker threads."""

    def __init__(self, settings: AgentSettings, opener: SocketOpener) -> None:
        """Use the portal and the credential of one host."""
        self._settings = settings
        self._opener = opener

    def __call__(self, image: ImageRef, instance_uuid: str) -> Iterator[bytes]:
        """Yield the image's bytes; what they hash to is the cache's to check.  Raises ImageFetchError."""
        connection = self._connect()
        try:
            with self._ask(connection, image, instance_uuid) as response:
                if response.status != http.HTTPStatus.OK:
                    raise _failed(f"the portal answers HTTP {response.status}")
                while piece := response.read(CHUNK):
                    yield piece
                if response.length:
                    raise _failed(f"{response.length} bytes did not come")
        except (OSError, http.client.HTTPException) as error:
            raise _failed(repr(error)) from error
        finally:
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        """Reach the portal, which may just be starting again."""
        pause = PAUSE
        for _ in range(TRIES - 1):
            try:
                return self._connect_once()
            except OSError as error:
                log.warning("The portal cannot be reached for an image, trying again: %s", error)
            time.sleep(pause)
            pause *= 2
        try:
            return self._connect_once()
        except OSError as error:
            raise _failed(repr(error)) from error

    def _connect_once(self) -> http.client.HTTPConnection:
        url = urlsplit(self._settings.portal_url)
        connected = dial(self._settings.portal_url, self._opener)
        connected.settimeout(READ_TIMEOUT)
        connection = http.client.HTTPConnection(url.hostname or "", url.port)
        if url.scheme == "https":
            connected = ssl.create_default_context().wrap_socket(connected, server_hostname=url.hostname)
        connection.sock = connected
        return connection

    def _ask(
        self, connection: http.client.HTTPConnection, image: ImageRef, instance_uuid: str
    ) -> http.client.HTTPResponse:
        settings = self._settings
        secret = load_or_make(settings.state_dir, settings.host).secret
        headers = {"Authorization": f"Bearer {secret}", "X-Novella-Host": settings.host, "Connection": "close"}
        path = f"/agent/v1/instances/{quote(instance_uuid)}/images/{quote(image.id)}"
        connection.request("GET", path, headers=headers)
        return connection.getresponse()


def _failed(detail: str) -> ImageFetchError:
    return ImageFetchError("The image could not be fetched.", detail=detail)
