"""Demands of images and flavors on a guest: those that are honoured, those that a launch refuses, and those it ignores.

One table for launches, pages and metadata definitions.  Names and values are those of Nova's "Useful image properties"
and "Extra specs"; ``hw`` stands for ``hw_`` in images and for ``hw:`` in flavors.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from oslo_utils import strutils

Source = Literal["image", "flavor"]
IMAGE: Source = "image"
FLAVOR: Source = "flavor"
OFF = "(off)"
"""Stands for every value that is false."""
ANY = "(any)"
_READABLE = {r"pc-i440fx(-.+)?": "pc-i440fx-VERSION", r"\d{1,5}": "a number", r"\d{1,9}": "a number"}
"""Patterns of values → how pages write them."""
_PREFIX: Mapping[Source, str] = {IMAGE: "hw_", FLAVOR: "hw:"}


class Effect(StrEnum):
    """The treatment of a demand."""

    HONOURED = "honoured"
    """The guest or its place is as demanded."""
    REFUSED = "refused"
    """Guests are as the accepted values say, and a launch that demands another is refused."""
    IGNORED = "ignored"
    """The demand is kept and shown, and the guest is as without it."""


@dataclass(frozen=True, slots=True)
class Demand:
    """One property of images or flavors."""

    name: str
    """A regular expression in which ``hw`` at the beginning has the prefix of the source behind it."""
    effect: Effect
    accepted: tuple[str, ...] = (ANY,)
    """Values with which a guest can be launched; patterns."""
    meaning: str = ""
    sources: tuple[Source, ...] = (IMAGE, FLAVOR)
    example: str = ""
    """The name as pages show it, where ``name`` is a pattern."""
    values: tuple[re.Pattern[str], ...] = field(init=False)

    def __post_init__(self) -> None:
        found = tuple(re.compile(each) for each in self.accepted if each not in {OFF, ANY})
        object.__setattr__(self, "values", found)

    def accepts(self, value: str) -> bool:
        """Return whether a guest with this value can be launched."""
        if ANY in self.accepted or any(each.fullmatch(value) for each in self.values):
            return True
        return OFF in self.accepted and strutils.bool_from_string(value, default=None) is False

    @property
    def readable(self) -> list[str]:
        """The accepted values as a person writes them; empty where there are none, or all are accepted."""
        found = [_READABLE.get(each, each) for each in self.accepted if each not in {OFF, ANY}]
        return found + (["false"] if OFF in self.accepted else [])

    def shown(self, source: Source) -> list[str]:
        """Return its names in images or in flavors as pages show them; empty where it is none of theirs."""
        if source not in self.sources:
            return []
        names = [self.example] if self.example else self.name.split("|")
        return [re.sub(r"^hw ", _PREFIX[source], name) for name in names]

    def names(self, source: Source) -> re.Pattern[str]:
        """Return the pattern of its names in images or in flavors."""
        return re.compile(re.sub(r"^hw ", _PREFIX[source], self.name))


@dataclass(frozen=True, slots=True)
class Unmet:
    """A demand with which nothing is launched."""

    name: str
    value: str
    demand: Demand

    def __str__(self) -> str:
        """Name the property, its value, and the values that would do."""
        instead = f"; only {' or '.join(self.demand.readable)} can be" if self.demand.readable else ""
        return f"{self.name}={self.value[:80]} cannot be met by this cloud{instead}"


def unmet(source: Source, properties: Mapping[str, object]) -> list[Unmet]:
    """Return the demands of an image's properties or a flavor's extra specs that no guest of this cloud meets."""
    found = []
    for name, value in sorted(properties.items()):
        demand = demand_of(source, name)
        if value is not None and demand is not None and not demand.accepts(str(value).strip()):
            found.append(Unmet(name, str(value), demand))
    return found


def demand_of(source: Source, name: str) -> Demand | None:
    """Return what is known of a property; None for names that are anybody's own."""
    return next((demand for pattern, demand in _BY_NAME[source] if pattern.fullmatch(name)), None)


_BUSES = "fdc ide sata scsi usb virtio lxc uml xen"
_H, _R, _I = Effect.HONOURED, Effect.REFUSED, Effect.IGNORED
_ON_OFF = ("true", "false", "yes", "no", "on", "off", "1", "0", "t", "f", "y", "n")
TABLE: tuple[Demand, ...] = (
    # Places: the scheduler reads them.
    Demand("hw_architecture|architecture", _H, meaning="hosts with this processor", sources=(IMAGE,)),
    Demand("hypervisor_type|img_hv_type", _H, meaning="hosts with this hypervisor", sources=(IMAGE,)),
    Demand("img_hv_requested_version", _H, meaning="hosts whose hypervisor has such a version", sources=(IMAGE,)),
    Demand("aggregate_instance_extra_specs:.+", _H, meaning="hosts of such aggregates", sources=(FLAVOR,),
           example="aggregate_instance_extra_specs:KEY"),
    Demand("capabilities:.+", _H, meaning="hosts with such values", sources=(FLAVOR,), example="capabilities:KEY"),
    # Guests.
    Demand("kernel_id|ramdisk_id|os_command_line", _H, meaning="the guest boots this kernel", sources=(IMAGE,)),
    Demand("hw_qemu_guest_agent", _H, meaning="the guest has the agent's channel", sources=(IMAGE,)),
    Demand("hw_rescue_device", _H, ("cdrom", "disk"), "the device that a rescued server boots from", (IMAGE,)),
    Demand("hw_rescue_bus", _H, tuple(_BUSES.split()[:6]), "its bus", (IMAGE,)),
    Demand("hw_cdrom_bus", _H, ("ide", "sata", "scsi", "usb"), "the bus of an image of a CD", (IMAGE,)),
    Demand("img_config_drive", _H, ("optional", "mandatory"), "mandatory: the server has a config drive", (IMAGE,)),
    Demand("os_type", _H, ("linux", "windows"), "windows: the guest's clock has local time", (IMAGE,)),
    Demand("os_admin_user", _H, meaning="who signs in", sources=(IMAGE,)),
    Demand("img_block_device_mapping|block_device_mapping|mappings|root_device_name|bdm_v2|img_bdm_v2|"
           "img_root_device_name|img_mappings", _H, meaning="the disks of an image of a server", sources=(IMAGE,),
           example="block_device_mapping"),
    # What the guest would not have.
    Demand("hw_firmware_type", _R, ("bios",), "the firmware", (IMAGE,)),
    Demand("hw firmware_stateless", _R, (OFF,), "firmware that keeps no settings"),
    Demand("hw_machine_type", _R, ("pc", r"pc-i440fx(-.+)?"), "the machine", (IMAGE,)),
    Demand("hw_disk_bus", _R, ("virtio",), "the bus of disks", (IMAGE,)),
    Demand("hw_vif_model", _R, ("virtio",), "the model of interfaces", (IMAGE,)),
    Demand("hw_floppy_bus", _R, (), "a floppy drive", (IMAGE,)),
    Demand("hw_emulation_architecture", _R, ("x86_64",), "the processor that is emulated", (IMAGE,)),
    Demand("vm_mode|hw_vm_mode", _R, ("hvm",), "full virtualisation", (IMAGE,)),
    Demand("os_require_quiesce", _R, (OFF,), "snapshots that fail unless the guest's disks were frozen", (IMAGE,)),
    Demand("os:secure_boot", _R, ("disabled",), "secure boot", (FLAVOR,)),
    Demand("os_secure_boot", _R, ("disabled", "optional"), "secure boot", (IMAGE,)),
    Demand("hw tpm_(model|version)", _R, (), "a TPM", example="hw tpm_version"),
    Demand("hw mem_encryption", _R, (OFF,), "encrypted memory"),
    Demand("hw mem_page_size", _R, ("small", "any"), "pages of the guest's memory"),
    Demand("hw locked_memory", _R, (OFF,), "memory that is never swapped"),
    Demand("hw ephemeral_encryption", _R, (OFF,), "encrypted local disks"),
    Demand("hw cpu_policy", _R, ("shared",), "processors for one guest alone"),
    Demand("hw cpu_thread_policy", _R, ("prefer",), "threads of one core"),
    Demand("hw cpu_realtime", _R, (OFF,), "real-time vCPUs"),
    Demand("hw emulator_threads_policy", _R, ("share",), "a processor for QEMU's own threads"),
    Demand("hw numa_nodes", _R, (), "NUMA nodes in the guest"),
    Demand(r"hw numa_(cpus|mem)\.\d+", _R, (), "NUMA nodes in the guest", example="hw numa_cpus.N"),
    Demand("hw pmem", _R, (), "persistent memory"),
    Demand("hw viommu_model", _R, (), "an IOMMU in the guest"),
    Demand("hw watchdog_action", _R, ("disabled", "none"), "a watchdog"),
    Demand("pci_passthrough:alias", _R, (), "a device of the host", (FLAVOR,)),
    Demand("accel:device_profile", _R, (), "an accelerator", (FLAVOR,)),
    Demand(r"trait[A-Za-z0-9_-]{0,64}:.+", _R, ("forbidden",), "hosts with a trait; no host has one",
           example="trait:NAME"),
    Demand(r"resources[A-Za-z0-9_-]{0,64}:.+", _R, ("0",), "resources beside the sizes of the flavor", (FLAVOR,),
           example="resources:CLASS"),
    # What the guest does as well without.
    Demand("hw_scsi_model", _I, ("buslogic", "ibmvscsi", "lsilogic", "lsisas1068", "lsisas1078", "virtio-scsi",
                                 "vmpvscsi"), "the controller of the bus scsi", (IMAGE,)),
    Demand("hw_video_model", _I, ("bochs", "cirrus", "gop", "none", "qxl", "vga", "virtio", "vmvga", "xen"),
           "the graphics adapter", (IMAGE,)),
    Demand("hw_video_ram", _I, (r"\d{1,9}",), "its memory", (IMAGE,)),
    Demand("hw_rng_model", _I, ("virtio",), "the source of random numbers", (IMAGE,)),
    Demand("hw_pointer_model", _I, ("usbtablet",), "the pointer", (IMAGE,)),
    Demand("hw_input_bus", _I, ("usb", "virtio"), "the bus of the keyboard and the pointer", (IMAGE,)),
    Demand("hw vif_multiqueue_enabled", _I, _ON_OFF, "a queue of an interface for each vCPU"),
    Demand("hw (pmu|boot_menu|virtio_packed_ring|hide_hypervisor_id)", _I, _ON_OFF, "", example="hw pmu"),
    Demand("img_hide_hypervisor_id|hide_hypervisor_id", _I, _ON_OFF, "a guest that is not told its hypervisor"),
    Demand("hw time_hpet", _I, _ON_OFF, "a timer"),
    Demand(r"hw cpu_(max_)?(sockets|cores|threads)", _I, (r"\d{1,5}",), "how vCPUs are shown to the guest",
           example="hw cpu_sockets"),
    Demand("hw serial_port_count", _I, (r"\d{1,5}",), "serial ports"),
    Demand("os_shutdown_timeout", _I, (r"\d{1,9}",), "seconds that the guest has to shut down", (IMAGE,)),
    Demand("img_volume_type|cinder_img_volume_type", _I, (ANY,), "the type of volumes created from it", (IMAGE,)),
    Demand("img_signature.*", _I, (ANY,), "a signature of the data, which is not checked", (IMAGE,),
           example="img_signature"),
    Demand("hw (cpu_mode|sound_model|usb_model|redirected_usb_ports|pci_numa_affinity_policy|mem_encryption_model|"
           "ephemeral_encryption_format|maxphysaddr_mode|maxphysaddr_bits|cpu_realtime_mask|cpu_dedicated_mask)", _I,
           (ANY,), "details of the guest", example="hw cpu_mode"),
    Demand("quota:.+", _I, (ANY,), "limits of what a guest takes of its host", (FLAVOR,), example="quota:NAME"),
    Demand("hw_rng:.+|hw_video:.+|group_policy", _I, (ANY,), "details of the guest", (FLAVOR,), example="hw_rng:NAME"),
)  # fmt: skip
_BY_NAME: Mapping[Source, tuple[tuple[re.Pattern[str], Demand], ...]] = {
    source: tuple((demand.names(source), demand) for demand in TABLE if source in demand.sources)
    for source in (IMAGE, FLAVOR)
}
