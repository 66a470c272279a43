"""Attachment, detachment and swap of volumes, and updates of their exports, sizes and limits."""

import logging
import socket
import time
import xml.etree.ElementTree as ET
from functools import partial
from typing import Any

import libvirt

from compute_agent.contract.build import GuestDisk, InstanceSpec
from compute_agent.contract.guest_hardware import guest_hardware
from compute_agent.contract.hardware import COLD_BUSES, Hardware
from compute_agent.virt.driver import Stopped, never
from compute_agent.virt.errors import RetryableHostError, UnsupportedError
from compute_agent.virt.libvirt import disk_xml, monitor, reopening, swapping
from compute_agent.virt.libvirt import volume_table as table
from compute_agent.virt.libvirt.connection import if_defined, translated
from compute_agent.virt.libvirt.disks import GIB
from compute_agent.virt.libvirt.domains import Domains
from compute_agent.virt.libvirt.power import ERROR_STATE
from compute_agent.virt.libvirt.unplugging import LETS_GO_WITHIN, unplug
from compute_agent.virt.libvirt.volume_table import DEFINED, RUNS, exports_in, target_of, tree_of, volumes_in

log = logging.getLogger(__name__)

FORCED_AFTER = 5.0
"""Seconds in which a guest has to release a volume before it is detached by force."""
GOES_ON_TRIES, GOES_ON_PAUSE = 20, 0.1
"""Number of attempts to resume a guest after a storage error, and seconds between them. QEMU reopens a lost connection
only when the guest sends a request, and this request fails, so that the guest is paused again.
"""
REACH_SECONDS = 2.0
_LIVE, _CONFIG = libvirt.VIR_DOMAIN_AFFECT_LIVE, libvirt.VIR_DOMAIN_AFFECT_CONFIG
LIMITS = (
    "total_bytes_sec", "read_bytes_sec", "write_bytes_sec", "total_iops_sec", "read_iops_sec", "write_iops_sec",
    "total_bytes_sec_max", "read_bytes_sec_max", "write_bytes_sec_max", "total_iops_sec_max", "read_iops_sec_max",
    "write_iops_sec_max", "size_iops_sec",
)  # fmt: skip
"""Limits of ``disk.iotune``; omitted ones are unlimited."""


class VolumeOperations(Domains):
    """The driver's operations on the volumes of guests."""

    def attach_volume(self, spec: InstanceSpec, disk: GuestDisk) -> None:
        domain, disk = self._domain(spec.uuid), self._reachable(disk)
        with translated("attach the volume to the guest"):
            _refuse_suspended(domain)
            runs, defined = tree_of(domain, RUNS), tree_of(domain, DEFINED)
            flags = _CONFIG if table.find(defined, disk) is None else 0
            if domain.isActive() and table.find(runs, disk) is None:
                _refuse_cold(disk)
                self._clear_left(spec.uuid, domain, disk)
                flags |= _LIVE
            if flags:
                hardware = guest_hardware(spec)
                _have_controller(domain, disk, runs if flags & _LIVE else defined, flags, hardware)
                name = disk_xml.assign([(disk_xml.bus_of(disk), disk.device)], table.names_in(runs, defined))[0]
                domain.attachDeviceFlags(_text(disk_xml.volume_element(disk, name, hardware)), flags)

    def detach_volume(self, spec: InstanceSpec, disk: GuestDisk, *, force: bool = False) -> None:
        domain = self._find(spec.uuid)
        if domain is None:
            return
        with translated("detach the volume from the guest"):
            if force and not domain.isActive() and domain.hasManagedSaveImage():
                domain.managedSaveRemove()
            if table.find(tree_of(domain, RUNS), disk) is not None:
                _refuse_suspended(domain)
            self._unplug(domain, disk, force=force)
            element = table.find(tree_of(domain, DEFINED), disk)
            if element is not None:
                domain.detachDeviceFlags(_text(element), _CONFIG)

    def refresh_volume(self, spec: InstanceSpec, disk: GuestDisk) -> None:
        domain, disk = self._domain(spec.uuid), self._reachable(disk)
        with translated("update the guest's disk to its volume"):
            if domain.isActive():
                running = table.find(tree_of(domain, RUNS), disk)
                if running is None:
                    raise RetryableHostError("The guest does not have the volume.")
                self._refresh(domain, running, disk)
            self._redefine_disk(domain, disk, disk)

    def swap_volume(self, spec: InstanceSpec, old: GuestDisk, new: GuestDisk, stopped: Stopped = never) -> None:
        domain, new = self._domain(spec.uuid), self._reachable(new)
        with translated("replace the volume"):
            runs = tree_of(domain, RUNS)
            element = table.find(runs, new)
            if element is None:
                element = table.find(runs, old)
                if element is None:
                    raise RetryableHostError("The guest does not have the volume.")
                if not domain.isActive():
                    raise UnsupportedError("A volume can be swapped only while its guest is running.")
                if not swapping.is_on(element, new):  # otherwise an earlier agent died in the last step
                    reopening.wake(domain, _index(element))
                    swapping.copy(domain, target_of(element), new, stopped)
                table.note(domain, target_of(element), table.Owner.of(new))
            if domain.isActive():
                _set_limits(domain, target_of(element), new)
            self._redefine_disk(domain, old, new)

    def volumes(self) -> dict[str, list[str]]:
        with translated("list the guests' volumes"):
            seen = [(mark.uuid, if_defined(partial(tree_of, domain, RUNS))) for domain, mark in self._marked()]
        return {uuid: sorted(volumes_in(tree)) for uuid, tree in seen if tree is not None}

    def attachments(self) -> dict[str, dict[str, str]]:
        with translated("list the guests' volumes"):
            seen = [(mark.uuid, if_defined(partial(tree_of, domain, RUNS))) for domain, mark in self._marked()]
        return {uuid: table.attachments_in(tree) for uuid, tree in seen if tree is not None}

    def open_exports(self) -> set[str]:
        with translated("list the guests' volumes"):
            active = [domain for domain, _ in self._marked() if if_defined(domain.isActive)]
            trees = [if_defined(partial(tree_of, domain, RUNS)) for domain in active]
        return {name for tree in trees if tree is not None for name in exports_in(tree)}

    def resume_after_error(self, uuid: str) -> bool:
        domain = self._find(uuid)
        if domain is None:
            return False
        with translated("resume the guest"):
            if domain.state() != ERROR_STATE:
                return False
            failed = domain.diskErrors()
            disks = {target_of(disk): disk for disk in volumes_in(tree_of(domain, RUNS)).values()}
            places = [reopening.place(domain, _index(disk)) for target, disk in disks.items() if target in failed]
            if not places or not all(_answers(where) for _, where in places):
                return False
            for _ in range(GOES_ON_TRIES):
                domain.resume()
                time.sleep(GOES_ON_PAUSE)
                if domain.state() != ERROR_STATE:
                    return True
        return False

    # --- parts ------------------------------------------------------------------------------------------------------

    def _refresh(self, domain: Any, element: ET.Element, disk: GuestDisk) -> None:
        """Update the export, size and limits of a running guest's disk without interruption."""
        target = target_of(element)
        reopening.move(domain, _index(element), disk.connection, str(self._paths.certificates))
        # Necessary even if QEMU has the new size already: only this call notifies the guest.
        domain.blockResize(target, disk.size_gb * GIB, libvirt.VIR_DOMAIN_BLOCK_RESIZE_BYTES)
        _set_limits(domain, target, disk)

    @staticmethod
    def _redefine_disk(domain: Any, before: GuestDisk, disk: GuestDisk) -> None:
        """Replace ``before`` by ``disk`` in the guest's definition. The disk keeps its name and address."""
        defined = tree_of(domain, DEFINED)
        element = table.find(defined, before)
        if element is None:
            element = table.find(defined, disk)
        if element is None:
            raise RetryableHostError("The guest does not have the volume.", detail="the definition lacks the disk")
        fresh = disk_xml.volume_element(disk, target_of(element))
        bus, kept = element.find("target"), [element.find(tag) for tag in ("boot", "address")]
        driver = element.find("driver")
        if driver is not None and driver.get("packed"):
            fresh.find("driver").set("packed", driver.get("packed", ""))  # type: ignore[union-attr]
        fresh.extend([each for each in kept if each is not None])
        if bus is not None:
            fresh.find("target").set("bus", bus.get("bus", ""))  # type: ignore[union-attr]
        domain.updateDeviceFlags(_text(fresh), _CONFIG)

    def _unplug(self, domain: Any, disk: GuestDisk, *, force: bool) -> None:
        """Detach the volume from the running guest, if it is attached."""

        def find() -> ET.Element | None:
            return table.find(tree_of(domain, RUNS), disk)

        def text() -> str | None:
            element = find()
            return None if element is None else _text(element)

        element = find()
        if element is None or not domain.isActive():
            return
        target = target_of(element)
        try:
            _refuse_cold(disk)
            unplug(domain, text, "a volume", FORCED_AFTER if force else LETS_GO_WITHIN)
        except (RetryableHostError, UnsupportedError):
            element = find()
            if not force or element is None:
                raise
            self._cut(domain, element)
            table.note(domain, target, table.NOBODY)
            if domain.state() == ERROR_STATE:
                domain.resume()
        else:
            if domain.isActive():
                table.note(domain, target, None)

    @staticmethod
    def _cut(domain: Any, element: ET.Element) -> None:
        alias = element.find("alias")
        swapping.end(domain, target_of(element))
        reopening.cut(domain, _index(element), alias.get("name", "") if alias is not None else "")

    def _clear_left(self, uuid: str, domain: Any, disk: GuestDisk) -> None:
        """Remove the remains of an interrupted attachment of the same disk from QEMU, which libvirt does not know."""
        device = f"{table.ALIAS}{disk.attachment_id}"
        if disk.attachment_id and device in _devices(domain):
            log.warning("The remains of an interrupted attachment are removed from %s first.", domain.name())
            monitor.execute(domain, "device_del", {"id": device})
            deadline = time.monotonic() + LETS_GO_WITHIN
            while device in _devices(domain):
                if time.monotonic() > deadline:
                    raise RetryableHostError("The guest has not released a volume.", detail=f"device {device}")
                time.sleep(GOES_ON_PAUSE)
        with self._no_copy_begins(uuid):
            for node in monitor.unused_nodes(domain):
                monitor.execute(domain, "blockdev-del", {"node-name": node})


def _refuse_suspended(domain: Any) -> None:
    if not domain.isActive() and domain.hasManagedSaveImage():
        raise UnsupportedError("Volumes cannot be attached to or detached from a suspended guest.")


def _refuse_cold(disk: GuestDisk) -> None:
    if disk_xml.bus_of(disk) in COLD_BUSES:
        raise UnsupportedError(f"A running guest does not support hotplug on the bus {disk.bus!r}.")


def _have_controller(domain: Any, disk: GuestDisk, tree: ET.Element, flags: int, hardware: Hardware) -> None:
    """Add a SCSI controller to the guest if the disk needs one and there is none."""
    if disk_xml.bus_of(disk) == "scsi" and tree.find("./devices/controller[@type='scsi']") is None:
        domain.attachDeviceFlags(_text(disk_xml.scsi_controller(hardware)), flags)


def _set_limits(domain: Any, target: str, disk: GuestDisk) -> None:
    """Update the limits of a running guest's disk to those of the volume."""
    limits = {name: disk.iotune.get(name, 0) for name in LIMITS}
    has = domain.blockIoTune(target, _LIVE)
    if any(has.get(name, 0) != value for name, value in limits.items()):
        domain.setBlockIoTune(target, limits, _LIVE)


def _devices(domain: Any) -> set[str]:
    return {each["name"] for each in monitor.ask(domain, "qom-list", {"path": "/machine/peripheral"})}


def _index(disk: ET.Element) -> str:
    """Return the number in the names of the disk's block nodes."""
    source = disk.find("source")
    return source.get("index", "") if source is not None else ""


def _answers(where: str) -> bool:
    """Return whether a process listens at ``where``, a socket path or an address with a port."""
    try:
        if where.startswith("/"):
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(REACH_SECONDS)
                client.connect(where)
        else:
            address, _, port = where.rpartition(":")
            socket.create_connection((address.strip("[]"), int(port)), REACH_SECONDS).close()
    except (OSError, ValueError):
        return False
    return True


def _text(element: ET.Element) -> str:
    return ET.tostring(element, encoding="unicode")
