"""The resource audit: the resources of this host, their usage, and its guests."""

import logging
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from compute_agent.contract.build import GuestInterface, InstanceSpec, PortRef
from compute_agent.contract.cpu import MOST_CPUS, Cpu, RunningCpu
from compute_agent.contract.messages import MOST_LEFTOVERS, GuestState, Leftover, ResourceAudit
from compute_agent.servers.services import HostServices
from compute_agent.virt.driver import ComputeDriver, Guest
from compute_agent.virt.errors import HostError

log = logging.getLogger(__name__)


def with_interfaces(
    states: Iterable[GuestState], macs: Mapping[str, Sequence[str]], specs: Mapping[str, InstanceSpec]
) -> list[GuestState]:
    """Return the states with the interfaces of each guest. ``macs``: guest id → MAC addresses in the hypervisor.
    ``specs``: guest id → spec that this host has stored. The state of a guest that is not in ``macs`` is unchanged.
    """
    return [
        replace(state, interfaces=_interfaces(macs[state.instance_id], specs.get(state.instance_id)))
        if state.instance_id in macs
        else state
        for state in states
    ]


def _interfaces(macs: Sequence[str], spec: InstanceSpec | None) -> list[GuestInterface]:
    known = {port.mac_address.lower(): port for port in (spec.ports if spec is not None else ())}
    return [_interface(known[mac]) if mac in known else GuestInterface(mac_address=mac) for mac in macs]


def _interface(port: PortRef) -> GuestInterface:
    return GuestInterface(
        mac_address=port.mac_address.lower(),
        port_id=port.id,
        network_id=port.network.id,
        addresses=[fixed.address for fixed in port.fixed_ips],
        port_security=port.port_security,
        security_group_ids=port.security_group_ids,
        allowed_address_pairs=port.allowed_address_pairs,
        tag=port.tag,
    )


def guest_states(
    guests: Iterable[Guest],
    volumes: Mapping[str, Sequence[str]] | None = None,
    attachments: Mapping[str, Mapping[str, str]] | None = None,
) -> list[GuestState]:
    """Return the guests' states for a message. ``volumes``: guest id → ids of its volumes. ``attachments``: guest id →
    volume id → attachment id. None for either of them: not determined.
    """
    return [
        GuestState(
            instance_id=guest.uuid,
            attempt=guest.attempt,
            power_state=guest.power_state,
            volumes=None if volumes is None or guest.uuid not in volumes else list(volumes[guest.uuid]),
            attachments=None if attachments is None or guest.uuid not in attachments else {**attachments[guest.uuid]},
        )
        for guest in guests
    ]


def _running(cpus: Mapping[str, Cpu]) -> list[RunningCpu]:
    """Group the running guests by their processor."""
    guests: dict[bytes, RunningCpu] = {}
    for uuid, cpu in sorted(cpus.items()):
        key = msgspec.json.encode(cpu)
        if key not in guests and len(guests) < MOST_CPUS:
            guests[key] = RunningCpu(cpu, [])
        if key in guests:
            guests[key].guests.append(uuid)
    return list(guests.values())


def resource_audit(driver: ComputeDriver, *, host: str, host_ip: str, cached_images: list[str]) -> ResourceAudit:
    """Measure the host. Blocks while the hypervisor answers. Raises HypervisorUnavailableError."""
    capacity = driver.capacity()
    return ResourceAudit(
        vcpus=capacity.vcpus,
        memory_mb=capacity.memory_mb,
        disk_gb=capacity.disk_gb,
        memory_mb_used=capacity.memory_mb_used,
        disk_gb_used=capacity.disk_gb_used,
        vcpus_used=capacity.vcpus_used,
        running_vms=capacity.running_vms,
        hypervisor_type=capacity.hypervisor_type,
        hypervisor_version=capacity.hypervisor_version,
        hypervisor_hostname=host,
        cpu_info=capacity.cpu_info,
        architecture=capacity.architecture,
        host_ip=host_ip,
        cached_images=cached_images,
        guests=guest_states(driver.guests(), driver.volumes(), driver.attachments()),
        uptime=capacity.uptime,
        traits=list(capacity.traits),
        guest_cpu=capacity.guest_cpu,
        cpus=_running(driver.cpus()),
    )


def find_leftovers(services: HostServices, described: set[str]) -> list[Leftover] | None:
    """List the leftovers; None if the hypervisor or the network could not be read. Blocks while they are read.

    ``described``: the guests whose specs this host has stored. Guests are listed before and after, so that resources of
    a guest that appears or disappears between the two lists are not reported.
    """
    try:
        before = {guest.uuid for guest in services.driver.guests()}
        leftovers = services.driver.leftovers() + services.network.leftovers(before)
        guests = before | {guest.uuid for guest in services.driver.guests()}
    except HostError as error:
        log.warning("Could not look for leftovers: %s %s", error.message, error.detail)
        return None
    lost = [Leftover(kind="domain", name=uuid, subject_id=uuid) for uuid in sorted(before - described)]
    return lost + [each for each in leftovers if each.subject_id not in guests]


def without_busy(leftovers: list[Leftover] | None, busy: set[str]) -> list[Leftover] | None:
    """Return the leftovers without those of instances that have a command, at most ``MOST_LEFTOVERS``."""
    if leftovers is None:
        return None
    return [each for each in leftovers if not each.subject_id or each.subject_id not in busy][:MOST_LEFTOVERS]
