"""Security groups in the Compute API, which shows only ingress rules."""

from typing import Any

from provisioning.network.models import SecurityGroup, SecurityGroupRule

REMOTE = "rules__remote_group"
"""Relations to prefetch with the groups."""
_ANYWHERE = {"IPv4": "0.0.0.0/0", "IPv6": "::/0"}
_PORTS = {"tcp": (1, 65_535), "udp": (1, 65_535)}


def security_group(group: SecurityGroup) -> dict[str, Any]:
    """One group with its rules, oldest first."""
    rules = sorted(group.rules.all(), key=lambda rule: (rule.created_at, rule.id))
    return {
        "id": str(group.id),
        "name": group.name,
        "description": group.description,
        "tenant_id": group.project_id.hex,
        "rules": [rule_shape(rule) for rule in rules if rule.direction == "ingress"],
    }


def rule_shape(rule: SecurityGroupRule) -> dict[str, Any]:
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
