"""The domain XML of a guest, built as a tree (libvirt's "Domain XML format"), and Novella's mark inside it."""

import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from typing import Literal

from oslo_utils import strutils

from compute_agent.contract.build import InstanceSpec, PortRef
from compute_agent.virt.libvirt.boot import Boot, add_kernel, boot_of
from compute_agent.virt.libvirt.disk_xml import add_disks, boots_by_order
from compute_agent.virt.libvirt.paths import InstancePaths

NAMESPACE = "https://novella.example/xmlns/domain/1"
PREFIX = "novella"
NAME_PREFIX = "novella-"
NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
LINES = re.compile(r"[\t\n\r]+")

VirtType = Literal["kvm", "qemu"]


@dataclass(frozen=True)
class Mark:
    """What Novella writes into a domain to know it again."""

    uuid: str
    attempt: int


def domain_name(uuid: str) -> str:
    """Return the domain's name; no text of a user is part of it."""
    return NAME_PREFIX + uuid


def clean(text: str) -> str:
    """Return ``text`` on one line without what XML 1.0 cannot carry."""
    return LINES.sub(" ", NOT_XML.sub("\ufffd", text))


def domain_xml(spec: InstanceSpec, attempt: int, paths: InstancePaths, virt_type: VirtType) -> str:
    """Return the XML of the guest's domain."""
    domain = ET.Element("domain", type=virt_type)
    _text(domain, "name", domain_name(spec.uuid))
    _text(domain, "uuid", spec.uuid)
    _text(domain, "title", clean(spec.name) or spec.hostname)
    _mark(ET.SubElement(domain, "metadata"), spec, attempt)
    _text(domain, "memory", str(spec.flavor.memory_mb), unit="MiB")
    _text(domain, "vcpu", str(spec.flavor.vcpus))
    _sysinfo(domain, spec)
    system = ET.SubElement(domain, "os")
    _text(system, "type", "hvm", arch="x86_64", machine="pc")
    boot = boot_of(spec, paths)
    add_kernel(system, boot, clean(boot.command_line))
    if not boots_by_order(spec, boot):
        ET.SubElement(system, "boot", dev="hd")
    ET.SubElement(system, "smbios", mode="sysinfo")
    _processor(domain, spec, virt_type)
    for event, action in (("poweroff", "destroy"), ("reboot", "restart"), ("crash", "destroy")):
        _text(domain, f"on_{event}", action)
    _devices(ET.SubElement(domain, "devices"), spec, paths, boot)
    ET.indent(domain)
    return ET.tostring(domain, encoding="unicode") + "\n"


def interface_xml(port: PortRef) -> str:
    """Return the XML of one interface alone, as it stands in a domain."""
    devices = ET.Element("devices")
    _interface(devices, port)
    return ET.tostring(devices[0], encoding="unicode")


def read_mark(uuid: str, metadata: str) -> Mark:
    """Read Novella's element as libvirt returns it; raises ValueError when it is not ours."""
    try:
        element = ET.fromstring(metadata)  # noqa: S314 - libvirt's own output
        return Mark(uuid=uuid, attempt=int(element.attrib["attempt"]))
    except (ET.ParseError, KeyError) as error:
        raise ValueError("not Novella's metadata") from error


def _text(parent: ET.Element, tag: str, text: str, **attributes: str) -> ET.Element:
    element = ET.SubElement(parent, tag, attributes)
    element.text = text
    return element


def _mark(parent: ET.Element, spec: InstanceSpec, attempt: int) -> None:
    instance = ET.SubElement(parent, f"{PREFIX}:instance", {f"xmlns:{PREFIX}": NAMESPACE, "attempt": str(attempt)})
    _text(instance, f"{PREFIX}:name", clean(spec.name))
    _text(instance, f"{PREFIX}:hostname", clean(spec.hostname))
    ET.SubElement(instance, f"{PREFIX}:project", {"id": clean(spec.project_id)})
    ET.SubElement(instance, f"{PREFIX}:user", {"id": clean(spec.user_id)})
    ET.SubElement(instance, f"{PREFIX}:image", {"id": clean(spec.image.id)})
    flavor = spec.flavor
    sizes = {"vcpus": str(flavor.vcpus), "memory_mb": str(flavor.memory_mb), "root_gb": str(flavor.root_gb)}
    ET.SubElement(instance, f"{PREFIX}:flavor", {"name": clean(flavor.name), **sizes})
    if spec.created_at:
        _text(instance, f"{PREFIX}:created_at", clean(spec.created_at))


def _sysinfo(domain: ET.Element, spec: InstanceSpec) -> None:
    # cloud-init recognises the platform by these strings.
    system = ET.SubElement(ET.SubElement(domain, "sysinfo", type="smbios"), "system")
    entries = {"manufacturer": "Novella", "product": "OpenStack Compute", "serial": spec.uuid, "uuid": spec.uuid}
    for name, value in entries.items():
        _text(system, "entry", value, name=name)


def _processor(domain: ET.Element, spec: InstanceSpec, virt_type: VirtType) -> None:
    features = ET.SubElement(domain, "features")
    ET.SubElement(features, "acpi")
    ET.SubElement(features, "apic")
    if virt_type == "qemu":
        # The translation cache would otherwise take up to 1 GiB of the host for each guest.
        cache = min(max(32, spec.flavor.memory_mb // 8), 256)
        _text(ET.SubElement(features, "tcg"), "tb-cache", str(cache), unit="MiB")
    ET.SubElement(domain, "cpu", mode="host-model" if virt_type == "kvm" else "maximum", check="none")
    windows = spec.image.properties.get("os_type") == "windows"
    clock = ET.SubElement(domain, "clock", offset="localtime" if windows else "utc")
    if virt_type == "kvm":
        ET.SubElement(clock, "timer", name="pit", tickpolicy="delay")
        ET.SubElement(clock, "timer", name="rtc", tickpolicy="catchup")
        ET.SubElement(clock, "timer", name="hpet", present="no")


def _devices(devices: ET.Element, spec: InstanceSpec, paths: InstancePaths, boot: Boot) -> None:
    add_disks(devices, spec, paths, boot)
    for port in spec.ports:
        _interface(devices, port)
    serial = ET.SubElement(devices, "serial", type="unix")
    ET.SubElement(serial, "source", mode="bind", path=str(paths.serial_socket))
    # Appending lets the agent cut the log from its beginning while the guest writes.
    ET.SubElement(serial, "log", file=str(paths.console_log), append="on")
    ET.SubElement(serial, "target", port="0")
    if strutils.bool_from_string(boot.image.properties.get("hw_qemu_guest_agent")):
        channel = ET.SubElement(devices, "channel", type="unix")
        ET.SubElement(channel, "source", mode="bind", path=str(paths.agent_socket))
        ET.SubElement(channel, "target", type="virtio", name="org.qemu.guest_agent.0")
    graphics = ET.SubElement(devices, "graphics", type="vnc")
    ET.SubElement(graphics, "listen", type="socket", socket=str(paths.vnc_socket))
    ET.SubElement(ET.SubElement(devices, "video"), "model", type="vga")
    ET.SubElement(ET.SubElement(devices, "memballoon", model="virtio"), "stats", period="10")
    _text(ET.SubElement(devices, "rng", model="virtio"), "backend", "/dev/urandom", model="random")


def _interface(devices: ET.Element, port: PortRef) -> None:
    interface = ET.SubElement(devices, "interface", type="bridge")
    ET.SubElement(interface, "mac", address=port.mac_address)
    ET.SubElement(interface, "source", bridge=port.network.bridge)
    # The filters of the host find the interface by this name.
    ET.SubElement(interface, "target", dev=port.tap)
    ET.SubElement(interface, "model", type="virtio")
    ET.SubElement(interface, "mtu", size=str(port.network.mtu))
    # Nobody boots from the network, and the firmware's try would cost a second.
    ET.SubElement(interface, "rom", enabled="no")
