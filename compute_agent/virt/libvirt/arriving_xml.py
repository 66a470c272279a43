"""The XML of a guest that arrives by live migration.

It is this host's own XML of the guest: paths, sockets, volumes and networks of the sending host never count. Only the
parts that the running guest sees are taken from the offer, each verified: the machine's version, the CPU, the size of
the memory, and the controllers and addresses of devices.
"""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator

from compute_agent.virt.errors import UnsupportedError
from compute_agent.virt.libvirt import emulated_memory, volume_table

MOST_BYTES = 1 << 20
MACHINE = re.compile(r"pc-(i440fx|q35)-[A-Za-z0-9.+-]{1,32}")
WORD = re.compile(r"[A-Za-z0-9_.:+-]{1,64}")
CPU_PARTS = frozenset({"model", "vendor", "topology", "feature", "maxphysaddr"})
CONTROLLER_PARTS = frozenset({"model", "target", "address", "master"})


def arriving_xml(own: str, offered: str) -> str:
    """Return ``own`` with the hardware details of ``offered``, the XML of the running guest on the other host.

    Raises UnsupportedError for XML that is not plausible.
    """
    mine, other = ET.fromstring(own), _parsed(offered)  # noqa: S314 - own text
    _copy_machine(mine, other)
    _copy_cpu(mine, other)
    emulated_memory.follow(mine, other)
    devices, there = mine.find("devices"), other.find("devices")
    if devices is None or there is None:
        raise UnsupportedError("The other host has sent no devices.")
    _copy_controllers(devices, there)
    _order_interfaces(devices, there)
    _copy_names(mine, other)
    elements = dict(_by_key(there))
    for key, device in _by_key(devices):
        address = elements[key].find("address") if key in elements else None
        if device.tag != "controller" and address is not None:
            for each in device.findall("address"):
                device.remove(each)
            device.append(_clean(address, frozenset()))
    ET.indent(mine)
    return ET.tostring(mine, encoding="unicode")


def sized_disks(xml: str) -> list[str]:
    """Return the names of the disks that are writable files of the host: their content is copied."""
    disks = ET.fromstring(xml).findall("devices/disk[@type='file']")  # noqa: S314 - libvirt's own text
    return [name for disk in disks if disk.find("readonly") is None for name in [_name(disk)] if name]


def file_of(xml: str, name: str) -> tuple[str, str]:
    """Return path and format of a file disk in a host's own XML. Raises UnsupportedError if there is none."""
    for disk in ET.fromstring(xml).findall("devices/disk[@type='file']"):  # noqa: S314 - own text
        source, driver = disk.find("source"), disk.find("driver")
        if _name(disk) == name and source is not None and driver is not None:
            return source.get("file", ""), driver.get("type", "")
    raise UnsupportedError("The guest has a disk that this host does not know.", detail=name)


def _parsed(text: str) -> ET.Element:
    if len(text) > MOST_BYTES or "<!" in text:
        raise UnsupportedError("The other host has not sent a valid guest.")
    try:
        return ET.fromstring(text)  # noqa: S314 - no DOCTYPE, and bounded
    except ET.ParseError as error:
        raise UnsupportedError("The other host has not sent a valid guest.", detail=str(error)) from error


def _copy_machine(mine: ET.Element, other: ET.Element) -> None:
    target, source = mine.find("os/type"), other.find("os/type")
    machine = source.get("machine", "") if source is not None else ""
    match = MACHINE.fullmatch(machine)
    if target is None or match is None or ("q35" in target.get("machine", "")) != (match[1] == "q35"):
        raise UnsupportedError("The other host has not sent a valid machine.", detail=machine[:64])
    target.set("machine", machine)


def _copy_cpu(mine: ET.Element, other: ET.Element) -> None:
    cpu, own = other.find("cpu"), mine.find("cpu")
    if cpu is None or own is None:
        return
    place = list(mine).index(own)
    mine.remove(own)
    mine.insert(place, _clean(cpu, CPU_PARTS))


def _copy_controllers(devices: ET.Element, there: ET.Element) -> None:
    for own in devices.findall("controller"):
        devices.remove(own)
    for controller in there.findall("controller"):
        devices.append(_clean(controller, CONTROLLER_PARTS))


def _order_interfaces(devices: ET.Element, there: ET.Element) -> None:
    """Order the interfaces as in the running guest: they may have been attached in another order."""
    order = [_mac(each) for each in there.findall("interface")]
    own = devices.findall("interface")
    for each in own:
        devices.remove(each)
    for each in sorted(own, key=lambda one: order.index(_mac(one)) if _mac(one) in order else len(order)):
        devices.append(each)


def _copy_names(mine: ET.Element, other: ET.Element) -> None:
    """Give each volume the name and the serial number of its disk in the running guest.

    The name may differ from the recorded one. The serial number differs after the volume was swapped, and the owner of
    the disk is then recorded.
    """
    running = volume_table.owned(other)
    noted = dict[str, volume_table.Owner]()
    for owner, disk in volume_table.owned(mine):
        other_disk = next((each for there, each in running if there.is_same(owner)), None)
        target, serial = disk.find("target"), disk.find("serial")
        if other_disk is None or target is None or serial is None:
            continue
        name, shown = _name(other_disk), other_disk.findtext("serial", "")
        if WORD.fullmatch(name):
            target.set("dev", name)
        if WORD.fullmatch(shown) and shown != owner.volume:
            serial.text = shown
            noted[volume_table.target_of(disk)] = owner
    volume_table.note_in(mine, noted)


def _by_key(devices: ET.Element) -> Iterator[tuple[tuple[str, ...], ET.Element]]:
    """Yield the devices with keys that are the same on both hosts."""
    counts: dict[str, int] = {}
    for device in devices:
        number = counts[device.tag] = counts.get(device.tag, -1) + 1
        if device.tag == "disk":
            yield (device.tag, _name(device)), device
        elif device.tag == "interface":
            yield (device.tag, _mac(device)), device
        elif device.tag == "input":
            yield (device.tag, device.get("type", ""), device.get("bus", "")), device
        else:
            yield (device.tag, str(number)), device


def _clean(element: ET.Element, parts: frozenset[str]) -> ET.Element:
    """Return a copy with plain attributes and texts, and with the allowed children."""
    attributes = {
        name: value for name, value in element.attrib.items() if WORD.fullmatch(name) and WORD.fullmatch(value)
    }
    copied = ET.Element(element.tag, attributes)
    text = (element.text or "").strip()
    if text and WORD.fullmatch(text):
        copied.text = text
    copied.extend(_clean(child, frozenset()) for child in element if child.tag in parts)
    return copied


def _name(disk: ET.Element) -> str:
    target = disk.find("target")
    return target.get("dev", "") if target is not None else ""


def _mac(interface: ET.Element) -> str:
    mac = interface.find("mac")
    return mac.get("address", "").lower() if mac is not None else ""
