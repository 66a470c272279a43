"""``GET /servers/{id}/os-security-groups``: the groups of a server's ports, in the shape of the old network service."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute.views import ComputeView
from provisioning.compute import selectors
from provisioning.network import selectors as network
from provisioning.network.models import SecurityGroup, SecurityGroupRule


class SecurityGroupsView(ComputeView):
    """``GET /servers/{id}/os-security-groups``."""

    rules = {"GET": "compute:server_security_groups:list"}

    def get(self, request: Request, server_id: str) -> Response:
        """The groups of the server's ports."""
        instance = selectors.instance_for(self.context, server_id)
        members = {ident for ref in network.port_refs(instance.id) for ident in ref.security_group_ids}
        groups = network.security_groups_for(self.context, all_projects=True).filter(id__in=members)
        return Response({"security_groups": [_group(group) for group in groups.order_by("name", "id")]})


def _group(group: SecurityGroup) -> dict[str, Any]:
    """A group as Nova shows it: what may come in; what goes out was never part of this shape."""
    rules = [rule for rule in group.rules.all() if rule.direction == "ingress"]
    return {
        "id": str(group.id),
        "name": group.name,
        "description": group.description,
        "tenant_id": group.project_id.hex,
        "rules": [_rule(rule, group) for rule in rules],
    }


def _rule(rule: SecurityGroupRule, group: SecurityGroup) -> dict[str, Any]:
    anywhere = {"IPv4": "0.0.0.0/0", "IPv6": "::/0"}[rule.ethertype]
    remote = {"name": group.name, "tenant_id": group.project_id.hex} if rule.remote_group_id == group.id else {}
    return {
        "id": str(rule.id),
        "parent_group_id": str(group.id),
        "ip_protocol": rule.protocol,
        "from_port": rule.port_range_min,
        "to_port": rule.port_range_max,
        "ip_range": {} if rule.remote_group_id else {"cidr": rule.remote_ip_prefix or anywhere},
        "group": remote,
    }
