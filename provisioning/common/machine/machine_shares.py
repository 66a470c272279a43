"""Limits how many of something each owner may use concurrently on this machine, across all processes.

A share is a lock on a byte of a file. The kernel releases it when its process ends for any reason, so that shares of
killed processes do not count.
"""

import fcntl
import hashlib
import os
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

from django.conf import settings

FILE = "shares.lock"
MOST = 1 << 17
"""Maximum number of shares of an owner."""


class MachineShares:
    """The shares that this process holds. The file has locks for the shares of all processes. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: set[int] = set()
        self._file: int | None = None  # a descriptor, open until the process ends
        self._path, self._pid = Path(), 0

    def acquire(self, shares: Mapping[str, int]) -> list[int] | None:
        """Acquire a share for each owner, up to the owner's maximum. Returns None, and acquires nothing, if an owner
        has no share left.

        Pass the result to ``release`` once.
        """
        with self._lock:
            descriptor = self._descriptor()
            taken: list[int] = []
            for owner, most in shares.items():
                place = self._place(descriptor, owner, most)
                if place is None:
                    self._free(taken)
                    return None
                taken.append(place)
            return taken

    def release(self, taken: Iterable[int]) -> None:
        """Release the shares that ``acquire`` returned."""
        with self._lock:
            self._free(taken)

    @property
    def held(self) -> int:
        """Number of shares that this process holds."""
        return len(self._held)

    def _place(self, descriptor: int, owner: str, most: int) -> int | None:
        """Lock and return the owner's first free byte; None if all ``most`` bytes are locked."""
        first = int.from_bytes(hashlib.sha256(owner.encode()).digest()[:5]) * MOST
        for place in range(first, first + most):
            if place in self._held:  # a process's own locks do not block it
                continue
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
            except (BlockingIOError, PermissionError):
                continue
            self._held.add(place)
            return place
        return None

    def _free(self, taken: Iterable[int]) -> None:
        for place in taken:
            if place in self._held and self._file is not None:
                self._held.discard(place)
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, place)

    def _descriptor(self) -> int:
        """Open the file once for each process; closing it anywhere would release all locks."""
        path = Path(settings.RUN_DIR, FILE)
        if self._file is None or (path, os.getpid()) != (self._path, self._pid):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._file is not None:
                os.close(self._file)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            self._path, self._pid, self._held = path, os.getpid(), set()
        return self._file


shares = MachineShares()
