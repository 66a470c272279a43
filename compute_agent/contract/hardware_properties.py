"""Image properties and flavor extra specs for a guest's hardware: their values, and the host traits for scheduling.
Names and values come from Nova's "Useful image properties" and "Extra specs", traits from os-traits. Every host
supports values without a trait.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Source = Literal["image", "flavor"]
Kind = Literal["choice", "switch", "number", "text"]
_SWITCHED = {
    "true": ("1", "t", "true", "on", "y", "yes"),
    "false": ("0", "f", "false", "off", "n", "no"),
}
"""Accepted spellings of boolean values, as in ``oslo_utils.strutils``. They are repeated here so that simulated hosts
do not need oslo.
"""


class HardwareError(ValueError):
    """An invalid property or extra spec. The message contains its name, its value and the valid values."""

    def __init__(self, name: str, value: str, reason: str, source: Source = "image") -> None:
        super().__init__(f"{name}={value[:80]}: {reason}")
        self.name, self.value, self.reason, self.source = name, value, reason, source


@dataclass(frozen=True, slots=True)
class Property:
    """A hardware property: its name in images (``image``) and in flavors (``flavor``). A name is empty if the property
    cannot be set there.
    """

    image: str
    flavor: str = ""
    kind: Kind = "choice"
    values: tuple[str, ...] = ()
    """Supported values of a choice."""
    pattern: str = ""
    """Additional supported values, as a regular expression."""
    readable: str = ""
    """A description of ``pattern`` for users."""
    cased: bool = False
    """Whether the value is case-sensitive."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Values of other hypervisors → why no host supports them."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Older names of values."""
    trait: str = ""
    """The prefix of the trait of hosts that support a value; empty: all hosts support all values."""
    everywhere: tuple[str, ...] = ()
    """Values that every host supports."""
    meaning: str = ""

    @property
    def legal(self) -> str:
        """The supported values, for users."""
        if self.kind == "switch":
            return "true or false"
        if self.kind == "number":
            return self.readable or "a whole number"
        return ", ".join(self.values + ((self.readable or self.pattern,) if self.pattern else ()))

    def name_in(self, source: Source) -> str:
        return self.image if source == "image" else self.flavor

    def read(self, value: str, source: Source) -> str:
        """Return the value in normalized spelling: a switch as ``true`` or ``false``.  Raises HardwareError."""
        text, name = value.strip(), self.name_in(source)
        if self.kind == "switch":
            result = next((word for word, spelt in _SWITCHED.items() if text.lower() in spelt), None)
            if result is None:
                raise HardwareError(name, value, f"must be {self.legal}", source)
            return result
        if self.kind == "number":
            if not re.fullmatch(self.pattern or r"\d{1,9}", text):
                raise HardwareError(name, value, f"must be {self.legal}", source)
            return text
        if self.kind == "text":
            return text
        if not self.cased:
            text = self.aliases.get(text.lower(), text.lower())
        if text in self.values or (self.pattern and re.fullmatch(self.pattern, text)):
            return text
        reason = self.refused.get(text)
        raise HardwareError(name, value, f"{reason + '; ' if reason else ''}must be one of {self.legal}", source)

    def trait_of(self, value: str) -> str:
        """Return the trait that a host needs for a value that ``read`` returned; empty if it needs none."""
        if not self.trait or not value or value in self.everywhere:
            return ""
        return f"{self.trait}_{re.sub('[^A-Z0-9]', '_', value.upper())}"


_OTHERS = "only other hypervisors support it"
_BUSES = ("virtio", "scsi", "sata", "ide", "usb")
_OTHER_BUSES = dict.fromkeys(("fdc", "xen", "lxc", "uml"), _OTHERS)
_MACHINE = r"pc-(i440fx|q35)-\d{1,3}(\.\d{1,3}){1,2}"
FIRMWARE, STATELESS, SECURE_BOOT, TPM_VERSION, TPM_MODEL, MACHINE = (
    Property("hw_firmware_type", values=("bios", "uefi"), trait="COMPUTE_FIRMWARE", everywhere=("bios",),
             meaning="the firmware"),
    Property("hw_firmware_stateless", kind="switch", meaning="UEFI that does not store its variables"),
    Property("os_secure_boot", "os:secure_boot", values=("disabled", "optional", "required"), meaning="Secure Boot"),
    Property("hw_tpm_version", "hw:tpm_version", values=("1.2", "2.0"), trait="COMPUTE_SECURITY_TPM",
             meaning="the version of the TPM"),
    Property("hw_tpm_model", "hw:tpm_model", values=("tpm-tis", "tpm-crb"), trait="COMPUTE_SECURITY",
             meaning="the interface of the TPM"),
    Property("hw_machine_type", values=("pc", "q35"), pattern=_MACHINE,
             readable="pc-i440fx-VERSION, pc-q35-VERSION", trait="CUSTOM_MACHINE_TYPE", everywhere=("pc", "q35"),
             meaning="the chipset"),
)  # fmt: skip
DISK_BUS, CDROM_BUS, SCSI_MODEL, RESCUE_DEVICE, RESCUE_BUS = (
    Property("hw_disk_bus", values=_BUSES, refused=_OTHER_BUSES, trait="COMPUTE_STORAGE_BUS", everywhere=("virtio",),
             meaning="the bus of disks"),
    Property("hw_cdrom_bus", values=("ide", "sata", "scsi", "usb"),
             refused={"virtio": "it has no CD-ROM drives", **_OTHER_BUSES}, trait="COMPUTE_STORAGE_BUS",
             everywhere=("ide", "sata", "scsi", "usb"), meaning="the bus of CD-ROM drives"),
    Property("hw_scsi_model", values=("virtio-scsi", "lsilogic", "lsisas1068", "lsisas1078", "vmpvscsi"),
             aliases={"lsilogicsas": "lsisas1068", "paravirtual": "vmpvscsi"},
             refused={"buslogic": _OTHERS, "ibmvscsi": _OTHERS}, meaning="the controller of SCSI disks"),
    Property("hw_rescue_device", values=("disk", "cdrom"), meaning="the device that a rescued server boots from"),
    Property("hw_rescue_bus", values=_BUSES, refused=_OTHER_BUSES, trait="COMPUTE_STORAGE_BUS", everywhere=_BUSES,
             meaning="its bus"),
)  # fmt: skip
VIF_MODEL, MULTIQUEUE, PACKED = (
    Property("hw_vif_model", values=("virtio", "e1000", "e1000e", "igb", "ne2k_pci", "pcnet", "rtl8139", "vmxnet3"),
             aliases={"virtuale1000": "e1000", "virtuale1000e": "e1000e", "virtualpcnet32": "pcnet",
                      "virtualvmxnet3": "vmxnet3"},
             refused=dict.fromkeys(("netfront", "lan9118", "spapr-vlan", "sriov", "vmxnet"), _OTHERS),
             trait="COMPUTE_NET_VIF_MODEL", everywhere=("virtio",), meaning="the model of interfaces"),
    Property("hw_vif_multiqueue_enabled", "hw:vif_multiqueue_enabled", "switch",
             meaning="each interface has a queue for each vCPU"),
    Property("hw_virtio_packed_ring", "hw:virtio_packed_ring", "switch", trait="COMPUTE_NET_VIRTIO_PACKED",
             meaning="packed rings of virtio devices"),
)  # fmt: skip
VIDEO_MODEL, VIDEO_RAM, INPUT_BUS, POINTER, SOUND, USB = (
    Property("hw_video_model", values=("vga", "bochs", "cirrus", "none", "qxl", "virtio", "vmvga"),
             refused={"gop": _OTHERS, "xen": _OTHERS}, trait="COMPUTE_GRAPHICS_MODEL", everywhere=("vga",),
             meaning="the graphics adapter"),
    Property("hw_video_ram", kind="number", meaning="its memory in MiB, at most the flavor's hw_video:ram_max_mb"),
    Property("hw_input_bus", values=("usb", "virtio"), meaning="the bus of the keyboard and the tablet"),
    Property("hw_pointer_model", values=("usbtablet",), meaning="the pointer"),
    Property("hw_sound_model", "hw:sound_model", values=("sb16", "es1370", "ac97", "ich6", "ich9", "usb"),
             refused={"pcspk": "QEMU no longer supports it as a card", "virtio": "the hypervisors are too old for it"},
             trait="COMPUTE_SOUND_MODEL", meaning="the sound card"),
    Property("hw_usb_model", "hw:usb_model", values=("none", "nec-xhci", "qemu-xhci"),
             trait="COMPUTE_USB_MODEL", everywhere=("none", "qemu-xhci"), meaning="the USB controller"),
)  # fmt: skip
CPU_MODE, CPU_MODEL, CPU_FLAGS, PMU, HIDE, HPET = (
    Property("hw_cpu_mode", values=("host-model", "host-passthrough", "maximum", "custom"),
             refused={"none": "each guest has a CPU model"}, trait="CUSTOM_CPU_MODE", meaning="the CPU model"),
    Property("hw_cpu_model", pattern=r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", readable="a CPU model of libvirt", cased=True,
             trait="CUSTOM_CPU_MODEL", meaning="the name of a custom CPU model"),
    Property("hw_cpu_model_extra_flags", kind="text", meaning="CPU features to add or remove: +aes,-avx2"),
    Property("hw_pmu", "hw:pmu", "switch", meaning="the performance counters of the CPU"),
    Property("img_hide_hypervisor_id", "hw:hide_hypervisor_id", "switch",
             meaning="a guest that cannot detect its hypervisor"),
    Property("hw_time_hpet", kind="switch", meaning="the timer HPET"),
)  # fmt: skip
TOPOLOGY = tuple(
    Property(f"hw_cpu_{limit}{part}", f"hw:cpu_{limit}{part}", "number", meaning="the topology of the vCPUs")
    for limit in ("", "max_") for part in ("sockets", "cores", "threads")
)  # fmt: skip
RNG_MODEL, WATCHDOG, BOOT_MENU, AGENT, QUIESCE, OS_TYPE, COMMAND_LINE, CONFIG_DRIVE = (
    Property("hw_rng_model", values=("virtio",), meaning="the source of random numbers"),
    Property("hw_watchdog_action", "hw:watchdog_action", values=("disabled", "none", "pause", "poweroff", "reset"),
             meaning="the action when the watchdog expires"),
    Property("hw_boot_menu", "hw:boot_menu", "switch", meaning="the boot menu of the firmware"),
    Property("hw_qemu_guest_agent", kind="switch", meaning="the channel of the QEMU guest agent"),
    Property("os_require_quiesce", kind="switch", meaning="snapshots fail unless the guest's disks were frozen"),
    Property("os_type", values=("linux", "windows"), meaning="windows: local time and Hyper-V's timers"),
    Property("os_command_line", kind="text", meaning="the command line of the kernel of kernel_id"),
    Property("img_config_drive", values=("optional", "mandatory"), meaning="mandatory: a config drive"),
)  # fmt: skip
RNG_ALLOWED, RNG_BYTES, RNG_PERIOD, VIDEO_MAX = (
    Property("", "hw_rng:allowed", "switch", meaning="whether the guest has a source of random numbers"),
    Property("", "hw_rng:rate_bytes", "number", meaning="bytes of it in each period"),
    Property("", "hw_rng:rate_period", "number", meaning="the period in milliseconds"),
    Property("", "hw_video:ram_max_mb", "number", meaning="the most of hw_video_ram"),
)
_LIMIT = r"\d{1,18}"
DISK_LIMITS = tuple(
    Property("", f"quota:disk_{way}_{unit}_sec", "number", pattern=_LIMIT, meaning=f"{unit} a second of a local disk")
    for unit in ("bytes", "iops") for way in ("read", "write", "total")
)  # fmt: skip
VIF_LIMITS = tuple(
    Property("", f"quota:vif_{way}_{part}", "number", meaning=f"{words} of each interface")
    for way in ("inbound", "outbound")
    for part, words in (("average", "kB a second"), ("peak", "kB a second at most"), ("burst", "kB at a time"))
)
CPU_LIMITS = tuple(
    Property("", f"quota:cpu_{part}", "number", pattern=r"-?\d{1,15}", meaning=words)
    for part, words in (
        ("shares", "the weight of the guest against others on a busy host"),
        ("period", "microseconds within which each vCPU has its quota"),
        ("quota", "microseconds of processor time of each vCPU in a period"),
    )
)
SERIAL_PORTS = Property(
    "hw_serial_port_count", "hw:serial_port_count", "number", pattern="[0-4]", readable="a number up to 4",
    meaning="serial ports; the console and the log use the first one",
)  # fmt: skip

PROPERTIES: tuple[Property, ...] = (
    FIRMWARE, STATELESS, SECURE_BOOT, TPM_VERSION, TPM_MODEL, MACHINE, DISK_BUS, CDROM_BUS, SCSI_MODEL, RESCUE_DEVICE,
    RESCUE_BUS, VIF_MODEL, MULTIQUEUE, PACKED, VIDEO_MODEL, VIDEO_RAM, INPUT_BUS, POINTER, SOUND, USB, CPU_MODE,
    CPU_MODEL, CPU_FLAGS, PMU, HIDE, HPET, *TOPOLOGY, RNG_MODEL, WATCHDOG, BOOT_MENU, AGENT, QUIESCE, OS_TYPE,
    COMMAND_LINE, CONFIG_DRIVE, RNG_ALLOWED, RNG_BYTES, RNG_PERIOD, VIDEO_MAX, *DISK_LIMITS, *VIF_LIMITS, *CPU_LIMITS,
    SERIAL_PORTS,
)  # fmt: skip
REFUSED: Mapping[str, str] = {
    "hw_floppy_bus": "guests have no floppy drives",
    "hw_viommu_model": "guests have no IOMMU",
    "hw:viommu_model": "guests have no IOMMU",
    "hw_redirected_usb_ports": "USB devices are redirected by SPICE, which this cloud does not have",
    "hw:redirected_usb_ports": "USB devices are redirected by SPICE, which this cloud does not have",
}
"""Names → why they are never supported."""
OLD_NAMES: Mapping[Source, Mapping[str, str]] = {
    "image": {"hw_hide_hypervisor_id": HIDE.image},
    "flavor": {"hide_hypervisor_id": HIDE.flavor},
}
_BY_NAME: Mapping[Source, Mapping[str, Property]] = {
    "image": {each.image: each for each in PROPERTIES if each.image},
    "flavor": {each.flavor: each for each in PROPERTIES if each.flavor},
}


def property_of(source: Source, name: str) -> Property | None:
    """Return the property of this name; None for names that do not concern hardware."""
    return _BY_NAME[source].get(OLD_NAMES[source].get(name, name))
