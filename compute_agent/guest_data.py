"""Metadata of a guest in OpenStack's formats, the same on the config drive and in the metadata service.

The formats are those of Nova's "Metadata service" chapter and of cloud-init's datasource ConfigDrive.
"""

from ipaddress import ip_address, ip_interface
from typing import Any

from compute_agent.contract.build import FixedAddress, GuestDisk, InstanceSpec, PortRef

LONGEST_NAME = 64
"""Limit of a host name in Linux, in characters (HOST_NAME_MAX)."""


def content_path(number: int) -> str:
    """Return the path of an injected file's contents in the config drive's tree, as in ``meta_data.json``."""
    return f"/content/{number:04}"


def fqdn(spec: InstanceSpec) -> str:
    """Return the guest's host name with its domain; without the domain if the name would be too long for Linux."""
    if "." in spec.hostname:
        return spec.hostname
    domain = (spec.ports[0].dns_domain or spec.ports[0].network.dns_domain).strip(".") if spec.ports else ""
    name = f"{spec.hostname}.{domain}" if domain else spec.hostname
    return name if len(name) <= LONGEST_NAME else spec.hostname


def meta_data(spec: InstanceSpec) -> dict[str, Any]:
    data: dict[str, Any] = {
        "uuid": spec.uuid,
        "name": spec.name,
        "hostname": fqdn(spec),
        "project_id": spec.project_id.replace("-", ""),  # as the API shows it; older portals send a UUID with dashes
        "availability_zone": spec.availability_zone,
        "launch_index": spec.launch_index,
        "meta": dict(spec.metadata),
        "devices": [
            *({"type": "nic", "mac": port.mac_address, "tags": [port.tag]} for port in spec.ports if port.tag),
            *(_disk(disk) for disk in spec.volumes if disk.tag),
        ],
    }
    if spec.injected_files:
        data["files"] = [
            {"path": file.path, "content_path": content_path(number)} for number, file in enumerate(spec.injected_files)
        ]
    if spec.reservation_id:
        data["reservation_id"] = spec.reservation_id
    if spec.key_pair:
        key = spec.key_pair
        data["public_keys"] = {key.name: key.public_key}
        data["keys"] = [{"name": key.name, "type": key.type, "data": key.public_key}]
    if spec.admin_password is not None:
        data["admin_pass"] = spec.admin_password
    return data


def _disk(disk: GuestDisk) -> dict[str, Any]:
    """Return a tagged volume in the format of Nova's device metadata."""
    entry = {"type": "disk", "bus": _BUSES.get(disk.bus, disk.bus), "serial": disk.serial or disk.id}
    if disk.device:
        entry["path"] = device_path(disk.device)
    return entry | {"tags": [disk.tag]}


_BUSES = {"virtio": "pci"}
"""Buses of libvirt → Nova's names, where they differ."""


def device_path(device: str) -> str:
    """Return the expected path of a disk in the guest. The guest's kernel may choose another path."""
    return f"/dev/{device.removeprefix('/dev/')}"


def nameservers(port: PortRef) -> list[str]:
    """Return the name servers of an interface, without duplicates and without 0.0.0.0 and ::, which mean no server."""
    servers = [server for fixed in port.fixed_ips for server in fixed.dns_nameservers]
    every = dict.fromkeys(servers or port.network.dns_nameservers)
    return [server for server in every if not ip_address(server).is_unspecified]


def network_data(spec: InstanceSpec) -> dict[str, Any]:
    links: list[dict[str, Any]] = []
    networks: list[dict[str, Any]] = []
    servers: list[str] = []
    for port in spec.ports:
        links.append(
            {
                "id": port.tap,
                "vif_id": port.id,
                "type": "bridge",
                "mtu": port.network.mtu,
                "ethernet_mac_address": port.mac_address,
            }
        )
        networks += [_network_entry(port, fixed, len(networks) + at) for at, fixed in enumerate(port.fixed_ips)]
        servers += nameservers(port)
    services = [{"type": "dns", "address": server} for server in dict.fromkeys(servers)]
    return {"links": links, "networks": networks, "services": services}


_TYPES = {
    "slaac": "ipv6_slaac",
    "dhcpv6-stateless": "ipv6_dhcpv6-stateless",
    "dhcpv6-stateful": "ipv6_dhcpv6-stateful",
}
"""Neutron's ``ipv6_address_mode`` → the type of a network in ``network_data.json``."""


def address_mode(port: PortRef, fixed: FixedAddress) -> str:
    """Return the subnet's ``ipv6_address_mode`` for an IPv6 address; empty for IPv4, and for a statically configured
    address.
    """
    modes = {subnet.id: subnet.ipv6_address_mode for subnet in port.network.subnets}
    return modes.get(fixed.subnet_id, "") if ":" in fixed.address else ""


def _network_entry(port: PortRef, fixed: FixedAddress, number: int) -> dict[str, Any]:
    family = "ipv6" if ":" in fixed.address else "ipv4"
    entry: dict[str, Any] = {"id": f"network{number}", "link": port.tap, "network_id": port.network.id}
    if fixed.enable_dhcp:
        return entry | {"type": _TYPES.get(address_mode(port, fixed), f"{family}_dhcp")}
    anywhere = "::" if family == "ipv6" else "0.0.0.0"  # noqa: S104
    routes = [{"network": anywhere, "netmask": anywhere, "gateway": fixed.gateway}] if fixed.gateway else []
    netmask = str(ip_interface(f"{fixed.address}/{fixed.prefix_length}").netmask)
    return entry | {"type": family, "ip_address": fixed.address, "netmask": netmask, "routes": routes}
