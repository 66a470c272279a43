"""``GET /servers/{id}/diagnostics`` (Compute API reference, "Servers diagnostics")."""

from typing import Any

from compute_agent.contract.calls import Diagnostics
from compute_agent.contract.power import PowerState
from portal.api.frame.parts import Call
from provisioning.compute.services.diagnostics import diagnostics

_STATES = {
    PowerState.NOSTATE: "pending",
    PowerState.RUNNING: "running",
    PowerState.PAUSED: "paused",
    PowerState.SHUTDOWN: "shutdown",
    PowerState.CRASHED: "crashed",
    PowerState.SUSPENDED: "suspended",
}
_DRIVERS = {"libvirt", "xenapi", "vmwareapi", "ironic", "hyperv"}
"""The hypervisor drivers in the reference; for any other driver, ``libvirt`` is shown."""
_NIC = ("rx_octets", "rx_errors", "rx_drop", "rx_packets", "tx_octets", "tx_errors", "tx_drop", "tx_packets")
_DISK = ("read_bytes", "read_requests", "write_bytes", "write_requests", "errors_count")
_OLD_NIC = {"rx": "rx_octets", "rx_packets": "rx_packets", "rx_errors": "rx_errors", "rx_drop": "rx_drop"}
_OLD_DISK = {
    "read_req": "read_requests",
    "read": "read_bytes",
    "write_req": "write_requests",
    "write": "write_bytes",
    "errors": "errors_count",
}


def standard(found: Diagnostics) -> dict[str, Any]:
    """Return the format of 2.48; memory in MiB, times in ns, uptime in s."""
    return {
        "state": _STATES.get(PowerState(found.power_state), "pending"),
        "driver": found.driver if found.driver in _DRIVERS else "libvirt",
        "hypervisor": found.hypervisor,
        "hypervisor_os": found.hypervisor_os,
        "uptime": None if found.uptime is None else int(found.uptime),
        "config_drive": found.config_drive,
        "num_cpus": len(found.cpus),
        "num_nics": len(found.nics),
        "num_disks": len(found.disks),
        "memory_details": {"maximum": found.memory_mb, "used": found.memory_used_mb},
        "cpu_details": [{"id": cpu.id, "time": cpu.time_ns, "utilisation": cpu.utilisation} for cpu in found.cpus],
        "nic_details": [
            {
                "mac_address": nic.mac_address,
                **{name: getattr(nic, name) for name in _NIC},
                "rx_rate": None,
                "tx_rate": None,
            }
            for nic in found.nics
        ],
        "disk_details": [{name: getattr(disk, name) for name in _DISK} for disk in found.disks],
    }


def flat(found: Diagnostics) -> dict[str, Any]:
    """Return the format before 2.48: libvirt's names, one key for each counter; memory in KiB."""
    shape: dict[str, Any] = {f"cpu{cpu.id}_time": cpu.time_ns for cpu in found.cpus}
    for disk in found.disks:
        shape |= {f"{disk.target}_{old}": getattr(disk, name) for old, name in _OLD_DISK.items()}
    for nic in found.nics:
        for old, name in _OLD_NIC.items():
            sent = old.replace("rx", "tx", 1), name.replace("rx", "tx", 1)
            shape |= {f"{nic.tap or 'vnet'}_{old}": getattr(nic, name)}
            shape |= {f"{nic.tap or 'vnet'}_{sent[0]}": getattr(nic, sent[1])}
    if found.memory_mb is not None:
        shape["memory"] = found.memory_mb * 1024
    if found.memory_used_mb is not None:
        shape["memory-rss"] = found.memory_used_mb * 1024
    return shape


DIAGNOSTICS = Call(
    diagnostics,
    "os_compute_api:os-server-diagnostics",
    "Query the host and show its counters: from 2.48 on in one format for all hypervisors, before 2.48 in libvirt's"
    " flat format.",
    shape=lambda view, found: standard(found) if view.microversion >= (2, 48) else flat(found),
)
