"""Limits of guests by their flavor: ``quota:disk_…`` for local disks, ``quota:vif_…`` for interfaces, ``quota:cpu_…``
for vCPUs.
"""

from collections.abc import Mapping

from compute_agent.contract.hardware_properties import HardwareError

CPU_TRAIT, VIF_TRAIT = "CUSTOM_CPU_LIMITS", "CUSTOM_VIF_LIMITS"
"""Traits of hosts that can limit processor time (control groups) and traffic (the kernel's traffic control)."""
DISK, VIF, CPU = "quota:disk_", "quota:vif_", "quota:cpu_"
CPU_RANGES = {"shares": (1, 10_000), "period": (1_000, 1_000_000), "quota": (1_000, 17_592_186_044_415)}
"""Minimum and maximum of each limit, as in libvirt and control groups (version 2)."""


def limits_of(flavor: Mapping[str, str]) -> dict[str, object]:
    """Return disk_limits, vif_limits and cpu_limits of ``Hardware``; 0 means no limit.  Raises HardwareError."""
    disk = _numbers(flavor, DISK)
    for unit in ("bytes_sec", "iops_sec"):
        if f"total_{unit}" in disk and {f"read_{unit}", f"write_{unit}"} & disk.keys():
            name = f"{DISK}total_{unit}"
            raise HardwareError(
                name, flavor[name], f"cannot be combined with {DISK}read_{unit} or {DISK}write_{unit}", "flavor"
            )
    ways: dict[str, dict[str, int]] = {}
    for name, value in _numbers(flavor, VIF).items():
        way, _, part = name.partition("_")
        ways.setdefault(way, {})[part] = value
    for way, parts in ways.items():
        if "average" not in parts:
            name = f"{VIF}{way}_{next(iter(parts))}"
            raise HardwareError(name, flavor[name], f"needs {VIF}{way}_average", "flavor")
    return {"disk_limits": disk, "vif_limits": ways, "cpu_limits": _of_processors(flavor)}


def _of_processors(flavor: Mapping[str, str]) -> dict[str, int]:
    """Return the limits of vCPUs; a negative quota means no limit."""
    result = _numbers(flavor, CPU)
    if result.get("quota", 0) < 0:
        del result["quota"]
    for part, value in result.items():
        least, most = CPU_RANGES[part]
        if not least <= value <= most:
            reason = f"must be 0, or from {least} to {most}"
            raise HardwareError(f"{CPU}{part}", flavor[f"{CPU}{part}"], reason, "flavor")
    return result


def _numbers(flavor: Mapping[str, str], beginning: str) -> dict[str, int]:
    limits = {name.removeprefix(beginning): int(value) for name, value in flavor.items() if name.startswith(beginning)}
    return {name: value for name, value in limits.items() if value}
