"""Guests that cost nothing while they run: a boot sector that writes a text to the serial port and stops the processor.

They are for tests whose subject is what the host does; Linux in a guest costs eight processor-seconds until it rests.
"""

from __future__ import annotations

import hashlib
import random
import subprocess
from pathlib import Path

from compute_agent.contract.build import ImageRef
from tests.support.guest_image import GuestImage

SECTOR = 512
PRINTING = bytes.fromhex("e80000 5e 83c613 baf803 2eac 84c0 7403 ee ebf7 f4ebfd")
"""The code of the boot sector: it writes the text behind it to the serial port, and stops."""
TEXT = "This is a small guest: it has nothing to do, and does it."
CONTENT = 8 << 20
"""Bytes on the disk: a copy of it takes a moment."""


def boot_sector(text: str) -> bytes:
    return (PRINTING + text.encode() + b"\r\n\0").ljust(SECTOR - 2, b"\0") + b"\x55\xaa"


def offered(path: Path, number: int, disk_format: str) -> ImageRef:
    """Return what the record of an image in this file says."""
    return ImageRef(
        id=f"9c000000-0000-4000-8000-0000000003{number:02}",
        name=path.name,
        disk_format=disk_format,
        size=path.stat().st_size,
        hash_algo="sha512",
        hash_value=hashlib.sha512(path.read_bytes()).hexdigest(),
    )


def disk(text: str = TEXT) -> bytes:
    """Return a raw disk that boots and holds more than its boot sector."""
    return boot_sector(text) + random.Random(text).randbytes(CONTENT - SECTOR)  # noqa: S311 - the same each time


def small_image(folder: Path) -> GuestImage:
    """Write the image of a small guest."""
    raw, path = folder / "small.raw", folder / "small.qcow2"
    raw.write_bytes(disk())
    subprocess.run(["qemu-img", "convert", "-O", "qcow2", raw, path], check=True)
    raw.unlink()
    return GuestImage(path, offered(path, 0, "qcow2"))
