"""libvirt's counters of a guest (``virConnectGetAllDomainStats``)."""

import time
import xml.etree.ElementTree as ET
from typing import Any

import libvirt

from compute_agent.contract.calls import CpuDiagnostics, Diagnostics, DiskDiagnostics, NicDiagnostics
from compute_agent.contract.power import PowerState
from compute_agent.virt.libvirt.volume_table import target_of, volumes_in

_KINDS = (
    libvirt.VIR_DOMAIN_STATS_CPU_TOTAL
    | libvirt.VIR_DOMAIN_STATS_BALLOON
    | libvirt.VIR_DOMAIN_STATS_VCPU
    | libvirt.VIR_DOMAIN_STATS_INTERFACE
    | libvirt.VIR_DOMAIN_STATS_BLOCK
)


def diagnose(connection: Any, domain: Any, power: PowerState, *, hypervisor: str, started: float | None) -> Diagnostics:
    """Return the counters of a guest; ``started`` is the time of its power-on, in Unix seconds."""
    ((_, stats),) = connection.domainListGetStats([domain], _KINDS)
    maximum = stats.get("balloon.maximum")
    used = stats.get("balloon.rss") or stats.get("balloon.current")
    tree = ET.fromstring(domain.XMLDesc())  # noqa: S314 - libvirt's own output
    return Diagnostics(
        power_state=power,
        uptime=time.time() - started if started else None,
        memory_mb=maximum // 1024 if maximum else None,
        memory_used_mb=used // 1024 if used else None,
        cpu_time_ns=stats.get("cpu.time"),
        hypervisor=hypervisor,
        hypervisor_os="linux",
        config_drive=tree.find("./devices/disk[@device='cdrom']/source") is not None,
        cpus=[
            CpuDiagnostics(id=number, time_ns=stats.get(f"vcpu.{number}.time"))
            for number in range(stats.get("vcpu.current", 0))
        ],
        nics=_nics(stats, tree),
        disks=_disks(stats, tree),
    )


def _nics(stats: dict[str, Any], tree: ET.Element) -> list[NicDiagnostics]:
    macs = {
        target.attrib.get("dev", ""): mac.attrib.get("address", "")
        for interface in tree.findall("./devices/interface")
        if (target := interface.find("target")) is not None and (mac := interface.find("mac")) is not None
    }
    result = []
    for number in range(stats.get("net.count", 0)):
        drops = {name: stats.get(f"net.{number}.{name.replace('_', '.')}") for name in ("rx_drop", "tx_drop")}
        errors = {f"{way}_errors": stats.get(f"net.{number}.{way}.errs") for way in ("rx", "tx")}
        packets = {f"{way}_packets": stats.get(f"net.{number}.{way}.pkts") for way in ("rx", "tx")}
        octets = {f"{way}_octets": stats.get(f"net.{number}.{way}.bytes") for way in ("rx", "tx")}
        tap = str(stats.get(f"net.{number}.name", ""))
        result.append(NicDiagnostics(mac_address=macs.get(tap, ""), tap=tap, **drops, **errors, **packets, **octets))
    return result


def _disks(stats: dict[str, Any], tree: ET.Element) -> list[DiskDiagnostics]:
    volumes = {target_of(disk): volume for volume, disk in volumes_in(tree).items()}
    return [
        DiskDiagnostics(
            read_bytes=stats.get(f"block.{number}.rd.bytes"),
            read_requests=stats.get(f"block.{number}.rd.reqs"),
            write_bytes=stats.get(f"block.{number}.wr.bytes"),
            write_requests=stats.get(f"block.{number}.wr.reqs"),
            errors_count=stats.get(f"block.{number}.errors"),
            target=(name := str(stats.get(f"block.{number}.name", ""))),
            volume_id=volumes.get(name, ""),
        )
        for number in range(stats.get("block.count", 0))
    ]
