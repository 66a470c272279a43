"""The cached images that the disks of this host are based on. They are determined by reading the disks, because records
can be lost.
"""

import re
from pathlib import Path

from compute_agent.disk_formats import qcow2
from compute_agent.disk_formats.reading import DiskFormatError

NAME = re.compile(r"[a-z0-9]+-[0-9a-f]{32,128}(?:-[a-z0-9]+)?")
"""The name of an image's file in the cache."""


class UnreadableDiskError(Exception):
    """It is unknown which image a disk is based on."""


def bases_of(folder: Path) -> set[str]:
    """Return the names of the cached images that files anywhere below ``folder`` are based on.

    Raises UnreadableDiskError for a damaged qcow2 file, because its base is unknown.
    """
    result: set[str] = set()
    for path in folder.rglob("*"):
        try:
            if not path.is_file() or path.is_symlink():
                continue
            with path.open("rb") as file:
                backing = qcow2.backing_file(file)
        except FileNotFoundError:
            continue  # its guest was deleted a moment ago
        except (OSError, DiskFormatError) as error:
            raise UnreadableDiskError(f"{path}: {error}") from error
        result.update(NAME.findall(backing))
    return result
