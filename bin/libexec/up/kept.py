"""Keeps files that every new data folder needs and no cloud changes: guest image, migrated database, static files.

The account that runs bin/up creates them once for a checkout; each new data folder gets a copy.  ``python bin/libexec
up.kept FROM TO`` copies; the caller's account owns the copy.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]
FOLDER = CHECKOUT / ".cache/up"
MOST_VERSIONS = 2
"""Number of versions that are kept of each kind of file: the most recently used ones."""
DAY = 86_400.0


def find(name: str, key: str) -> Path | None:
    """Return the file or folder that is kept under the key, None if there is none."""
    path = _path(name, key)
    if not path.exists():
        return None
    with contextlib.suppress(OSError):  # it has another owner
        os.utime(path)
    return path


def make(name: str, key: str, work: Callable[[Path], Path]) -> Path:
    """Call ``work`` with an empty folder, and keep the file or folder that it returns. All accounts can read it.

    Raises OSError if nothing can be kept in this checkout, and the errors of ``work``.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER, prefix=".new-") as folder:
        made = work(Path(folder))
        if made.is_file():
            made.chmod(0o644)
        with contextlib.suppress(FileExistsError):  # another bin/up was first
            made.rename(_path(name, key))
    _forget(name)
    return _path(name, key)


def copy(kept: Path, target: Path) -> None:
    """Copy a folder, or a file with access only for its owner. At any time, ``target`` is complete or does
    not exist.
    """
    part = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if kept.is_dir():
            shutil.copytree(kept, part)
        else:
            with kept.open("rb") as source, os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
                shutil.copyfileobj(source, file, 1 << 20)
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
        with contextlib.suppress(OSError):
            part.unlink()


def _path(name: str, key: str) -> Path:
    return FOLDER / f"{name}-{key[:32]}"


def _forget(name: str) -> None:
    """Remove remnants of killed runs, and all versions except the most recently used ones."""
    with contextlib.suppress(OSError):
        left = [path for path in FOLDER.glob(".new-*") if path.stat().st_mtime < time.time() - DAY]  # by a killed run
        versions = sorted(FOLDER.glob(f"{name}-*"), key=lambda path: path.stat().st_mtime)
        for old in (*left, *versions[:-MOST_VERSIONS]):
            if old.is_dir():
                shutil.rmtree(old)
            else:
                old.unlink()


if __name__ == "__main__":
    copy(Path(sys.argv[1]), Path(sys.argv[2]))
