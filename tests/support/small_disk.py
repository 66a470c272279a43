"""A file system with little room."""

from __future__ import annotations

import contextlib
import errno
import subprocess
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """Give a folder that has room for so much (``24M``), for as long as the block lasts."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Take all the room that is left; return the file that has it."""
    path = folder / "filler"
    with path.open("wb", buffering=0) as file:
        for piece in (1 << 20, 4096):
            try:
                while file.write(bytes(piece)) == piece:
                    pass
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
    return path
