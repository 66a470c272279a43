"""What a guest is made from and boots from, fetched to this host."""

import time
from pathlib import Path

from compute_agent.contract.build import ImageRef
from compute_agent.contract.steps import FETCH_IMAGE
from compute_agent.engine.context import Step
from compute_agent.servers.services import CachedImage, ImageStore
from compute_agent.virt.driver import BootFiles, Stopped


class BootSources:
    """An image with the kernel and the ramdisk it names; the files are known once ``step`` was taken."""

    def __init__(
        self,
        images: ImageStore,
        instance_uuid: str,
        image: ImageRef,
        kernel: ImageRef | None,
        ramdisk: ImageRef | None,
        stopped: Stopped,
    ) -> None:
        """The images are fetched by the right of the instance, until ``stopped`` returns True."""
        self.disk: Path | None = None
        """The image's file in the cache; None in a fake one."""
        self.boot = BootFiles()
        self._images = images
        self._instance_uuid = instance_uuid
        self._wanted = (image, kernel, ramdisk)
        self._stopped = stopped
        self._facts: dict[str, str] = {}

    def step(self) -> Step:
        """Return the step that brings the images to the cache where they are not there yet.

        It raises ImageUnacceptableError, ImageFetchError, StoppedError.
        """
        return Step(FETCH_IMAGE, self._fetch, facts=self._facts)

    def _fetch(self) -> None:
        began = time.monotonic()
        found = [self._get(each) if each is not None else None for each in self._wanted]
        got = [each for each in found if each is not None]
        self.disk, kernel, ramdisk = (each.path if each is not None else None for each in found)
        self.boot = BootFiles(kernel, ramdisk)
        self._facts |= {
            "cached": "true" if all(each.cached for each in got) else "false",
            "bytes": str(sum(each.size for each in got)),
            "seconds": f"{time.monotonic() - began:.3f}",
        }

    def _get(self, image: ImageRef) -> CachedImage:
        return self._images.get(image, self._instance_uuid, self._stopped)
