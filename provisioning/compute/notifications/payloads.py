"""Payloads of notifications: Nova's versioned objects of servers and aggregates.

They never contain passwords, user data or injected files.
"""

from collections.abc import Iterable
from typing import Any

from compute_agent.contract.build import PortRef
from compute_agent.contract.power import PowerState
from provisioning.compute.models import Aggregate, BlockDevice, Instance
from provisioning.network.selectors import PortAddress
from provisioning.notifications.messages import Payload, versioned, when

POWER = {
    PowerState.NOSTATE: "pending",
    PowerState.RUNNING: "running",
    PowerState.PAUSED: "paused",
    PowerState.SHUTDOWN: "shutdown",
    PowerState.CRASHED: "crashed",
    PowerState.SUSPENDED: "suspended",
}
TAP_LENGTH = 14
"""Characters of a tap device's name."""


def instance_data(instance: Instance, host: tuple[str | None, str | None], zone: str) -> dict[str, Any]:
    """Return the fields common to all payloads of a server, except addresses and volumes; ``host``: Nova's host and
    node.
    """
    properties = instance.image_properties
    return {
        "uuid": str(instance.id),
        "tenant_id": instance.project_id.hex,
        "user_id": instance.user_id.hex,
        "display_name": instance.name,
        "display_description": instance.description,
        "reservation_id": instance.reservation_id,
        "host_name": instance.hostname,
        "host": host[0],
        "node": host[1],
        "availability_zone": zone or instance.availability_zone or None,
        "state": str(instance.vm_state),
        "task_state": str(instance.task_state) if instance.task_state else None,
        "power_state": POWER.get(PowerState(instance.power_state), "pending"),
        "progress": 0,
        "locked": instance.locked,
        "locked_reason": instance.locked_reason,
        "image_uuid": str(instance.image_id) if instance.image_id else "",
        "architecture": properties.get("hw_architecture") or properties.get("architecture"),
        "os_type": properties.get("os_type"),
        "kernel_id": str(properties.get("kernel_id") or ""),
        "ramdisk_id": str(properties.get("ramdisk_id") or ""),
        "key_name": instance.key_name,
        "metadata": instance.metadata,
        "auto_disk_config": instance.disk_config,
        "flavor": flavor(instance.flavor),
        "created_at": when(instance.created_at),
        "updated_at": when(instance.updated_at),
        "launched_at": when(instance.launched_at),
        "terminated_at": when(instance.terminated_at),
        "deleted_at": when(instance.deleted_at),
    }


def block_devices(devices: Iterable[BlockDevice]) -> list[Payload]:
    """Return the payloads of a server's volumes."""
    return [
        versioned(
            "BlockDevicePayload",
            "1.0",
            {
                "device_name": each.device_name or None,
                "volume_id": str(each.volume_id),
                "delete_on_termination": each.delete_on_termination,
                "boot_index": each.boot_index,
                "tag": each.tag or None,
            },
        )
        for each in devices
    ]


def flavor(copy: dict[str, Any]) -> Payload:
    data = {
        "flavorid": copy.get("flavorid"),
        "name": copy.get("name"),
        "vcpus": copy.get("vcpus"),
        "memory_mb": copy.get("memory_mb"),
        "root_gb": copy.get("root_gb"),
        "ephemeral_gb": copy.get("ephemeral_gb", 0),
        "swap": copy.get("swap_mb", 0),
        "extra_specs": copy.get("extra_specs", {}),
        "rxtx_factor": copy.get("rxtx_factor", 1.0),
        "vcpu_weight": 0,
        "disabled": False,
        "is_public": copy.get("is_public", True),
        "projects": None,
        "description": copy.get("description"),
    }
    return versioned("FlavorPayload", "1.4", data)


def addresses(port_addresses: Iterable[PortAddress]) -> list[Payload]:
    return [
        _address(each.network_name, each.address, each.version, each.mac, str(each.port_id)) for each in port_addresses
    ]


def addresses_of_interfaces(ports: Iterable[PortRef]) -> list[Payload]:
    """Return the payloads of the addresses of interfaces in a command."""
    return [
        _address(port.network.name, fixed.address, 6 if ":" in fixed.address else 4, port.mac_address, port.id)
        for port in ports
        for fixed in port.fixed_ips
    ]


def _address(label: str, address: str, version: int, mac: str, port_id: str) -> Payload:
    data = {
        "label": label,
        "address": address,
        "version": version,
        "mac": mac,
        "port_uuid": port_id,
        "device_name": f"tap{port_id}"[:TAP_LENGTH],
        "meta": {},
    }
    return versioned("IpPayload", "1.0", data)


def fault(message: str, cause: str, function: str) -> Payload:
    """Return the payload of a failure; ``message`` is for the owner."""
    data = {
        "exception": cause or "Fault",
        "exception_message": message,
        "function_name": function,
        "module_name": "novella",
        "traceback": "",
    }
    return versioned("ExceptionPayload", "1.1", data)


def state_update(was: tuple[str, str | None], instance: Instance) -> Payload:
    """Return the payload of a state change."""
    data = {
        "old_state": was[0],
        "state": str(instance.vm_state),
        "old_task_state": was[1],
        "new_task_state": str(instance.task_state) if instance.task_state else None,
    }
    return versioned("InstanceStateUpdatePayload", "1.0", data)


def audit_period(beginning: Any, ending: Any) -> Payload:
    data = {"audit_period_beginning": when(beginning), "audit_period_ending": when(ending)}
    return versioned("AuditPeriodPayload", "1.0", data)


def aggregate(row: Aggregate, hosts: list[str]) -> Payload:
    zone = {"availability_zone": row.availability_zone} if row.availability_zone else {}
    data = {"id": row.pk, "uuid": str(row.uuid), "name": row.name, "hosts": hosts, "metadata": {**row.metadata, **zone}}
    return versioned("AggregatePayload", "1.1", data)
