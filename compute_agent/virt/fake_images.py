"""The image cache of a simulated host."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

from compute_agent.contract.build import ImageRef
from compute_agent.virt.driver import Stopped, never


class FakeImageCache:
    """The image cache of a simulated host: knows which images it would hold, and fetches no bits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._images: dict[str, ImageRef] = {}

    def get(self, image: ImageRef, instance_uuid: str, stopped: Stopped = never) -> FakeCachedImage:
        """Note the image; the first time it counts as fetched, later as cached."""
        with self._lock:
            cached = image.id in self._images
            self._images[image.id] = image
        return FakeCachedImage(cached=cached, size=image.size)

    def cached(self) -> list[str]:
        """Return the ids of the images held."""
        with self._lock:
            return sorted(self._images)

    def prune(self, max_age: float) -> list[str]:
        """Remove nothing: what is not there takes no room."""
        return []

    def sweep(self) -> None:
        """Nothing is left by fetches that never were."""


@dataclass(frozen=True)
class FakeCachedImage:
    """An image in the fake cache: no file, and whether it was there before.  ``size`` in bytes."""

    cached: bool
    size: int
    path: Path | None = None
