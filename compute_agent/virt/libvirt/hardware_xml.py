"""The hardware of a guest in its domain's XML, from ``contract.hardware``."""

import xml.etree.ElementTree as ET
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from compute_agent.contract.build import InstanceSpec, PortRef
from compute_agent.contract.hardware import DEFAULT, Hardware
from compute_agent.virt.libvirt.firmware import Firmware

WATCHDOG = "i6300esb"
HYPERV = ("relaxed", "vapic", "vpindex", "runtime", "synic", "reset", "frequencies", "tlbflush", "ipi")
SPINLOCK_RETRIES = "8191"
"""The value that Microsoft certifies Windows with."""
VENDOR = "1234567890ab"
"""Vendor id that no driver recognizes as a hypervisor."""
KIB_PER_MIB = 1024
USUAL_DEVICES, SPARE_PORTS = 8, 12
"""Number of PCI devices that each guest has, and number of spare ports for hot-plug on the chipset q35. libvirt alone
would create one spare port.
"""


@dataclass(frozen=True)
class Parts:
    """Files of the host for a guest's hardware."""

    firmware: Firmware | None = None
    variables: Path | None = None
    tpm_socket: Path | None = None
    cpu_without: tuple[str, ...] = ()
    """Features of the host's processor that the guest does not have."""


def add_firmware(system: ET.Element, hardware: Hardware, parts: Parts) -> None:
    """Add firmware and boot menu to the ``os`` element."""
    firmware = parts.firmware
    if firmware is not None:
        words = {"readonly": "yes", "type": "pflash", "secure": "yes" if firmware.smm else "no"}
        if hardware.firmware_stateless:
            words["stateless"] = "yes"
        ET.SubElement(system, "loader", words).text = str(firmware.code)
        if parts.variables is not None:
            ET.SubElement(system, "nvram").text = str(parts.variables)
    if hardware.boot_menu:
        ET.SubElement(system, "bootmenu", enable="yes")


def add_features(features: ET.Element, hardware: Hardware, parts: Parts, *, kvm: bool) -> None:
    """Add the features of the chipset and the hypervisor. Hyper-V's interfaces require KVM."""
    if parts.firmware is not None and parts.firmware.smm:
        ET.SubElement(features, "smm", state="on")
    if hardware.windows and kvm:
        hyperv = ET.SubElement(features, "hyperv")
        for name in HYPERV:
            ET.SubElement(hyperv, name, state="on")
        ET.SubElement(hyperv, "spinlocks", state="on", retries=SPINLOCK_RETRIES)
        if hardware.hide_hypervisor:
            ET.SubElement(hyperv, "vendor_id", state="on", value=VENDOR)
    if hardware.hide_hypervisor:
        ET.SubElement(ET.SubElement(features, "kvm"), "hidden", state="on")
    if hardware.pmu is not None:
        ET.SubElement(features, "pmu", state="on" if hardware.pmu else "off")


def cpu_element(hardware: Hardware, *, kvm: bool, without: Collection[str] = ()) -> ET.Element:
    """Return the CPU element. By default the guest has all features of the host's CPU except those in ``without``."""
    mode = hardware.cpu_mode or ("host-model" if kvm else "maximum")
    cpu = ET.Element("cpu", mode=mode, check="none")
    if mode == "custom":
        ET.SubElement(cpu, "model", fallback="forbid").text = hardware.cpu_model
    if hardware.topology is not None:
        parts = hardware.topology
        ET.SubElement(cpu, "topology", sockets=str(parts.sockets), cores=str(parts.cores), threads=str(parts.threads))
    for name, required in {**dict.fromkeys(without, False), **hardware.cpu_flags}.items():
        ET.SubElement(cpu, "feature", policy="require" if required else "disable", name=name)
    return cpu


def clock_element(hardware: Hardware, *, kvm: bool) -> ET.Element:
    """Return the clock element. Windows guests have local time."""
    clock = ET.Element("clock", offset="localtime" if hardware.windows else "utc")
    if kvm:
        ET.SubElement(clock, "timer", name="pit", tickpolicy="delay")
        ET.SubElement(clock, "timer", name="rtc", tickpolicy="catchup")
    if kvm or hardware.hpet is not None:
        ET.SubElement(clock, "timer", name="hpet", present="yes" if hardware.hpet else "no")
    if hardware.windows and kvm:
        ET.SubElement(clock, "timer", name="hypervclock", present="yes")
    return clock


def add_cpu_limits(domain: ET.Element, hardware: Hardware) -> None:
    """Add the CPU weight and quota of the guest."""
    if hardware.cpu_limits:
        tuning = ET.SubElement(domain, "cputune")
        for name, value in sorted(hardware.cpu_limits.items()):
            ET.SubElement(tuning, name).text = str(value)


def add_desk(devices: ET.Element, hardware: Hardware) -> None:
    """Add the graphics adapter, keyboard, tablet and sound card."""
    video = ET.SubElement(ET.SubElement(devices, "video"), "model", type=hardware.video_model)
    if hardware.video_ram_mb and hardware.video_model != "none":
        video.set("vram", str(hardware.video_ram_mb * KIB_PER_MIB))
    if hardware.input_bus:
        ET.SubElement(devices, "input", type="keyboard", bus=hardware.input_bus)
    if hardware.input_bus or hardware.tablet:
        ET.SubElement(devices, "input", type="tablet", bus=hardware.input_bus or "usb")
    if hardware.sound_model:
        ET.SubElement(devices, "sound", model=hardware.sound_model)
        ET.SubElement(devices, "audio", id="1", type="none")


def add_places(devices: ET.Element, spec: InstanceSpec, hardware: Hardware) -> None:
    """Add PCI Express ports for all devices and some spare ones: ports cannot be added to a running guest."""
    if hardware.q35:
        ET.SubElement(devices, "controller", type="pci", index="0", model="pcie-root")
        for number in range(1, USUAL_DEVICES + len(spec.ports) + len(spec.volumes) + SPARE_PORTS + 1):
            ET.SubElement(devices, "controller", type="pci", index=str(number), model="pcie-root-port")


def add_chips(devices: ET.Element, hardware: Hardware, parts: Parts) -> None:
    """Add the random number generator, watchdog and TPM."""
    if hardware.rng:
        rng = ET.SubElement(devices, "rng", model="virtio")
        if hardware.rng_bytes:
            rate = ET.SubElement(rng, "rate", bytes=str(hardware.rng_bytes))
            if hardware.rng_period_ms:
                rate.set("period", str(hardware.rng_period_ms))
        ET.SubElement(rng, "backend", model="random").text = "/dev/urandom"
    if hardware.watchdog_action:
        ET.SubElement(devices, "watchdog", model=WATCHDOG, action=hardware.watchdog_action)
    if parts.tpm_socket is not None:
        backend = ET.SubElement(ET.SubElement(devices, "tpm", model=hardware.tpm_model), "backend", type="external")
        ET.SubElement(backend, "source", type="unix", mode="connect", path=str(parts.tpm_socket))


def add_interface(devices: ET.Element, port: PortRef, hardware: Hardware = DEFAULT) -> None:
    interface = ET.SubElement(devices, "interface", type="bridge")
    ET.SubElement(interface, "mac", address=port.mac_address)
    ET.SubElement(interface, "source", bridge=port.network.bridge)
    # The host's filters find the interface by this name.
    ET.SubElement(interface, "target", dev=port.tap)
    ET.SubElement(interface, "model", type=hardware.vif_model)
    driver = {"queues": str(hardware.vif_queues)} if hardware.vif_queues > 1 else {}
    if hardware.packed_rings and hardware.vif_model == "virtio":
        driver["packed"] = "on"
    if driver:
        ET.SubElement(interface, "driver", driver)
    if hardware.vif_limits:
        bandwidth = ET.SubElement(interface, "bandwidth")
        for way, limits in hardware.vif_limits.items():
            ET.SubElement(bandwidth, way, {name: str(value) for name, value in limits.items()})
    ET.SubElement(interface, "mtu", size=str(port.network.mtu))
    # Guests do not boot from the network, and the firmware's attempt would take a second.
    ET.SubElement(interface, "rom", enabled="no")


def interface_xml(port: PortRef, hardware: Hardware = DEFAULT) -> str:
    """Return the XML of a single interface, as in a domain."""
    devices = ET.Element("devices")
    add_interface(devices, port, hardware)
    return ET.tostring(devices[0], encoding="unicode")
