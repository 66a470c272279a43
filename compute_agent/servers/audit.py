"""The resource audit: what this host has, uses and runs."""

from collections.abc import Iterable, Mapping, Sequence

from compute_agent.contract.messages import GuestState, ResourceAudit
from compute_agent.virt.driver import ComputeDriver, Guest


def guest_states(guests: Iterable[Guest], volumes: Mapping[str, Sequence[str]] | None = None) -> list[GuestState]:
    """Return the guests as they travel; ``volumes`` are the ids of those that each has, None: not looked for."""
    return [
        GuestState(
            instance_id=guest.uuid,
            attempt=guest.attempt,
            power_state=guest.power_state,
            volumes=None if volumes is None or guest.uuid not in volumes else list(volumes[guest.uuid]),
        )
        for guest in guests
    ]


def resource_audit(driver: ComputeDriver, *, host: str, host_ip: str, cached_images: list[str]) -> ResourceAudit:
    """Measure the host; blocks on the hypervisor.  Raises HypervisorUnavailableError."""
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
        guests=guest_states(driver.guests(), driver.volumes()),
        uptime=capacity.uptime,
    )
