"""Images of the cloud in a pool of Ceph. The first host that needs an image imports it, and volumes are clones of it.

Several hosts use one pool and coordinate only through Ceph. While an image is unfinished, its name contains the name
of its host. A rename shares a finished image, or withdraws a shared one. If two simultaneous renames have the same
target, Ceph allows both, and both images are damaged: therefore a lock is held for renames.
"""

import contextlib
import errno
import logging
import threading
import uuid
from collections import defaultdict
from pathlib import Path

from compute_agent.virt.driver import Stopped
from compute_agent.volumes.rbd.images import NAMESPACE, CephError, CephImages
from compute_agent.volumes.rbd.pool_lock import pool_lock

log = logging.getLogger(__name__)

IMAGE, BASE = "image-", "base"
UNFINISHED = ".new"
"""A part of the name of an unfinished image."""
KEPT_UNUSED = 24 * 3600.0
"""Minimum number of seconds for which an unused image of the cloud stays in the pool."""


def base_name(name: str) -> str:
    """Return an image's name in the pool. ``name`` is its name in every host's image cache, which contains the hash of
    its data.
    """
    return f"{IMAGE}{uuid.uuid5(NAMESPACE, name)}"


class ImageBases:
    """The images of the cloud in one pool, as one host imports and removes them."""

    def __init__(self, images: CephImages, host: str) -> None:
        self._images = images
        self.unfinished = f"{UNFINISHED}-{uuid.uuid5(NAMESPACE, host).hex[:12]}"
        """The suffix of the names of images that this host has not finished."""
        self.locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        """Locks of the images that this host imports or removes, by their final names."""
        self._sizes: dict[str, int] = {}

    def size(self, base: str) -> int | None:
        """Return the size of an image of the cloud; None if the pool does not have it.

        The size of an image that was seen before is returned without a query, even if the image has been removed in the
        meantime. This is safe because its name is derived from its data.
        """
        if base not in self._sizes:
            size = self._images.size(base)
            if size is None:
                return None
            self._sizes[base] = size
        return self._sizes[base]

    def bring(self, path: Path, stopped: Stopped) -> str:
        """Return the name of the pool's image with the data of ``path``, a file of the image cache. A missing image is
        imported.

        Raises CephError, StoppedError.
        """
        base = base_name(path.name)
        with self.locks[base]:
            while not self._freeze(base):
                self._import(path, base, stopped)
        return base

    def _freeze(self, base: str) -> bool:
        """Create an image's snapshot ``BASE``, from which clones are created. Return False if the image
        does not exist.
        """
        try:
            if BASE not in self._images.snapshots(base):
                self._images.snapshot(base, BASE)
        except CephError as error:
            if error.number == errno.ENOENT:
                return False
            raise
        return True

    def _import(self, path: Path, base: str, stopped: Stopped) -> None:
        new = base + self.unfinished
        self._images.import_file(path, new, stopped)
        try:
            self._rename(new, base)
        except CephError as error:
            if error.number != errno.EEXIST:  # another host was faster
                raise
            self._images.remove(new)

    def clone(self, base: str, image: str, size: int) -> bool:
        """Create a clone with ``size`` bytes of an image of the cloud. Return False if that image was removed or is
        incomplete.
        """
        try:
            self._images.clone(base, BASE, image)
        except CephError as error:
            if error.number == errno.ENOENT:
                return False
            raise
        self._images.grow(image, size)
        return True

    def prune(self) -> list[str]:
        """Remove the images that have no clones, and return their names.

        1. The image is renamed to this host's unfinished name: no host finds it now, and a host that needs it imports
           it again.
        2. If a clone was created before the rename, the image is renamed back. If a clone is created during the
           removal, the image stays in the trash until the clone no longer needs it.
        """
        removed = []
        for image in self._images.names():
            if not image.startswith(IMAGE) or UNFINISHED in image or not self._is_unused(image):
                continue
            with contextlib.ExitStack() as held:
                if self.locks[image].acquire(blocking=False):
                    held.callback(self.locks[image].release)
                    if self._remove_unused(image):
                        removed.append(image)
        return removed

    def _is_unused(self, image: str) -> bool:
        with contextlib.suppress(CephError):
            return self._images.age(image) > KEPT_UNUSED and not self._images.has_clones(image)
        return False

    def _rename(self, image: str, name: str) -> None:
        with pool_lock(self._images.location):
            self._images.rename(image, name)

    def _remove_unused(self, image: str) -> bool:
        hidden = image + self.unfinished
        try:
            self._rename(image, hidden)
        except CephError as error:
            if error.number == errno.ENOENT:  # another host was faster
                return False
            raise
        if self._images.has_clones(hidden):
            try:
                self._rename(hidden, image)
            except CephError as error:
                if error.number != errno.EEXIST:  # it was imported again
                    raise
            else:
                return False
        self._images.remove(hidden)
        return True
