"""The boot source of a guest: its own disk or a rescue disk, with the disk's boot sector or with a kernel
of the image.
"""

import os
import shutil
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

from compute_agent.contract.build import ImageRef, InstanceSpec, boot_volume
from compute_agent.contract.guest_hardware import guest_hardware
from compute_agent.contract.hardware import Hardware
from compute_agent.virt.driver import BootFiles
from compute_agent.virt.errors import RetryableHostError
from compute_agent.virt.libvirt.paths import InstancePaths

COMMAND_LINE = "root=/dev/vda console=tty0 console=ttyS0"
"""The kernel's command line if the image has no property ``os_command_line``."""


@dataclass(frozen=True)
class Boot:
    """The current boot source: the guest's own disks in boot order, without empty disks, and the kernel."""

    image: ImageRef
    disks: tuple[Path, ...]
    cd: Path | None
    """The image in its CD-ROM drive."""
    seed: Path
    kernel: Path | None
    ramdisk: Path | None
    hardware: Hardware

    @property
    def command_line(self) -> str:
        return self.image.properties.get("os_command_line") or COMMAND_LINE


def boot_of(spec: InstanceSpec, paths: InstancePaths) -> Boot:
    """Return the guest's boot source, rescued or not."""
    own, rescue = (paths.root_disk,) if boot_volume(spec) is None else (), spec.rescue
    cd, hardware = paths.cd if paths.cd.exists() else None, guest_hardware(spec)
    if rescue is None:
        kernel = paths.kernel if spec.kernel else None
        ramdisk = paths.ramdisk if kernel and spec.ramdisk else None
        return Boot(spec.image, own, cd, paths.seed, kernel, ramdisk, hardware)
    kernel = paths.rescue_kernel if rescue.kernel else None
    ramdisk = paths.rescue_ramdisk if kernel and rescue.ramdisk else None
    return Boot(rescue.image, (paths.rescue_disk, *own), cd, paths.rescue_seed, kernel, ramdisk, hardware)


def add_kernel(system: ET.Element, boot: Boot, clean_line: str) -> None:
    """Add the kernel, if any, to the domain's ``os`` element."""
    if boot.kernel is None:
        return
    ET.SubElement(system, "kernel").text = str(boot.kernel)
    if boot.ramdisk is not None:
        ET.SubElement(system, "initrd").text = str(boot.ramdisk)
    ET.SubElement(system, "cmdline").text = clean_line


def install(files: BootFiles, kernel: Path, ramdisk: Path) -> None:
    """Store the kernel and the ramdisk at these paths, replacing those of an earlier image. Raises RetryableHostError.

    Both are hard links: the cache never changes a file, and may remove a file from which a guest still boots.
    """
    for source, target in ((files.kernel, kernel), (files.ramdisk, ramdisk)):
        try:
            target.unlink(missing_ok=True)
            if source is not None:
                _link(source, target)
        except OSError as error:
            raise RetryableHostError("The host has no space for the guest's kernel.", detail=str(error)) from error


def remove_rescue(paths: InstancePaths) -> None:
    """Remove the files of a rescue."""
    for path in (paths.rescue_disk, paths.rescue_seed, paths.rescue_kernel, paths.rescue_ramdisk):
        path.unlink(missing_ok=True)
    remove_rescue_variables(paths)


def remove_rescue_variables(paths: InstancePaths) -> None:
    """Remove the firmware variables of a rescue, so that the next rescue starts with new variables."""
    for secure_boot in (True, False):
        paths.variables(secure_boot=secure_boot, rescue=True).unlink(missing_ok=True)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # the cache is on another file system
        shutil.copyfile(source, target)
