"""The format of a downloaded image file, read from its bytes before any program opens it."""

from functools import partial
from pathlib import Path

from compute_agent.contract.build import ImageRef
from compute_agent.disk_formats.formats import FORMATS
from compute_agent.disk_formats.inspection import Inspector
from compute_agent.disk_formats.reading import PIECE, DiskFormatError
from compute_agent.virt.errors import ImageUnacceptableError


def inspect(path: Path, image: ImageRef) -> int:
    """Return the size in bytes of the disk in the image file; for a kernel or a ramdisk, the size of the file.

    Raises ImageUnacceptableError if the file has another format than declared, or if it could cause the host to read
    other files: a backing file, an external data file, a parent, an extent, or unknown features.
    """
    if image.disk_format not in FORMATS:
        raise ImageUnacceptableError(
            f"Image {image.name!r} has format {image.disk_format!r}; hosts open {', '.join(FORMATS)}."
        )
    with path.open("rb") as file:
        inspector = Inspector(iter(partial(file.read, PIECE), b""))
        for _ in inspector:
            pass
        try:
            return inspector.check(image.disk_format, file, path.stat().st_size)
        except DiskFormatError as error:
            raise ImageUnacceptableError(f"Image {image.name!r} {error}.") from error
