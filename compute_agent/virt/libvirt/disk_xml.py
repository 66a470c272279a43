"""Disks in a domain's XML: files in the guest's directory, and volumes, which every guest reaches by NBD."""

import itertools
import re
import string
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from compute_agent.contract.build import GuestDisk, InstanceSpec, VolumeConnection, is_cd
from compute_agent.contract.guest_hardware import is_stable
from compute_agent.contract.hardware import DEFAULT, PREFIXES, Hardware
from compute_agent.contract.hardware_properties import RESCUE_BUS, RESCUE_DEVICE
from compute_agent.virt.libvirt.boot import Boot
from compute_agent.virt.libvirt.disks import local_disks
from compute_agent.virt.libvirt.paths import InstancePaths

USB_MODEL = "qemu-xhci"
_NAME = re.compile(r"(vd|sd|hd)[a-z]{1,2}")


@dataclass(frozen=True)
class _Disk:
    """A disk before names are assigned."""

    bus: str
    device: str  # the requested name; empty: any
    boot_index: int | None
    file: Path | None = None
    kind: str = ""
    volume: GuestDisk | None = None
    device_type: str = "disk"


def boots_by_order(spec: InstanceSpec, boot: Boot) -> bool:
    """Return whether disks have an explicit boot order. Otherwise the guest boots from the first disk."""
    if is_stable(spec) or boot.cd is not None:
        return True
    indices = [volume.boot_index for volume in spec.volumes] + [disk.boot_index for disk in spec.local_disks or []]
    return any(index is not None for index in indices)


def add_disks(devices: ET.Element, spec: InstanceSpec, paths: InstancePaths, boot: Boot) -> None:
    """Add the guest's disks: boot disks, empty disks, volumes and seed."""
    disks, hardware = list(_disks(spec, paths, boot)), boot.hardware
    names = assign([(disk.bus, disk.device) for disk in disks], {hardware.seed_device})
    order = _boot_order(disks) if boots_by_order(spec, boot) else {}
    for number, (disk, name) in enumerate(zip(disks, names, strict=True)):
        if disk.volume is not None:
            element = volume_element(disk.volume, name, hardware)
            devices.append(element)
        else:
            element = _file_element(devices, disk, name, hardware)
        if number in order:
            ET.SubElement(element, "boot", order=str(order[number]))
    cdrom = ET.SubElement(devices, "disk", type="file", device="cdrom")
    ET.SubElement(cdrom, "driver", name="qemu", type="raw")
    ET.SubElement(cdrom, "source", file=str(boot.seed))
    ET.SubElement(cdrom, "target", dev=hardware.seed_device, bus=hardware.cdrom_bus)
    ET.SubElement(cdrom, "readonly")
    buses = {disk.bus for disk in disks} | {hardware.cdrom_bus}
    if "scsi" in buses:
        devices.append(scsi_controller(hardware))
    usb = "usb" in buses or hardware.tablet or "usb" in {hardware.input_bus, hardware.sound_model}
    model = hardware.usb_model or (USB_MODEL if usb else "none")
    ET.SubElement(devices, "controller", type="usb", model=model)


def _disks(spec: InstanceSpec, paths: InstancePaths, boot: Boot) -> Iterator[_Disk]:
    rescued, stable, bus = spec.rescue is not None, is_stable(spec), boot.hardware.disk_bus
    for number, path in enumerate(boot.disks[1:] if stable else boot.disks):
        first = number == 0
        device = boot.hardware.root_device if first else ""
        yield _Disk(bus, device, 0 if first and not stable else None, file=path, kind="qcow2")
    for local in local_disks(spec, paths):
        index = None if rescued else local.disk.boot_index
        yield _Disk(bus, local.disk.device, index, file=local.path, kind="raw")
    for volume in spec.volumes:
        yield _Disk(bus_of(volume), volume.device, None if rescued else volume.boot_index, volume=volume)
    if boot.cd is not None:  # after the root disk, which is empty until an installation
        drive = boot.hardware.cdrom_bus
        yield _Disk(drive, "", None if rescued else 1, file=boot.cd, kind="qcow2", device_type="cdrom")
    if stable:
        yield _rescue_disk(boot)


def _rescue_disk(boot: Boot) -> _Disk:
    properties = boot.image.properties
    kind = "cdrom" if properties.get(RESCUE_DEVICE.image, "cdrom" if is_cd(boot.image) else "") == "cdrom" else "disk"
    bus = properties.get(RESCUE_BUS.image, "")
    if bus not in PREFIXES or (kind, bus) == ("cdrom", "virtio") or (bus == "ide" and boot.hardware.q35):
        bus = boot.hardware.cdrom_bus if kind == "cdrom" else boot.hardware.disk_bus
    return _Disk(bus, "", 0, file=boot.disks[0], kind="qcow2", device_type=kind)


def _boot_order(disks: Iterable[_Disk]) -> dict[int, int]:
    """Return disk index → position in the boot order, for the disks that have a boot index."""
    ranked = [(disk.boot_index, number) for number, disk in enumerate(disks) if disk.boot_index is not None]
    return {number: place for place, (_, number) in enumerate(sorted(ranked), start=1)}


def assign(requested: Iterable[tuple[str, str]], taken: set[str]) -> list[str]:
    """Return a name for each disk. ``requested``: the bus and the requested name of each; a disk gets that name
    if it is free.

    libvirt orders the disks of a bus by name.
    """
    disks, taken = [(bus, name_of(device)) for bus, device in requested], set(taken)
    names: list[str] = []
    for bus, name in disks:
        fits = name.startswith(PREFIXES[bus]) and name not in taken
        names.append(name if fits else "")
        taken.add(names[-1])
    for number, (bus, _) in enumerate(disks):
        if not names[number]:
            names[number] = next(name for name in _all_names(PREFIXES[bus]) if name not in taken)
            taken.add(names[number])
    return names


def name_of(device: str) -> str:
    """Return the name of a device without its directory; empty if it is invalid."""
    name = device.removeprefix("/dev/")
    return name if _NAME.fullmatch(name) else ""


def _all_names(prefix: str) -> Iterator[str]:
    letters = string.ascii_lowercase
    yield from (prefix + letter for letter in letters)
    yield from (prefix + first + second for first, second in itertools.product(letters, letters))


def bus_of(volume: GuestDisk) -> str:
    """Return the bus of a volume. CD-ROMs and LUNs require a bus with SCSI commands."""
    if volume.kind != "disk" and volume.bus == "virtio":
        return "scsi"
    return volume.bus if volume.bus in PREFIXES else "virtio"


def scsi_controller(hardware: Hardware = DEFAULT) -> ET.Element:
    """Return the controller of SCSI disks."""
    return ET.Element("controller", type="scsi", index="0", model=hardware.scsi_model)


def volume_element(volume: GuestDisk, name: str, hardware: Hardware = DEFAULT) -> ET.Element:
    """Return the disk element of a volume. Storage errors pause the guest, so that no write is lost."""
    disk = ET.Element("disk", type="network", device="cdrom" if volume.kind == "cdrom" else "disk")
    driver = {"name": "qemu", "type": "raw", "cache": "none", "discard": "unmap"}
    driver |= {"error_policy": "stop", "rerror_policy": "stop"} | _rings(hardware, bus_of(volume))
    ET.SubElement(disk, "driver", driver)
    disk.append(source_element(volume.connection))
    ET.SubElement(disk, "target", dev=name, bus=bus_of(volume))
    if volume.iotune:
        disk.append(limits_element(volume.iotune))
    if volume.read_only or volume.kind == "cdrom":
        ET.SubElement(disk, "readonly")
    if volume.shareable:
        ET.SubElement(disk, "shareable")
    ET.SubElement(disk, "serial").text = volume.serial or volume.id
    if volume.attachment_id:
        ET.SubElement(disk, "alias", name=f"ua-{volume.attachment_id}")
    return disk


def source_element(connection: VolumeConnection) -> ET.Element:
    """Return the source of a volume's disk."""
    source = ET.Element("source", protocol="nbd", name=connection.export, tls="yes" if connection.tls else "no")
    if connection.socket:
        ET.SubElement(source, "host", transport="unix", socket=connection.socket)
        return source
    if connection.tls_hostname:
        source.set("tlsHostname", connection.tls_hostname)
    ET.SubElement(source, "host", name=connection.address, port=str(connection.port))
    return source


def limits_element(limits: dict[str, int]) -> ET.Element:
    """Return the I/O limits of a disk."""
    element = ET.Element("iotune")
    for name, value in sorted(limits.items()):
        ET.SubElement(element, name).text = str(value)
    return element


def _rings(hardware: Hardware, bus: str) -> dict[str, str]:
    return {"packed": "on"} if hardware.packed_rings and bus == "virtio" else {}


def _file_element(devices: ET.Element, requested: _Disk, name: str, hardware: Hardware) -> ET.Element:
    disk = ET.SubElement(devices, "disk", type="file", device=requested.device_type)
    driver = {"name": "qemu", "type": requested.kind, "cache": "writeback", "discard": "unmap"}
    ET.SubElement(disk, "driver", driver | _rings(hardware, requested.bus))
    ET.SubElement(disk, "source", file=str(requested.file))
    ET.SubElement(disk, "target", dev=name, bus=requested.bus)
    if requested.device_type == "cdrom":
        ET.SubElement(disk, "readonly")
    elif hardware.disk_limits:
        disk.append(limits_element(hardware.disk_limits))
    return disk
