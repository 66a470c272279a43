"""Downloads images from the portal for the image cache. The portal permits this only while a command needs
the image.
"""

import http.client
import logging
import time
from collections.abc import Iterator

from compute_agent.contract.build import ImageRef
from compute_agent.link.dial import SocketOpener
from compute_agent.link.portal_http import PortalHttp, image_path
from compute_agent.settings import AgentSettings
from compute_agent.virt.errors import ImageFetchError

log = logging.getLogger(__name__)

CHUNK = 1024 * 1024
TRIES = 6
PAUSE = 0.25
"""Seconds before the first retry while the portal is unreachable; doubles."""


class ImageFetcher:
    """Downloads the data of an image in pieces, for the instance that needs it. Used from worker threads."""

    def __init__(self, settings: AgentSettings, opener: SocketOpener) -> None:
        """Use the portal and the credential of one host."""
        self._portal = PortalHttp(settings, opener)

    def __call__(self, image: ImageRef, instance_uuid: str) -> Iterator[bytes]:
        """Yield the image's data, whose hash is verified by the cache. Raises ImageFetchError."""
        connection = self._connect()
        try:
            with self._ask(connection, image, instance_uuid) as response:
                if response.status != http.HTTPStatus.OK:
                    raise _failed(f"the portal answers HTTP {response.status}")
                while piece := response.read(CHUNK):
                    yield piece
                if response.length:
                    raise _failed(f"{response.length} bytes are missing")
        except (OSError, http.client.HTTPException) as error:
            raise _failed(repr(error)) from error
        finally:
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        """Connect to the portal, with retries because it may be restarting."""
        pause = PAUSE
        for _ in range(TRIES - 1):
            try:
                return self._portal.connect()
            except OSError as error:
                log.warning("The portal cannot be reached for an image, trying again: %s", error)
            time.sleep(pause)
            pause *= 2
        try:
            return self._portal.connect()
        except OSError as error:
            raise _failed(repr(error)) from error

    def _ask(
        self, connection: http.client.HTTPConnection, image: ImageRef, instance_uuid: str
    ) -> http.client.HTTPResponse:
        connection.request("GET", image_path(instance_uuid, image.id), headers=self._portal.headers())
        return connection.getresponse()


def _failed(detail: str) -> ImageFetchError:
    return ImageFetchError("The image could not be fetched.", detail=detail)
