"""The data folder with the state of one cloud: its owner, its lock, and the completed steps of its preparation."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
import time
from pathlib import Path
from typing import IO, Any

MARKER = ".novella"
"""A file with this name marks a folder that bin/up created, so that --clean never deletes another one."""


PORTAL = "portal"
"""The folder within the data folder that web, workers and manage.py write to; the rest belongs to bin/up
and the agent.
"""
OF_PORTAL = ("db.sqlite3", "db.sqlite3-wal", "db.sqlite3-shm", "secrets", "images", "static", "backups")
"""Files of the portal that older versions kept directly in the data folder; ``run/bootstrap.json`` was outside, too."""
TRAVERSED = 0o711


class DataFolderError(Exception):
    """The folder cannot be used. The message is a sentence for the terminal."""


class DataFolder:
    """One data folder, by its resolved path."""

    def __init__(self, path: Path, default: Path) -> None:
        """``default`` is the checkout's own ``var/``, which is Novella's even before it has a marker."""
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
    def portal(self) -> Path:
        return self.path / PORTAL

    @property
    def database(self) -> Path:
        """The SQLite file, which is used unless a URL names another database."""
        return self.portal / "db.sqlite3"

    @property
    def exists(self) -> bool:
        return self.path.is_dir()

    @property
    def is_ours(self) -> bool:
        return self._is_default or (self.path / MARKER).is_file()

    def claim(self) -> None:
        """Create the folder, or use one that is empty or already Novella's.

        Raises DataFolderError for any other folder, because --clean deletes a data folder completely.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not self.is_ours and any(self.path.iterdir()):
                message = f"{self.path} is not empty and was not created by bin/up; choose another folder with --data."
                raise DataFolderError(message)
            if self.path.stat().st_mode & 0o777 != TRAVERSED:  # that is how hand_over leaves it
                self.path.chmod(0o700)  # an existing folder may have another mode
            (self.path / MARKER).write_text("A data folder of Novella: bin/up --clean removes it.\n")
            for name in ("run", "log", "hosts", PORTAL):
                (self.path / name).mkdir(exist_ok=True, mode=0o700)
                (self.path / name).chmod(0o700)
        except OSError as error:
            message = f"{self.path} cannot be used as a data folder: {error.strerror}."
            raise DataFolderError(message) from error

    def bring_up_to_date(self) -> None:
        """Move files that an older version kept outside the portal's folder into it. Raises DataFolderError."""
        moves = {self.path / name: self.portal / name for name in OF_PORTAL}
        moves[self.path / "run" / "bootstrap.json"] = self.portal / "run" / "bootstrap.json"
        for old, new in moves.items():
            if old.exists() and not new.exists():
                try:
                    new.parent.mkdir(exist_ok=True, mode=0o700)
                    old.rename(new)
                except OSError as error:
                    message = (
                        f"{old} belongs to {new} now and cannot be moved there: {error.strerror}; move it yourself."
                    )
                    raise DataFolderError(message) from error

    def hand_over(self, uid: int, gid: int) -> None:
        """Change the owner of the portal's folder with all its content to an account that can reach it. Raises
        DataFolderError.

        Only files of the former owner and of root (a restored database) are changed, and only files without other hard
        links: otherwise an account could get another account's file with a hard link to it.
        """
        try:
            if uid:
                self.path.chmod(TRAVERSED)
            before = self.portal.lstat().st_uid
            for _, folders, files, descriptor in os.fwalk(self.portal, topdown=False, follow_symlinks=False):
                for name in (*folders, *files):
                    _give(name, descriptor, {before, 0}, uid, gid)
            os.chown(self.portal, uid, gid, follow_symlinks=False)
        except OSError as error:
            message = f"{self.portal} cannot be given to another user: {error.strerror}."
            raise DataFolderError(message) from error

    # --- one user at a time ------------------------------------------------------------------------------------

    def acquire(self) -> None:
        """Lock the folder for this process. Raises DataFolderError if another bin/up has locked it."""
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
        """Wait until this process can lock the folder. Returns False if another process still locks it after
        ``seconds``.
        """
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
        """Return the id of the process that last wrote to the lock file. The process is alive only while the folder is
        locked.
        """
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
        """Return the value in the file; None if the file does not exist or is damaged."""
        try:
            return json.loads((self.path / name).read_text())
        except (OSError, ValueError):
            return None

    def write_json(self, name: str, value: Any) -> None:
        self.write_private(name, json.dumps(value, indent=1) + "\n")

    def write_private(self, name: str, text: str) -> None:
        """Replace the file atomically; only its owner can read it."""
        path = self.path / name
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.unlink(missing_ok=True)
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
        temporary.replace(path)


def _give(name: str, folder: int, owners: set[int], uid: int, gid: int) -> None:
    """Change the owner of a folder or file that belongs to one of ``owners``. It is changed by its descriptor, because
    its name may refer to another file a moment later.
    """
    descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=folder)
    try:
        found = os.fstat(descriptor)
        alone = stat.S_ISDIR(found.st_mode) or (not stat.S_ISLNK(found.st_mode) and found.st_nlink == 1)
        if found.st_uid != uid and found.st_uid in owners and alone:
            os.chown(f"/proc/self/fd/{descriptor}", uid, gid)
    finally:
        os.close(descriptor)


def fingerprint(paths: list[Path], *extra: str) -> str:
    """Return a checksum over the contents of files and over additional texts."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    for text in extra:
        digest.update(f"{text}\0".encode())
    return digest.hexdigest()
