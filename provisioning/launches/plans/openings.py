"""Security groups that open services of a server to any address."""

from collections.abc import Collection, Sequence

from provisioning.common.context import RequestContext
from provisioning.common.values.ids import NOBODY
from provisioning.identity import policy
from provisioning.launches.plans.plan import Opening
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
    if security_group := existing_opening(context, openings):
        return security_group
    policy.enforce(context, "create_security_group")
    policy.enforce(context, "create_security_group_rule")
    return services.create_group_allowing(context.project_id or NOBODY, name_of(openings), flows_of(openings))


def existing_opening(context: RequestContext, openings: Sequence[str]) -> SecurityGroup | None:
    """Return the project's security group that opens these services; None if there is none yet."""
    meanings = {flow.meaning for flow in flows_of(openings)}
    there = SecurityGroup.objects.filter(project_id=context.project_id or NOBODY, name=name_of(openings))
    for group in there.prefetch_related("rules").order_by("created_at", "id"):
        if meanings <= {_flow(rule).meaning for rule in group.rules.all() if not _remote(rule)}:
            return group
    return None


def opening_among(context: RequestContext, groups: Collection[str]) -> tuple[tuple[Opening, ...], str]:
    """Return the services that one of ``groups`` (ids) opens, and the id of that group. Both are empty if none of the
    groups comes from ``existing_opening``.
    """
    chosen: tuple[tuple[Opening, ...], ...] = (("ssh", "web"), ("ssh",), ("web",))
    for openings in chosen:
        group = existing_opening(context, openings)
        if group is not None and str(group.id) in groups:
            return openings, str(group.id)
    return (), ""


def name_of(openings: Sequence[str]) -> str:
    """Return the name of the group that opens these services."""
    return f"internet-{'-'.join(name for name in PORTS if name in openings)}"


def flows_of(openings: Sequence[str]) -> list[Flow]:
    """Return the traffic that the group allows."""
    return [
        flows.checked("ingress", version, "tcp", port, port, prefix)
        for version, prefix in _ANY.items()
        for name, ports in PORTS.items()
        if name in openings
        for port in ports
    ]


def _flow(rule: SecurityGroupRule) -> Flow:
    ports = (rule.port_range_min, rule.port_range_max)
    return Flow(rule.direction, rule.ethertype, rule.protocol, *ports, rule.remote_ip_prefix)


def _remote(rule: SecurityGroupRule) -> bool:
    return bool(rule.remote_group_id or rule.remote_address_group_id)
