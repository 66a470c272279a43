"""The folder that holds one cloud's state: whose it is, which process uses it, which steps were done in it."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from pathlib import Path
from typing import IO, Any

MARKER = ".novella"
"""A file with this name says that bin/up made the folder, so that --clean never deletes another one."""


class DataFolderError(Exception):
    """The folder cannot be used; the text is a sentence for the person at the terminal."""


class DataFolder:
    """One data folder, by its resolved path."""

    def __init__(self, path: Path, default: Path) -> None:
        """``default`` is the checkout's own ``var/``, which is Novella's even when it has no marker yet."""
        self.path = path.resolve()
        self._is_default = self.path == default.resolve()
        self._lock: IO[str] | None = None

    @property
    def key(self) -> str:
        """Return eight hex digits that name this folder in names of network namespaces."""
        return hashlib.sha256(str(self.path).encode()).hexdigest()[:8]

    @property
    def netns(self) -> str:
        return f"novella-{self.key}"

    @property
    def exists(self) -> bool:
        return self.path.is_dir()

    @property
    def is_ours(self) -> bool:
        return self._is_default or (self.path / MARKER).is_file()

    def claim(self) -> None:
        """Make the folder, or take one that is empty or already Novella's.

        Raises DataFolderError for any other: --clean deletes a data folder whole.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not self.is_ours and any(self.path.iterdir()):
                message = f"{self.path} is not empty and was not made by bin/up; choose another folder with --data."
                raise DataFolderError(message)
            self.path.chmod(0o700)  # it may have been there with another mode
            (self.path / MARKER).write_text("A data folder of Novella: bin/up --clean removes it.\n")
            for name in ("run", "log", "secrets"):
                (self.path / name).mkdir(exist_ok=True, mode=0o700)
        except OSError as error:
            message = f"{self.path} cannot be used as a data folder: {error.strerror}."
            raise DataFolderError(message) from error

    # --- one user at a time ------------------------------------------------------------------------------------

    def acquire(self) -> None:
        """Lock the folder for this process.  Raises DataFolderError when another bin/up has it."""
        if not self.try_acquire():
            message = f"Novella is already running on {self.path} (process {self.owner() or 'unknown'})."
            raise DataFolderError(message)

    def try_acquire(self) -> bool:
        (self.path / "run").mkdir(exist_ok=True, mode=0o700)
        lock = (self.path / "run" / "up.lock").open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return False
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        self._lock = lock
        return True

    def acquire_within(self, seconds: float) -> bool:
        """Wait for another process to unlock the folder."""
        deadline = time.monotonic() + seconds
        while not self.try_acquire():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def owner(self) -> int | None:
        """Return the process that wrote its number into the lock file last; it is alive only while the lock is held."""
        try:
            return int((self.path / "run" / "up.lock").read_text())
        except (OSError, ValueError):
            return None

    # --- what was done -----------------------------------------------------------------------------------------

    def done(self, step: str, key: str) -> bool:
        """Whether the step was completed for exactly this key."""
        return bool(self.read_json(f"run/{step}.stamp") == key)

    def mark_done(self, step: str, key: str) -> None:
        self.write_json(f"run/{step}.stamp", key)

    def read_json(self, name: str) -> Any:
        """Return what the file holds; None when there is no such file or it is damaged."""
        try:
            return json.loads((self.path / name).read_text())
        except (OSError, ValueError):
            return None

    def write_json(self, name: str, value: Any) -> None:
        self.write_private(name, json.dumps(value, indent=1) + "\n")

    def write_private(self, name: str, text: str) -> None:
        """Replace the file in one move, readable by its owner only."""
        path = self.path / name
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
        temporary.replace(path)


def fingerprint(paths: list[Path], *extra: str) -> str:
    """Return a checksum over the contents of files and over more text."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    for text in extra:
        digest.update(f"{text}\0".encode())
    return digest.hexdigest()
