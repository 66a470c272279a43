"""What kind of file an image is, read from its bytes before any program opens it."""

from __future__ import annotations

from pathlib import Path

from oslo_utils.imageutils import format_inspector

from compute_agent.contract.build import ImageRef
from compute_agent.contract.disk_formats import FORMATS
from compute_agent.contract.disk_structure import DiskStructureError, virtual_size
from compute_agent.virt.errors import ImageUnacceptableError

PIECE = 1 << 20
MBR_SIGNATURE = b"\x55\xaa"


def inspect(path: Path, image: ImageRef) -> int:
    """Return the size in bytes of the disk that the image describes; a kernel or ramdisk is as large as its file.

    Raises ImageUnacceptableError when the file is of another format than declared, or when it could make the host read
    other files: a backing file, an external data file, a parent, an extent, features that are not known.
    """
    known = FORMATS.get(image.disk_format)
    if known is None:
        raise ImageUnacceptableError(
            f"Image {image.name!r} has format {image.disk_format!r}; hosts open {', '.join(FORMATS)}."
        )
    found = _formats(path, image)
    # A raw image may be a CD's: nothing in it is believed.
    if not known.fits(set(found)) and not (known.name == "raw" and "iso" in found and set(found) <= {"iso", "gpt"}):
        seen = " and ".join(sorted(found))
        raise ImageUnacceptableError(f"Image {image.name!r} is declared as {image.disk_format} but is {seen}.")
    if not known.is_raw:
        _check_safety(found, image)
    if known.name == "iso":
        _check_boots_from_disk(path, image)
    if known.name == "qcow2":
        return int(found["qcow2"].virtual_size)
    try:
        with path.open("rb") as file:
            return virtual_size(file, path.stat().st_size, known.name)
    except DiskStructureError as error:
        raise ImageUnacceptableError(f"Image {image.name!r} is not safe to open, or not whole: it {error}.") from error


def _formats(path: Path, image: ImageRef) -> dict[str, format_inspector.FileInspector]:
    """Return every inspector that recognises the file, by name; the file is read once."""
    with path.open("rb") as file:
        wrapper = format_inspector.InspectWrapper(file)
        try:
            while wrapper.read(PIECE):
                pass
            wrapper.close()
            return {str(found): found for found in wrapper.formats or []}
        except Exception as error:  # an inspector that stumbles has at least taken it for its own
            raise ImageUnacceptableError(
                f"The format of image {image.name!r} is not known.", detail=repr(error)
            ) from error


def _check_safety(found: dict[str, format_inspector.FileInspector], image: ImageRef) -> None:
    for inspector in found.values():
        try:
            inspector.safety_check()
        except format_inspector.SafetyCheckFailed as error:
            reasons = ", ".join(sorted(error.failures)).replace("_", " ")
            message = f"Image {image.name!r} is not safe to open: {reasons}."
            raise ImageUnacceptableError(message, detail=str(error)) from error
        except format_inspector.ImageFormatError as error:
            raise ImageUnacceptableError(f"Image {image.name!r} is not whole.", detail=str(error)) from error


def _check_boots_from_disk(path: Path, image: ImageRef) -> None:
    """Refuse a CD image that has no boot sector: a guest has it as a disk."""
    with path.open("rb") as file:
        if file.read(512)[510:] != MBR_SIGNATURE:
            raise ImageUnacceptableError(
                f"Image {image.name!r} boots from a CD drive only: guests have it as a disk, which a hybrid ISO allows."
            )
