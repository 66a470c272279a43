"""Demands of images and flavors on a guest and its host: the effect of each, and the accepted values.

Launches, pages and metadata definitions use this table. Names and values are those of Nova's "Useful image properties"
and "Extra specs"; ``hw`` represents ``hw_`` in images and ``hw:`` in flavors. The rows for hardware that hosts can
provide are created from ``compute_agent.contract.hardware_properties``.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache

from oslo_utils import strutils

from compute_agent.contract.hardware_properties import PROPERTIES, REFUSED, Property, Source

IMAGE: Source = "image"
FLAVOR: Source = "flavor"
OFF = "(off)"
"""Represents all false values."""
ON = "(on)"
ANY = "(any)"
_NUMBER, _COUNT, _CPUS = r"\d{1,18}", r"[1-9]\d{0,8}", r"\^?\d+((-|,\^?)\d+)*"
_SIZE, _NAMES = r"\d+([kKMGT]i?)?(b|bit|B)?", r"[a-zA-Z0-9_]+(,[a-zA-Z0-9_]+)*,?"
_READABLE = {
    _NUMBER: "a number", _COUNT: "a number of at least 1", _CPUS: "CPU numbers, such as 0-3,^2",
    _SIZE: "a size, such as 2MB", _NAMES: "names, separated by commas",
}  # fmt: skip
"""Patterns of values → their form on pages."""
_PREFIX: Mapping[Source, str] = {IMAGE: "hw_", FLAVOR: "hw:"}


class Effect(StrEnum):
    """The effect of a demand."""

    HONOURED = "honoured"
    """The demand is met in the guest."""
    PLACED = "placed"
    """The scheduler chooses only hosts that satisfy the demand; if there is none, no valid host is found."""
    REFUSED = "refused"
    """A launch with this demand is rejected."""
    IGNORED = "ignored"
    """The demand is stored and shown, but has no effect."""


@dataclass(frozen=True, slots=True)
class Demand:
    """A property of images or flavors."""

    name: str
    """A regular expression; a leading ``hw`` is replaced by the prefix of the source."""
    effect: Effect
    accepted: tuple[str, ...] = (ANY,)
    """Patterns of accepted values."""
    meaning: str = ""
    sources: tuple[Source, ...] = (IMAGE, FLAVOR)
    example: str = ""
    """The name on pages, if ``name`` is a pattern."""
    free: tuple[str, ...] = ()
    """Patterns of values without a requirement on the host."""
    hardware: Property | None = None
    """The definition of a hardware property, which parses its values."""
    values: tuple[re.Pattern[str], ...] = field(init=False)

    def __post_init__(self) -> None:
        patterns = tuple(re.compile(each) for each in self.accepted if each not in _WORDS)
        object.__setattr__(self, "values", patterns)

    def accepts(self, value: str) -> bool:
        """Whether launches with this value are accepted."""
        return self.effect != Effect.REFUSED and _is_among(value, self.accepted)

    def needs_host(self, value: str) -> bool:
        """Whether the value requires something of the host."""
        return self.effect == Effect.PLACED and not _is_among(value, self.free)

    @property
    def readable(self) -> str:
        """The accepted values in the form of pages; empty if all are accepted."""
        if self.hardware is not None:
            return self.hardware.legal if self.hardware.kind != "text" else ""
        readable = [_READABLE.get(each, each) for each in self.accepted if each not in _WORDS]
        if OFF in self.accepted:
            readable.append("true or false" if ON in self.accepted else "false")
        return ", ".join(readable)

    def shown(self, source: Source) -> list[str]:
        """Return the property's names in images or in flavors as pages show them; empty if the source cannot have the
        property.
        """
        if source not in self.sources:
            return []
        if self.hardware is not None:
            return [self.hardware.name_in(source)]
        names = [self.example] if self.example else self.name.split("|")
        return [re.sub(r"^hw ", _PREFIX[source], name) for name in names]

    def names(self, source: Source) -> re.Pattern[str]:
        """Return the pattern that the property's names match in images or in flavors."""
        if self.hardware is not None:
            return re.compile(re.escape(self.hardware.name_in(source)))
        return re.compile(re.sub(r"^hw ", _PREFIX[source], self.name))


_WORDS = {OFF, ON, ANY}


def _is_among(value: str, accepted: tuple[str, ...]) -> bool:
    if ANY in accepted or any(re.fullmatch(each, value) for each in accepted if each not in _WORDS):
        return True
    specified = strutils.bool_from_string(value, default=None)
    return (OFF in accepted and specified is False) or (ON in accepted and specified is True)


@dataclass(frozen=True, slots=True)
class SpecifiedDemand:
    """A property of an image or flavor, with its value and the demand that defines it."""

    name: str
    value: str
    demand: Demand

    @property
    def text(self) -> str:
        return f"{self.name}={self.value[:80]}"

    def __str__(self) -> str:
        """Return the property, its value, and the reason why launches are rejected."""
        if self.demand.effect == Effect.REFUSED:
            return f"{self.text} cannot be met by this cloud: {self.demand.meaning}"
        return f"{self.text} cannot be met by this cloud: it must be {' or '.join(self.demand.readable.split(', '))}"


def specified(source: Source, properties: Mapping[str, object]) -> Iterator[SpecifiedDemand]:
    """Yield the demands of an image's properties or a flavor's extra specs, in order of their names.

    Hardware properties are not included; ``compute_agent.contract.hardware`` parses them.
    """
    for name in sorted(properties):
        value = properties[name]
        if value is None or not str(value).strip():
            continue
        demand = _demand_of(source, name)
        if demand is not None:
            yield SpecifiedDemand(name, str(value).strip(), demand)


def demand_of(source: Source, name: str) -> Demand | None:
    """Return the definition of a property; None for unknown names."""
    return _HARDWARE_BY_NAME[source].get(name) or _demand_of(source, name)


@lru_cache(maxsize=4096)
def _demand_of(source: Source, name: str) -> Demand | None:
    if not name.startswith(_BEGINNINGS[source]):
        return None
    return next((demand for pattern, demand in _BY_NAME[source] if pattern.fullmatch(name)), None)


_H, _P, _R, _I = Effect.HONOURED, Effect.PLACED, Effect.REFUSED, Effect.IGNORED
_PLACES: tuple[Demand, ...] = (
    Demand("hw_architecture|architecture", _H, meaning="hosts with this processor", sources=(IMAGE,)),
    Demand("hypervisor_type|img_hv_type", _H, meaning="hosts with this hypervisor", sources=(IMAGE,)),
    Demand("img_hv_requested_version|hypervisor_version_requires", _H,
           meaning="hosts whose hypervisor has such a version", sources=(IMAGE,), example="img_hv_requested_version"),
    Demand("aggregate_instance_extra_specs:.+", _H, meaning="hosts of such aggregates", sources=(FLAVOR,),
           example="aggregate_instance_extra_specs:KEY"),
    Demand("capabilities:.+", _H, meaning="hosts with such values", sources=(FLAVOR,), example="capabilities:KEY"),
    Demand(r"trait[A-Za-z0-9_-]{0,64}:.+", _P, ("required", "forbidden"), "hosts with, or without, a trait",
           example="trait:NAME"),
    Demand(r"resources[A-Za-z0-9_-]{0,64}:.+", _P, (_NUMBER,), "hosts with so much of a resource", (FLAVOR,),
           example="resources:CLASS", free=("0",)),
)  # fmt: skip
_GUESTS: tuple[Demand, ...] = (
    Demand("kernel_id|ramdisk_id", _H, meaning="the guest boots this kernel", sources=(IMAGE,)),
    Demand("os_shutdown_timeout", _H, (_NUMBER,), "seconds that the guest has to shut down", (IMAGE,)),
    Demand("cinder_img_volume_type", _H, meaning="the type of volumes that are created from it", sources=(IMAGE,)),
    Demand("os_admin_user", _H, meaning="the user to sign in as", sources=(IMAGE,)),
    Demand("img_block_device_mapping|block_device_mapping|mappings|root_device_name|bdm_v2|img_bdm_v2|"
           "img_root_device_name|img_mappings", _H, meaning="the disks of an image of a server", sources=(IMAGE,),
           example="block_device_mapping"),
)  # fmt: skip
_OFFERED: tuple[Demand, ...] = (
    Demand("hw cpu_policy", _P, ("shared", "dedicated", "mixed"), "processors for one guest alone", free=("shared",)),
    Demand("hw cpu_thread_policy", _P, ("prefer", "isolate", "require"), "threads of one core for one guest alone"),
    Demand("hw cpu_(realtime|dedicated)_mask", _P, (_CPUS,), "processors for one guest alone",
           example="hw cpu_realtime_mask"),
    Demand("hw cpu_realtime", _P, (ON, OFF), "real-time vCPUs", free=(OFF,)),
    Demand("hw emulator_threads_policy", _P, ("share", "isolate"), "a processor for QEMU's own threads",
           free=("share",)),
    Demand("hw numa_nodes", _P, (_COUNT,), "NUMA nodes"),
    Demand(r"hw numa_cpus\.\d+", _P, (_CPUS,), "NUMA nodes", example="hw numa_cpus.N"),
    Demand(r"hw numa_mem\.\d+", _P, (_COUNT,), "NUMA nodes", example="hw numa_mem.N"),
    Demand("hw pci_numa_affinity_policy", _P, ("required", "preferred", "legacy", "socket"),
           "devices of a NUMA node", free=("preferred", "legacy")),
    Demand("hw mem_page_size", _P, ("small", "large", "any", _SIZE), "pages of this size for the guest's memory",
           free=("small", "any")),
    Demand("hw locked_memory", _P, (ON, OFF), "memory that is never swapped", free=(OFF,)),
    Demand("hw mem_encryption", _P, (ON, OFF), "encrypted memory", free=(OFF,)),
    Demand("hw mem_encryption_model", _P, ("amd-sev", "amd-sev-es"), "encrypted memory"),
    Demand("hw maxphysaddr_mode", _P, ("passthrough", "emulate"), "a chosen width of physical addresses"),
    Demand("hw maxphysaddr_bits", _P, (_COUNT,), "a chosen width of physical addresses"),
    Demand("hw pmem", _P, (_NAMES,), "persistent memory", (FLAVOR,)),
    Demand("hw ephemeral_encryption", _P, (ON, OFF), "encrypted local disks", free=(OFF,)),
    Demand("hw ephemeral_encryption_format", _P, ("plain", "luks", "luksv2"), "encrypted local disks"),
    Demand("hw_emulation_architecture", _P, ("x86_64", "aarch64", "ppc64le", "mips64el", "s390x", "riscv64"),
           "the emulation of this processor", (IMAGE,), free=("x86_64",)),
    Demand("vm_mode|hw_vm_mode", _P, ("hvm", "xen", "uml", "exe"), "this mode of virtual machines", (IMAGE,),
           free=("hvm",)),
    Demand("quota:(cpu|memory|disk_io|vif)_(limit|reservation|shares_level|shares_share)", _P, (ANY,),
           "limits of VMware's hypervisor", (FLAVOR,), example="quota:cpu_limit"),
    Demand("vmware:.+|powervm:.+", _P, (ANY,), "another hypervisor", (FLAVOR,), example="vmware:NAME"),
)  # fmt: skip
_NEVER: tuple[Demand, ...] = (
    Demand("pci_passthrough:alias", _R, (), "no PCI alias is defined here", (FLAVOR,)),
    Demand("accel:device_profile", _R, (), "no device profile is defined here", (FLAVOR,)),
    *(Demand(re.escape(name), _R, (), why, (FLAVOR if ":" in name else IMAGE,), example=name)
      for name, why in REFUSED.items()),
)  # fmt: skip
_KEPT: tuple[Demand, ...] = (
    Demand("cinder_encryption_key_deletion_policy", _I, ("on_image_deletion", "do_not_delete"),
           "a key that is deleted with the image", (IMAGE,)),
    Demand("img_signature.*", _I, (ANY,), "a signature of the data, which is not checked", (IMAGE,),
           example="img_signature"),
    Demand("group_policy", _I, ("isolate", "none"), "how groups of resources are divided", (FLAVOR,)),
)  # fmt: skip


def _of_hardware(known: Property) -> Demand:
    sources = tuple(source for source in (IMAGE, FLAVOR) if known.name_in(source))
    return Demand(known.image or known.flavor, _H, (ANY,), known.meaning, sources, hardware=known)


_HARDWARE = tuple(_of_hardware(each) for each in PROPERTIES)
TABLE: tuple[Demand, ...] = (*_PLACES, *_GUESTS, *_HARDWARE, *_OFFERED, *_NEVER, *_KEPT)
_OWN = (*_PLACES, *_GUESTS, *_OFFERED, *_NEVER, *_KEPT)
_BY_NAME: Mapping[Source, tuple[tuple[re.Pattern[str], Demand], ...]] = {
    source: tuple((demand.names(source), demand) for demand in _OWN if source in demand.sources)
    for source in (IMAGE, FLAVOR)
}
_BEGINNINGS: Mapping[Source, tuple[str, ...]] = {
    IMAGE: ("hw_", "img_", "os_", "cinder_", "trait", "vm_mode", "architecture", "hypervisor_", "kernel_id",
            "ramdisk_id", "block_device_mapping", "mappings", "root_device_name", "bdm_v2"),
    FLAVOR: ("hw:", "trait", "resources", "quota:", "capabilities:", "aggregate_instance_extra_specs:", "accel:",
             "pci_passthrough:", "vmware:", "powervm:", "group_policy"),
}  # fmt: skip
"""Prefixes of the names in the table; other names are not searched."""
_HARDWARE_BY_NAME: Mapping[Source, Mapping[str, Demand]] = {
    source: {name: each for each in _HARDWARE if each.hardware and (name := each.hardware.name_in(source))}
    for source in (IMAGE, FLAVOR)
}
