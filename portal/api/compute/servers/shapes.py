"""Representations of a server, and the base of views that return servers; each field appears at the microversion of the
reference.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from uuid import UUID

from django.utils import timezone

from portal.api.compute.dialect import ComputeView, timestamp, timestamp_micro
from portal.api.frame import Json, Version
from provisioning.compute import selectors
from provisioning.compute.disks.device_names import root_device
from provisioning.compute.models import BlockDevice, Instance, InstanceFault
from provisioning.compute.selectors.block_devices import volumes_shown
from provisioning.compute.states import api_status
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import is_alive
from provisioning.network import selectors as network
from provisioning.network.models import SecurityGroup, SecurityGroupRule
from provisioning.network.selectors import PortAddress

REMOTE = "rules__remote_group"
"""Relations to prefetch with the groups."""
_ANYWHERE = {"IPv4": "0.0.0.0/0", "IPv6": "::/0"}
_PORTS = {"tcp": (1, 65_535), "udp": (1, 65_535)}


def security_group(group: SecurityGroup) -> Json:
    """One group with its rules, oldest first."""
    rules = sorted(group.rules.all(), key=lambda rule: (rule.created_at, rule.id))
    return {
        "id": str(group.id),
        "name": group.name,
        "description": group.description,
        "tenant_id": group.project_id.hex,
        "rules": [rule_shape(rule) for rule in rules if rule.direction == "ingress"],
    }


def rule_shape(rule: SecurityGroupRule) -> Json:
    """One ingress rule of a group."""
    first, last = rule.port_range_min, rule.port_range_max
    if rule.protocol and first is None and last is None:  # all ports, in nova-network's numbers
        first, last = _PORTS.get(rule.protocol.lower(), (-1, -1))
    remote = rule.remote_group
    return {
        "id": str(rule.id),
        "parent_group_id": str(rule.group_id),
        "ip_protocol": rule.protocol,
        "from_port": first,
        "to_port": last,
        "ip_range": {} if remote else {"cidr": rule.remote_ip_prefix or _ANYWHERE[rule.ethertype]},
        "group": {"name": remote.name, "tenant_id": remote.project_id.hex} if remote else {},
    }


_PROGRESS_STATUSES = {"ACTIVE", "BUILD", "REBUILD", "RESIZE", "VERIFY_RESIZE", "MIGRATING"}
_FAULT_STATUSES = {"ERROR", "DELETED"}


@dataclass(frozen=True)
class Related:
    """Rows of other tables for a page of servers, fetched with one query for each table."""

    base: str  # ".../compute/v2.1"
    bookmark: str  # ".../compute"
    addresses: Mapping[UUID, Sequence[PortAddress]] = field(default_factory=dict)
    security_groups: Mapping[UUID, Sequence[str]] = field(default_factory=dict)
    faults: Mapping[UUID, InstanceFault] = field(default_factory=dict)
    volumes: Mapping[UUID, Sequence[BlockDevice]] = field(default_factory=dict)


@dataclass(frozen=True)
class VisibleFields:
    """The fields of a server that a response shows."""

    version: Version
    host: bool = False
    """Whether the caller sees the server's host."""
    host_status: bool = False
    groups: bool = True
    """Whether server groups are shown; lists omit them."""
    extended: bool = True
    """Whether the fields of the old extensions are shown; responses to updates have them from 2.75 on."""


@lru_cache(maxsize=4096)
def host_id(project_id: UUID, host: str) -> str:
    """The host id that a project sees: equal for two servers on one host, different for every project."""
    return hashlib.sha224(f"{project_id.hex}{host}".encode()).hexdigest() if host else ""


def links(related: Related, resource: str, ident: str) -> list[dict[str, str]]:
    """``self`` and ``bookmark`` of a resource."""
    return [
        {"rel": "self", "href": f"{related.base}/{resource}/{ident}"},
        {"rel": "bookmark", "href": f"{related.bookmark}/{resource}/{ident}"},
    ]


def brief(instance: Instance, related: Related) -> Json:
    """An entry of ``GET /servers``."""
    ident = str(instance.id)
    return {"id": ident, "name": instance.name, "links": links(related, "servers", ident)}


def created(instance: Instance, related: Related, groups: Sequence[str], password: str | None) -> Json:
    """Return the response to ``POST /servers``; no other response contains the password."""
    ident = str(instance.id)
    shape: Json = {
        "id": ident,
        "links": links(related, "servers", ident),
        "OS-DCF:diskConfig": instance.disk_config,
        "security_groups": [{"name": name} for name in groups or ("default",)],
    }
    return shape | ({} if password is None else {"adminPass": password})


def addresses(found: Sequence[PortAddress], *, extended: bool = True) -> dict[str, list[Json]]:
    """Addresses by network name, each fixed IP followed by its floating IPs, which have the MAC address of its port.

    ``extended``: as in ``server.addresses``, otherwise as in ``/ips``.
    """
    networks: dict[str, list[Json]] = {}
    for entry in found:
        shown = [("fixed", entry.version, entry.address), *(("floating", 4, address) for address in entry.floating)]
        for kind, version, address in shown:
            shape: Json = {"version": version, "addr": address}
            if extended:
                shape |= {"OS-EXT-IPS:type": kind, "OS-EXT-IPS-MAC:mac_addr": entry.mac}
            networks.setdefault(entry.network_name, []).append(shape)
    return networks


def detail(instance: Instance, related: Related, visible: VisibleFields) -> Json:
    status = api_status(instance.vm_state, instance.task_state)
    host, ident = instance.host, str(instance.id)
    shape: Json = {
        "id": ident,
        "name": instance.name,
        "status": status,
        "tenant_id": instance.project_id.hex,
        "user_id": instance.user_id.hex,
        "metadata": instance.metadata,
        "hostId": host_id(instance.project_id, host.name if host else ""),
        "image": _image(instance, related),
        "flavor": _flavor(instance, related, visible.version),
        "created": timestamp(instance.created_at),
        "updated": timestamp(instance.updated_at),
        "addresses": addresses(related.addresses.get(instance.id, ()), extended=visible.extended),
        "accessIPv4": instance.access_ip_v4,
        "accessIPv6": instance.access_ip_v6,
        "links": links(related, "servers", ident),
        "OS-DCF:diskConfig": instance.disk_config,
    }
    if status in _PROGRESS_STATUSES:
        shape["progress"] = 100 if status == "ACTIVE" else 0
    fault = related.faults.get(instance.id) if status in _FAULT_STATUSES else None
    if fault is not None:
        shape["fault"] = _fault(fault, operator=visible.host)
    if visible.extended:
        _add_extended(shape, instance, related, visible)
    _add_late(shape, instance, visible)
    return shape


def _flavor(instance: Instance, related: Related, version: Version) -> Json:
    flavor = instance.flavor
    if version < (2, 47):
        ident = str(flavor["flavorid"])
        return {"id": ident, "links": [{"rel": "bookmark", "href": f"{related.bookmark}/flavors/{ident}"}]}
    return {
        "vcpus": flavor["vcpus"],
        "ram": flavor["memory_mb"],
        "disk": flavor["root_gb"],
        "ephemeral": flavor["ephemeral_gb"],
        "swap": flavor["swap_mb"],
        "original_name": flavor["name"],
        "extra_specs": flavor["extra_specs"],
    }


def _image(instance: Instance, related: Related) -> Json | str:
    if instance.image_id is None:
        return ""
    ident = str(instance.image_id)
    return {"id": ident, "links": [{"rel": "bookmark", "href": f"{related.bookmark}/images/{ident}"}]}


def _fault(fault: InstanceFault, *, operator: bool) -> Json:
    shape: Json = {"code": fault.code, "created": timestamp(fault.created_at), "message": fault.message}
    if fault.details and operator:
        shape["details"] = fault.details
    return shape


def _add_extended(shape: Json, instance: Instance, related: Related, visible: VisibleFields) -> None:
    host = instance.host
    shape |= {
        "OS-EXT-AZ:availability_zone": host.availability_zone if host else instance.availability_zone,
        "config_drive": "True" if instance.config_drive else "",
        "key_name": instance.key_name,
        "OS-SRV-USG:launched_at": timestamp_micro(instance.launched_at),
        "OS-SRV-USG:terminated_at": timestamp_micro(instance.terminated_at),
        "OS-EXT-STS:task_state": instance.task_state,
        "OS-EXT-STS:vm_state": instance.vm_state,
        "OS-EXT-STS:power_state": instance.power_state,
        "os-extended-volumes:volumes_attached": _volumes(related.volumes.get(instance.id, ()), visible.version),
    }
    groups = related.security_groups.get(instance.id, ())
    if groups:
        shape["security_groups"] = [{"name": name} for name in groups]
    if visible.host:
        shape |= _operator_fields(instance, related.volumes.get(instance.id, ()), visible.version)
    if visible.version >= (2, 90):
        shape["OS-EXT-SRV-ATTR:hostname"] = instance.hostname
    if visible.host_status and visible.version >= (2, 16):
        shape["host_status"] = _host_status(host)


def _volumes(devices: Sequence[BlockDevice], version: Version) -> list[Json]:
    kept = version >= (2, 3)
    return [
        {"id": str(device.volume_id)} | ({"delete_on_termination": device.delete_on_termination} if kept else {})
        for device in devices
    ]


def _operator_fields(instance: Instance, volumes: Sequence[BlockDevice], version: Version) -> Json:
    host, root = instance.host, next((device.device_name for device in volumes if device.is_root), "")
    fields: Json = {
        "OS-EXT-SRV-ATTR:host": host.name if host else None,
        "OS-EXT-SRV-ATTR:instance_name": f"instance-{instance.id.hex[:8]}",
        "OS-EXT-SRV-ATTR:hypervisor_hostname": host.hypervisor_hostname if host else None,
    }
    if version >= (2, 3):
        fields |= {
            "OS-EXT-SRV-ATTR:reservation_id": instance.reservation_id,
            "OS-EXT-SRV-ATTR:launch_index": instance.launch_index,
            "OS-EXT-SRV-ATTR:hostname": instance.hostname,
            "OS-EXT-SRV-ATTR:kernel_id": instance.image_properties.get("kernel_id", ""),
            "OS-EXT-SRV-ATTR:ramdisk_id": instance.image_properties.get("ramdisk_id", ""),
            "OS-EXT-SRV-ATTR:root_device_name": root or root_device(instance),
            "OS-EXT-SRV-ATTR:user_data": instance.user_data,
        }
    return fields


def _host_status(host: Host | None) -> str:
    if host is None:
        return ""
    if host.forced_down:
        return "DOWN"
    if not host.enabled:
        return "MAINTENANCE"
    return "UP" if is_alive(host, timezone.now()) else "UNKNOWN"


def _add_late(shape: Json, instance: Instance, visible: VisibleFields) -> None:
    version = visible.version
    if version >= (2, 9):
        shape["locked"] = instance.locked
    if version >= (2, 19):
        shape["description"] = instance.description
    if version >= (2, 26):
        shape["tags"] = instance.tags
    if version >= (2, 63):
        shape["trusted_image_certificates"] = instance.trusted_certificates
    if version >= (2, 71) and visible.groups:
        shape["server_groups"] = [str(instance.server_group_id)] if instance.server_group_id else []
    if version >= (2, 73):
        shape["locked_reason"] = instance.locked_reason
    if version >= (2, 96):
        shape["pinned_availability_zone"] = instance.availability_zone or None


class ServerView(ComputeView):
    """Shows the fields of servers that the caller may see."""

    def related(self, instances: list[Instance]) -> Related:
        """Fetch the related rows of a page of servers, with four queries for any number of servers."""
        bookmark = self.bookmark
        if not instances:
            return Related(self.base, bookmark)
        ids = [instance.id for instance in instances]
        return Related(
            base=self.base,
            bookmark=bookmark,
            addresses=network.addresses_of(ids),
            security_groups=network.security_group_names_of(ids),
            faults=selectors.fault_of(instances),
            volumes=volumes_shown(ids),
        )

    def visible_fields(self, *, groups: bool = True, extended: bool = True) -> VisibleFields:
        """Return the fields of servers that this caller sees at this microversion."""
        return VisibleFields(
            self.microversion,
            host=self.allows("os_compute_api:os-extended-server-attributes"),
            host_status=self.allows("os_compute_api:servers:show:host_status"),
            groups=groups,
            extended=extended,
        )

    def shown(self, instance: Instance) -> Json:
        return {"server": detail(instance, self.related([instance]), self.visible_fields())}

    def changed(self, instance: Instance) -> Json:
        """Answer an update or rebuild with the server, in full from 2.75 on."""
        visible = self.visible_fields(extended=self.microversion >= (2, 75))
        return {"server": detail(instance, self.related([instance]), visible)}
