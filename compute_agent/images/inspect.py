"""What kind of file an image is, read from its bytes before any program opens it."""

from __future__ import annotations

from pathlib import Path

from oslo_utils.imageutils import format_inspector

from compute_agent.contract.build import ImageRef
from compute_agent.virt.errors import ImageUnacceptableError

SEEN_AS = {"qcow2": frozenset({"qcow2"}), "raw": frozenset({"raw", "gpt", "iso"})}
"""What a file of a declared format may look like: a raw disk often begins with a partition table or is a CD's."""


def inspect(path: Path, image: ImageRef) -> int:
    """Return the size in bytes of the disk that the image describes.

    Raises ImageUnacceptableError when the file is of another format than declared, or when it could make the host read
    other files: a backing file, an external data file, features that are not known.
    """
    allowed = SEEN_AS.get(image.disk_format)
    if allowed is None:
        raise ImageUnacceptableError(
            f"Image {image.name!r} has format {image.disk_format!r}; hosts open qcow2 and raw."
        )
    try:
        inspector = format_inspector.detect_file_format(str(path))
    except format_inspector.ImageFormatError as error:
        raise ImageUnacceptableError(f"The format of image {image.name!r} is ambiguous.", detail=str(error)) from error
    if inspector is None:
        raise ImageUnacceptableError(f"The format of image {image.name!r} is not known.")
    seen = str(inspector)
    if seen not in allowed:
        raise ImageUnacceptableError(f"Image {image.name!r} is declared as {image.disk_format} but is {seen}.")
    if seen != "raw":
        try:
            inspector.safety_check()
        except format_inspector.SafetyCheckFailed as error:
            reasons = ", ".join(sorted(error.failures)).replace("_", " ")
            message = f"Image {image.name!r} is not safe to open: {reasons}."
            raise ImageUnacceptableError(message, detail=str(error)) from error
    return path.stat().st_size if image.disk_format == "raw" else int(inspector.virtual_size)
