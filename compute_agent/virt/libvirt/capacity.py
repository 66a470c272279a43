"""Capacity and usage of the host, from libvirt and the file system."""

import os
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import libvirt

from compute_agent.virt.driver import HostCapacity
from compute_agent.virt.libvirt.connection import if_defined
from compute_agent.virt.machine.uptime import machine_uptime

GIB = 1 << 30
KIB_PER_MIB = 1024


def measure(connection: Any, domains: list[Any], instances: Path, virt_type: str) -> HostCapacity:
    """Return the capacity and usage of the host. ``domains`` are Novella's, ``instances`` is the directory of their
    disks.

    Raises libvirtError.
    """
    node = connection.getInfo()
    memory = connection.getMemoryStats(libvirt.VIR_NODE_MEMORY_STATS_ALL_CELLS)
    unused = sum(memory.get(name, 0) for name in ("free", "buffers", "cached"))
    disk = os.statvfs(instances)
    infos = [info for domain in domains if (info := if_defined(domain.info)) is not None]
    active = [info for info in infos if info[0] != libvirt.VIR_DOMAIN_SHUTOFF]
    return HostCapacity(
        vcpus=node[2],
        memory_mb=memory["total"] // KIB_PER_MIB,
        memory_mb_used=max(memory["total"] - unused, 0) // KIB_PER_MIB,
        disk_gb=disk.f_blocks * disk.f_frsize // GIB,
        disk_gb_used=(disk.f_blocks - disk.f_bfree) * disk.f_frsize // GIB,
        vcpus_used=sum(info[3] for info in active),
        running_vms=len(active),
        hypervisor_type="KVM" if virt_type == "kvm" else "QEMU",
        hypervisor_version=connection.getVersion(),
        cpu_info=_processor(connection.getCapabilities()),
        architecture=node[0],
        uptime=machine_uptime(),
    )


def _processor(capabilities: str) -> dict[str, str]:
    cpu = ET.fromstring(capabilities).find("host/cpu")  # noqa: S314 - libvirt's own output
    if cpu is None:
        return {}
    texts = {tag: cpu.findtext(tag) or "" for tag in ("arch", "model", "vendor")}
    topology = cpu.find("topology")
    if topology is not None:
        texts |= {name: topology.get(name, "") for name in ("sockets", "cores", "threads")}
    texts["features"] = ",".join(feature.get("name", "") for feature in cpu.findall("feature"))
    return {name: value for name, value in texts.items() if value}
