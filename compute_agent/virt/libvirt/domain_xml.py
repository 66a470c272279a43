"""The domain XML of a guest, built as a tree (libvirt's "Domain XML format"), and Novella's mark inside it."""

import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from typing import Literal

from compute_agent.contract.build import InstanceSpec
from compute_agent.contract.hardware import Hardware
from compute_agent.virt.libvirt import emulated_memory, hardware_xml
from compute_agent.virt.libvirt.boot import Boot, add_kernel, boot_of
from compute_agent.virt.libvirt.disk_xml import add_disks, boots_by_order
from compute_agent.virt.libvirt.hardware_xml import Parts
from compute_agent.virt.libvirt.paths import InstancePaths

NAMESPACE = "https://novella.example/xmlns/domain/1"
PREFIX = "novella"
NAME_PREFIX = "novella-"
NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
QUIESCE, TPM = "quiesce", "tpm"
"""Attributes of the mark: whether copies of the guest's disk require frozen file systems, and the version of the
guest's TPM.
"""
LINES = re.compile(r"[\t\n\r]+")

VirtType = Literal["kvm", "qemu"]


@dataclass(frozen=True)
class Mark:
    """Novella's metadata in a domain, by which Novella recognizes its domains."""

    uuid: str
    attempt: int
    needs_quiesce: bool = False
    """Whether copies of the guest's disk fail unless its file systems are frozen."""
    tpm_version: str = ""
    """The version of the guest's TPM; empty: no TPM."""


def domain_name(uuid: str) -> str:
    """Return the domain's name, which contains no text of users."""
    return NAME_PREFIX + uuid


def clean(text: str) -> str:
    """Return ``text`` on one line without characters that XML 1.0 cannot represent."""
    return LINES.sub(" ", NOT_XML.sub("\ufffd", text))


def domain_xml(
    spec: InstanceSpec, attempt: int, paths: InstancePaths, virt_type: VirtType, parts: Parts | None = None
) -> str:
    """Return the XML of the guest's domain, with the host's ``parts`` for its hardware."""
    parts, boot = parts or Parts(), boot_of(spec, paths)
    hardware, kvm = boot.hardware, virt_type == "kvm"
    domain = ET.Element("domain", type=virt_type)
    _text(domain, "name", domain_name(spec.uuid))
    _text(domain, "uuid", spec.uuid)
    _text(domain, "title", clean(spec.name) or spec.hostname)
    _mark(ET.SubElement(domain, "metadata"), spec, attempt, hardware)
    _text(domain, "memory", str(spec.flavor.memory_mb), unit="MiB")
    _text(domain, "vcpu", str(spec.flavor.vcpus))
    hardware_xml.add_cpu_limits(domain, hardware)
    _sysinfo(domain, spec)
    system = ET.SubElement(domain, "os")
    _text(system, "type", "hvm", arch="x86_64", machine=hardware.machine)
    hardware_xml.add_firmware(system, hardware, parts)
    add_kernel(system, boot, clean(boot.command_line))
    if not boots_by_order(spec, boot):
        ET.SubElement(system, "boot", dev="hd")
    ET.SubElement(system, "smbios", mode="sysinfo")
    features = ET.SubElement(domain, "features")
    ET.SubElement(features, "acpi")
    ET.SubElement(features, "apic")
    if not kvm:
        # By default the translation cache takes up to 1 GiB of the host for each guest.
        cache = min(max(32, spec.flavor.memory_mb // 8), 256)
        _text(ET.SubElement(features, "tcg"), "tb-cache", str(cache), unit="MiB")
    hardware_xml.add_features(features, hardware, parts, kvm=kvm)
    domain.append(hardware_xml.cpu_element(hardware, kvm=kvm, without=parts.cpu_without))
    domain.append(hardware_xml.clock_element(hardware, kvm=kvm))
    for event, action in (("poweroff", "destroy"), ("reboot", "restart"), ("crash", "destroy")):
        _text(domain, f"on_{event}", action)
    _devices(ET.SubElement(domain, "devices"), spec, paths, boot, parts)
    if not kvm:
        emulated_memory.add(domain, spec.flavor.memory_mb)
    ET.indent(domain)
    return ET.tostring(domain, encoding="unicode") + "\n"


def read_mark(uuid: str, metadata: str) -> Mark:
    """Parse Novella's element as returned by libvirt. Raises ValueError if it is not Novella's."""
    try:
        element = ET.fromstring(metadata)  # noqa: S314 - libvirt's own output
        attempt, quiesce = int(element.attrib["attempt"]), element.get(QUIESCE) == "required"
        return Mark(uuid, attempt, quiesce, element.get(TPM, ""))
    except (ET.ParseError, KeyError) as error:
        raise ValueError("not Novella's metadata") from error


def _text(parent: ET.Element, tag: str, text: str, **attributes: str) -> ET.Element:
    element = ET.SubElement(parent, tag, attributes)
    element.text = text
    return element


def _mark(parent: ET.Element, spec: InstanceSpec, attempt: int, hardware: Hardware) -> None:
    instance = ET.SubElement(parent, f"{PREFIX}:instance", {f"xmlns:{PREFIX}": NAMESPACE, "attempt": str(attempt)})
    if hardware.require_quiesce:
        instance.set(QUIESCE, "required")
    if hardware.tpm_version:
        instance.set(TPM, hardware.tpm_version)
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


def _devices(devices: ET.Element, spec: InstanceSpec, paths: InstancePaths, boot: Boot, parts: Parts) -> None:
    hardware = boot.hardware
    add_disks(devices, spec, paths, boot)
    for port in spec.ports:
        hardware_xml.add_interface(devices, port, hardware)
    for number in range(hardware.serial_ports):
        serial = ET.SubElement(devices, "serial", type="unix")
        ET.SubElement(serial, "source", mode="bind", path=str(paths.serial_socket(number)))
        if number == 0:
            # Appending lets the agent cut the log from its beginning while the guest writes.
            ET.SubElement(serial, "log", file=str(paths.console_log), append="on")
        ET.SubElement(serial, "target", port=str(number))
    if hardware.guest_agent:
        channel = ET.SubElement(devices, "channel", type="unix")
        ET.SubElement(channel, "source", mode="bind", path=str(paths.agent_socket))
        ET.SubElement(channel, "target", type="virtio", name="org.qemu.guest_agent.0")
    graphics = ET.SubElement(devices, "graphics", type="vnc")
    ET.SubElement(graphics, "listen", type="socket", socket=str(paths.vnc_socket))
    hardware_xml.add_places(devices, spec, hardware)
    hardware_xml.add_desk(devices, hardware)
    ET.SubElement(ET.SubElement(devices, "memballoon", model="virtio"), "stats", period="10")
    hardware_xml.add_chips(devices, hardware, parts)
