"""Files that are complete on the disk before their name refers to them."""

import os
from pathlib import Path


def replace(path: Path, content: bytes) -> None:
    """Replace the content of a file in one step, durably: a crash of the machine does not undo it."""
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        part.chmod(0o600)
        file.write(content)
    keep(part, path)


def keep(part: Path, path: Path) -> None:
    """Rename a finished file to ``path``, durably: a crash of the machine undoes neither its content nor its name."""
    sync(part)
    part.replace(path)
    sync(path.parent)


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
