"""The image cache of a simulated host."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

from compute_agent.contract.build import ImageRef
from compute_agent.virt.driver import Stopped, never


class FakeImageCache:
    """The image cache of a simulated host: records the images it would contain, without downloading data."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._images: dict[str, ImageRef] = {}

    def get(self, image: ImageRef, instance_uuid: str, stopped: Stopped = never) -> FakeCachedImage:
        """Record the image; it counts as downloaded the first time, and as cached later."""
        with self._lock:
            cached = image.id in self._images
            self._images[image.id] = image
        return FakeCachedImage(cached=cached, size=image.size)

    def cached(self) -> list[str]:
        """Return the ids of the cached images."""
        with self._lock:
            return sorted(self._images)

    def prune(self, max_age: float) -> list[str]:
        """Do nothing, as no space is used."""
        return []

    def sweep(self) -> None:
        """Do nothing, as there are no interrupted downloads."""


@dataclass(frozen=True)
class FakeCachedImage:
    """An image in the fake cache, without a file; ``cached``: whether it was cached before. ``size`` in bytes."""

    cached: bool
    size: int
    path: Path | None = None
