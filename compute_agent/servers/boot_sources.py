"""What a guest is made from and boots from, fetched to this host."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from compute_agent.contract.build import ImageRef
from compute_agent.servers.services import ImageStore
from compute_agent.virt.driver import BootFiles


@dataclass(frozen=True)
class BootSources:
    """The image's file in the cache (None in a fake one), and those of the kernel and the ramdisk it names."""

    disk: Path | None
    boot: BootFiles
    facts: dict[str, str]
    """What is worth telling of the fetching."""


def fetch(
    images: ImageStore, instance_uuid: str, image: ImageRef, kernel: ImageRef | None, ramdisk: ImageRef | None
) -> BootSources:
    """Bring the images to the cache where they are not there yet.  Raises ImageUnacceptableError, ImageFetchError."""
    began = time.monotonic()
    found = [images.get(each, instance_uuid) if each is not None else None for each in (image, kernel, ramdisk)]
    got = [each for each in found if each is not None]
    disk, kernel_path, ramdisk_path = (each.path if each is not None else None for each in found)
    facts = {
        "cached": "true" if all(each.cached for each in got) else "false",
        "bytes": str(sum(each.size for each in got)),
        "seconds": f"{time.monotonic() - began:.3f}",
    }
    return BootSources(disk, BootFiles(kernel_path, ramdisk_path), facts)
