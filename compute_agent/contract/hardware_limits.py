"""Limits that a flavor sets to local disks and interfaces of its guests: ``quota:disk_…`` and ``quota:vif_…``."""

from collections.abc import Mapping

from compute_agent.contract.hardware_properties import HardwareError

DISK, VIF = "quota:disk_", "quota:vif_"


def limits_of(flavor: Mapping[str, str]) -> dict[str, object]:
    """Return ``disk_limits`` and ``vif_limits`` of ``Hardware``; 0 sets none.  Raises HardwareError."""
    disk = _numbers(flavor, DISK)
    for unit in ("bytes_sec", "iops_sec"):
        if f"total_{unit}" in disk and {f"read_{unit}", f"write_{unit}"} & disk.keys():
            name = f"{DISK}total_{unit}"
            raise HardwareError(name, flavor[name], f"cannot be together with {DISK}read_{unit} or write", "flavor")
    ways: dict[str, dict[str, int]] = {}
    for name, value in _numbers(flavor, VIF).items():
        way, _, part = name.partition("_")
        ways.setdefault(way, {})[part] = value
    for way, parts in ways.items():
        if "average" not in parts:
            name = f"{VIF}{way}_{next(iter(parts))}"
            raise HardwareError(name, flavor[name], f"needs {VIF}{way}_average", "flavor")
    return {"disk_limits": disk, "vif_limits": ways}


def _numbers(flavor: Mapping[str, str], beginning: str) -> dict[str, int]:
    said = {name.removeprefix(beginning): int(value) for name, value in flavor.items() if name.startswith(beginning)}
    return {name: value for name, value in said.items() if value}
