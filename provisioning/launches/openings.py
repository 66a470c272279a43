"""Security groups that open services of a server to any address."""

from collections.abc import Sequence

from provisioning.common.context import RequestContext
from provisioning.common.ids import NOBODY
from provisioning.identity import policy
from provisioning.network import services
from provisioning.network.models import SecurityGroup, SecurityGroupRule
from provisioning.network.records import flows
from provisioning.network.records.flows import Flow

PORTS = {"ssh": (22,), "web": (80, 443)}
"""Service → its TCP ports."""
_ANY = {"IPv4": "0.0.0.0/0", "IPv6": "::/0"}


def group_opening(context: RequestContext, openings: Sequence[str]) -> SecurityGroup:
    """Return the project's security group that opens these services, and creates it if it is missing.

    Runs in the caller's transaction. Raises ForbiddenError and OverQuotaError.
    """
    names = [name for name in PORTS if name in openings]
    called, project_id = f"internet-{'-'.join(names)}", context.project_id or NOBODY
    wanted = [
        flows.checked("ingress", version, "tcp", port, port, prefix)
        for version, prefix in _ANY.items()
        for name in names
        for port in PORTS[name]
    ]
    meanings = {flow.meaning for flow in wanted}
    there = SecurityGroup.objects.filter(project_id=project_id, name=called).prefetch_related("rules")
    for group in there.order_by("created_at", "id"):
        if meanings <= {_flow(rule).meaning for rule in group.rules.all() if not _remote(rule)}:
            return group
    policy.enforce(context, "create_security_group")
    policy.enforce(context, "create_security_group_rule")
    return services.create_group_allowing(project_id, called, wanted)


def _flow(rule: SecurityGroupRule) -> Flow:
    ports = (rule.port_range_min, rule.port_range_max)
    return Flow(rule.direction, rule.ethertype, rule.protocol, *ports, rule.remote_ip_prefix)


def _remote(rule: SecurityGroupRule) -> bool:
    return bool(rule.remote_group_id or rule.remote_address_group_id)
