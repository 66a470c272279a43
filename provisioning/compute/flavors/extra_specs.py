"""Known extra specs of flavors and the validation of their values (microversion 2.86)."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from oslo_utils import strutils

from provisioning.common.errors import InvalidInputError

_CPU_SET = r"\^?\d+((-|,\^?)\d+)*"
_GROUP = r"([a-zA-Z0-9_-]{1,64})?"
_SIZES = {
    "numa_nodes": 1, "cpu_sockets": 1, "cpu_cores": 1, "cpu_threads": 1, "cpu_max_sockets": 1, "cpu_max_cores": 1,
    "cpu_max_threads": 1, "serial_port_count": 0,
}  # fmt: skip
_SWITCHES = (
    "cpu_realtime", "hide_hypervisor_id", "locked_memory", "boot_menu", "vif_multiqueue_enabled", "mem_encryption",
    "pmu", "virtio_packed_ring", "ephemeral_encryption",
)  # fmt: skip
_CHOICES = {
    "hw:cpu_policy": ("dedicated", "shared", "mixed"),
    "hw:cpu_thread_policy": ("prefer", "isolate", "require"),
    "hw:emulator_threads_policy": ("isolate", "share"),
    "hw:pci_numa_affinity_policy": ("required", "preferred", "legacy", "socket"),
    "hw:mem_encryption_model": ("amd-sev", "amd-sev-es"),
    "hw:tpm_model": ("tpm-tis", "tpm-crb"),
    "hw:tpm_version": ("1.2", "2.0"),
    "hw:watchdog_action": ("none", "pause", "poweroff", "reset", "disabled"),
    "hw:viommu_model": ("intel", "smmuv3", "virtio", "auto"),
    "hw:sound_model": ("sb16", "es1370", "pcspk", "ac97", "ich6", "ich9", "usb", "virtio"),
    "hw:usb_model": ("none", "nec-xhci", "qemu-xhci"),
    "hw:ephemeral_encryption_format": ("plain", "luks", "luksv2"),
    "os:secure_boot": ("disabled", "required"),
    "group_policy": ("isolate", "none"),
}
_PATTERNS = {
    "hw:cpu_realtime_mask": _CPU_SET,
    "hw:cpu_dedicated_mask": _CPU_SET,
    r"hw:numa_cpus\.\d+": _CPU_SET,
    "hw:mem_page_size": r"(large|small|any|\d+([kKMGT]i?)?(b|bit|B)?)",
    "hw:pmem": r"[a-zA-Z0-9_]+(,[a-zA-Z0-9_]+)*,?",
    "pci_passthrough:alias": r"[^:]+:\d+(\s*,[^:]+:\d+)*",
}
_RESOURCES = (
    "VCPU", "MEMORY_MB", "DISK_GB", "PCI_DEVICE", "SRIOV_NET_VF", "NUMA_SOCKET", "NUMA_CORE", "NUMA_THREAD",
    "NUMA_MEMORY_MB", "IPV4_ADDRESS", "VGPU", "VGPU_DISPLAY_HEAD", "NET_BW_EGR_KILOBIT_PER_SEC",
    "NET_BW_IGR_KILOBIT_PER_SEC", "PCPU", "MEM_ENCRYPTION_CONTEXT", "FPGA", "PGPU",
    "NET_PACKET_RATE_KILOPACKET_PER_SEC",
    "NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC", "NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC", r"CUSTOM_[A-Z0-9_]+",
)  # fmt: skip
_TRAITS = r"(CUSTOM|COMPUTE|HW|MISC|OWNER|STORAGE)_[A-Z0-9_]+"
"""Pattern for the names of standard traits and of custom traits."""
_CAPABILITIES = (
    "id", "uuid", "service_id", "host", "vcpus", "memory_mb", "local_gb", "vcpus_used", "memory_mb_used",
    "local_gb_used", "hypervisor_type", "hypervisor_version", "hypervisor_hostname", "free_ram_mb", "free_disk_gb",
    "current_workload", "running_vms", "disk_available_least", "host_ip", "mapped", "cpu_allocation_ratio",
    "ram_allocation_ratio", "disk_allocation_ratio", "total_usable_ram_mb", "total_usable_disk_gb", "disk_mb_used",
    "free_disk_mb", "vcpus_total", "num_instances", "num_io_ops", "failed_builds", "aggregates", "cell_uuid", "updated",
)  # fmt: skip
_DEEP_CAPABILITIES = (
    "cpu_info", "metrics", "stats", "numa_topology", "supported_hv_specs", "pci_device_pools", "nodename", "pci_stats",
    "supported_instances", "limits", "instances",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class KnownSpec:
    """One kind of extra spec: a pattern for its name, and the constraints of its value."""

    name: re.Pattern[str]
    kind: Literal["text", "number", "boolean"] = "text"
    pattern: str = ""
    choices: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None

    def check(self, value: str) -> None:
        """Raise InvalidInputError, with Nova's message, for an invalid value."""
        if self.kind == "number":
            self._check_number(value)
        elif self.kind == "boolean" and strutils.bool_from_string(value, default=None) is None:
            raise _invalid(f"'{value}' is not a valid boolean-like value.")
        elif self.choices and value not in self.choices:
            raise _invalid(f"'{value}' is not one of: {', '.join(self.choices)}.")
        elif self.pattern and not re.fullmatch(self.pattern, value):
            raise _invalid(f"'{value}' is not of the format '{self.pattern}'.")

    def _check_number(self, value: str) -> None:
        if not re.fullmatch(r"\s*[+-]?\d+\s*", value):
            raise _invalid(f"'{value}' is not a valid integer value.")
        if self.most is not None and int(value) > self.most:
            raise _invalid(f"'{value}' is greater than the max value of '{self.most}'.")
        if self.least is not None and int(value) < self.least:
            raise _invalid(f"'{value}' is less than the min value of '{self.least}'.")


def check(key: str, value: str) -> None:
    """Raise InvalidInputError for an invalid value of a known extra spec, or an unknown key in a known namespace.

    Keys without a namespace, and keys in unknown namespaces, may have any value.
    """
    for known in KNOWN:
        if known.name.fullmatch(key):
            known.check(value)
            return
    namespace, mark, _ = key.partition(":")
    if mark and any(found.fullmatch(namespace) for found in NAMESPACES):
        raise _invalid(f"extra spec '{key}' does not appear to be a valid extra spec.")


def _invalid(what: str) -> InvalidInputError:
    return InvalidInputError(f"Validation failed; {what}", field="extra_specs")


def _known() -> Iterator[KnownSpec]:
    name = re.compile
    yield from (KnownSpec(name(rf"hw:{key}"), "number", least=least) for key, least in _SIZES.items())
    yield from (KnownSpec(name(rf"hw:{key}"), "boolean") for key in _SWITCHES)
    yield KnownSpec(name("hide_hypervisor_id"), "boolean")
    yield KnownSpec(name(r"hw:numa_mem\.\d+"), "number", least=1)
    yield KnownSpec(name("hw:redirected_usb_ports"), "number", least=0, most=15)
    yield KnownSpec(name("hw_rng:allowed"), "boolean")
    yield KnownSpec(name("hw_rng:rate_(bytes|period)"), "number", least=0)
    yield KnownSpec(name("hw_video:ram_max_mb"), "number", least=0)
    yield from (KnownSpec(name(re.escape(key)), choices=choices) for key, choices in _CHOICES.items())
    yield from (KnownSpec(name(key), pattern=pattern) for key, pattern in _PATTERNS.items())
    yield from _quotas()
    yield KnownSpec(name(rf"resources{_GROUP}:({'|'.join(_RESOURCES)})"), "number")
    yield KnownSpec(name(rf"trait{_GROUP}:{_TRAITS}"), choices=("required", "forbidden"))
    yield KnownSpec(name(r"aggregate_instance_extra_specs:.+"))
    yield KnownSpec(name("accel:device_profile"))
    yield KnownSpec(name(f"capabilities:({'|'.join(_CAPABILITIES)})"))
    yield KnownSpec(name(rf"capabilities:({'|'.join(_DEEP_CAPABILITIES)})(:\w+)*"))
    yield KnownSpec(name("vmware:(hw_version|storage_policy)"))


def _quotas() -> Iterator[KnownSpec]:
    """Yield the specs of the namespace ``quota:``."""
    kinds = "quota:(cpu|memory|disk_io|vif)"
    yield KnownSpec(re.compile(f"{kinds}_(limit|shares_share)"), "number", least=0)
    yield KnownSpec(re.compile(f"{kinds}_reservation"), "number")
    yield KnownSpec(re.compile(f"{kinds}_shares_level"), choices=("custom", "high", "normal", "low"))
    yield KnownSpec(re.compile("quota:cpu_(shares|period)"), "number", least=0)
    yield KnownSpec(re.compile("quota:cpu_quota"), "number")
    yield KnownSpec(re.compile("quota:disk_(read|write|total)_(bytes|iops)_sec"), "number", least=0)
    yield KnownSpec(re.compile("quota:vif_(inbound|outbound)_(average|peak|burst)"), "number", least=0)


KNOWN = tuple(_known())
NAMESPACES = tuple(
    re.compile(found)
    for found in (
        "hw", "hw_rng", "hw_video", "os", "quota", f"resources{_GROUP}", f"trait{_GROUP}", "accel", "capabilities",
        "aggregate_instance_extra_specs", "pci_passthrough", "vmware",
    )
)  # fmt: skip


def aggregate_specs(specs: Mapping[str, object]) -> dict[str, str]:
    """Return the extra specs that the metadata of a host's aggregates must match."""
    return {name.removeprefix(_AGGREGATES): str(specs[name]) for name in specs if name.startswith(_AGGREGATES)}


def capabilities(specs: Mapping[str, object]) -> dict[str, str]:
    """Return the extra specs that the host itself must match: ``capabilities:…`` and unscoped names of capabilities.

    Other keys without a scope are ignored.
    """
    requested = {}
    for name, value in specs.items():
        scope, mark, rest = name.partition(":")
        if mark and scope == _HOSTS:
            requested[rest] = str(value)
        elif not mark and name in _CAPABILITIES:
            requested[name] = str(value)
    return requested


_AGGREGATES = "aggregate_instance_extra_specs:"
_HOSTS = "capabilities"
