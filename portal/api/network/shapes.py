"""Networks, subnets, ports, security groups and rules in Neutron's words (Networking API v2.0 reference)."""

import datetime
import uuid
from typing import Any

from provisioning.network.models import Network, Port, SecurityGroup, SecurityGroupRule, Subnet

Shape = dict[str, Any]


def moment(value: datetime.datetime) -> str:
    """Return a time as Neutron writes it, in UTC without fractions."""
    return value.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def project(value: uuid.UUID) -> Shape:
    """Return the two names of the owner."""
    return {"project_id": value.hex, "tenant_id": value.hex}


def _standard(row: Network | Subnet | Port | SecurityGroup) -> Shape:
    return {
        "id": str(row.id),
        "name": row.name,
        "description": row.description,
        **project(row.project_id),
        "created_at": moment(row.created_at),
        "updated_at": moment(row.updated_at),
        "revision_number": row.revision_number,
        "tags": [],
    }


def network(row: Network) -> Shape:
    """Show a network with its subnets' ids.  Its bridges of different hosts are not joined: provider type ``local``."""
    provider = {
        "provider:network_type": "local",
        "provider:physical_network": None,
        "provider:segmentation_id": None,
    }
    return {
        **_standard(row),
        "status": "ACTIVE",
        "admin_state_up": row.admin_state_up,
        "shared": row.shared,
        "mtu": row.mtu,
        "subnets": [
            str(subnet.id) for subnet in sorted(row.subnets.all(), key=lambda subnet: (subnet.created_at, subnet.id))
        ],
        "router:external": False,
        "port_security_enabled": True,
        **provider,
    }


def subnet(row: Subnet) -> Shape:
    return {
        **_standard(row),
        "network_id": str(row.network_id),
        "ip_version": row.ip_version,
        "cidr": row.cidr,
        "gateway_ip": row.gateway_ip,
        "enable_dhcp": row.enable_dhcp,
        "allocation_pools": row.allocation_pools,
        "dns_nameservers": row.dns_nameservers,
        "host_routes": [],
        "subnetpool_id": None,
        "ipv6_ra_mode": None,
        "ipv6_address_mode": None,
        "service_types": [],
    }


def port(row: Port) -> Shape:
    """Show a port; where it is bound is for operators."""
    binding = {
        "binding:host_id": row.host,
        "binding:vif_type": "bridge" if row.host else "unbound",
        "binding:vif_details": {"port_filter": True} if row.host else {},
        "binding:vnic_type": "normal",
        "binding:profile": {},
    }
    return {
        **_standard(row),
        "network_id": str(row.network_id),
        "mac_address": row.mac_address,
        "admin_state_up": row.admin_state_up,
        "status": row.status,
        "device_id": str(row.device_id) if row.device_id else "",
        "device_owner": row.device_owner,
        "fixed_ips": [
            {"subnet_id": str(address.subnet_id), "ip_address": address.address} for address in row.fixed_ips.all()
        ],
        "security_groups": [str(group.id) for group in row.security_groups.all()],
        "allowed_address_pairs": [],
        "extra_dhcp_opts": [],
        "port_security_enabled": True,
        **binding,
    }


def security_group(row: SecurityGroup) -> Shape:
    rules = sorted(row.rules.all(), key=lambda rule: (rule.created_at, rule.id))
    return {
        **_standard(row),
        "stateful": True,
        "shared": False,
        "security_group_rules": [_rule(rule, row.project_id) for rule in rules],
    }


def security_group_rule(row: SecurityGroupRule) -> Shape:
    return _rule(row, row.group.project_id)


def _rule(row: SecurityGroupRule, project_id: uuid.UUID) -> Shape:
    return {
        "id": str(row.id),
        **project(project_id),
        "security_group_id": str(row.group_id),
        "direction": row.direction,
        "ethertype": row.ethertype,
        "protocol": row.protocol,
        "port_range_min": row.port_range_min,
        "port_range_max": row.port_range_max,
        "remote_ip_prefix": row.remote_ip_prefix,
        "normalized_cidr": row.remote_ip_prefix,
        "remote_group_id": str(row.remote_group_id) if row.remote_group_id else None,
        "remote_address_group_id": None,
        "description": row.description,
        "created_at": moment(row.created_at),
        "updated_at": moment(row.created_at),
        "revision_number": 0,
        "tags": [],
    }
