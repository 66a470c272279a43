"""The images that a guest is created from and boots from, fetched to this host."""

import time
from collections.abc import Callable
from pathlib import Path

from compute_agent.contract.build import ImageRef
from compute_agent.contract.steps import FETCH_IMAGE
from compute_agent.engine.context import Step
from compute_agent.servers.services import CachedImage, ImageStore
from compute_agent.virt.driver import BootFiles, Stopped


class BootSources:
    """An image with its kernel and ramdisk. The paths of the files are known after ``step`` has run."""

    def __init__(
        self,
        images: ImageStore,
        instance_uuid: str,
        image: ImageRef | None,
        kernel: ImageRef | None,
        ramdisk: ImageRef | None,
        stopped: Stopped,
        needed: Callable[[], bool] = lambda: True,
    ) -> None:
        """Fetch the images with the permission of a command for the instance, until ``stopped`` returns True.

        ``image`` is None for a guest that boots from a volume. ``needed`` is called when the step runs, and returns
        whether the image's file is needed.
        """
        self.disk: Path | None = None
        """The image's file in the cache; None before the step has run, and for a fake cache."""
        self.boot = BootFiles()
        self._images = images
        self._instance_uuid = instance_uuid
        self._requested = (image, kernel, ramdisk)
        self._stopped = stopped
        self._needed = needed
        self._facts: dict[str, str] = {}

    @property
    def any_needed(self) -> bool:
        """Whether there is anything to fetch."""
        return any(self._requested)

    def step(self) -> Step:
        """Return the step that downloads the images unless the cache has them.

        The step raises ImageUnacceptableError, ImageFetchError, StoppedError.
        """
        return Step(FETCH_IMAGE, self._fetch, facts=self._facts)

    def _fetch(self) -> None:
        began = time.monotonic()
        image, kernel, ramdisk = self._requested
        images = (image if image is not None and self._needed() else None, kernel, ramdisk)
        cached = [self._get(each) if each is not None else None for each in images]
        got = [each for each in cached if each is not None]
        self.disk, *files = (each.path if each is not None else None for each in cached)
        self.boot = BootFiles(*files)
        self._facts |= {
            "cached": "true" if all(each.cached for each in got) else "false",
            "bytes": str(sum(each.size for each in got)),
            "seconds": f"{time.monotonic() - began:.3f}",
        }

    def _get(self, image: ImageRef) -> CachedImage:
        return self._images.get(image, self._instance_uuid, self._stopped)
