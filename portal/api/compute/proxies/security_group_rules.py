"""Security group rules in the Compute API up to 2.35."""

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute.proxies.security_groups import GroupProxy, check_uuid, refused
from portal.api.compute.schemas import Schema, body
from portal.api.compute.servers.security_group_shapes import rule_shape
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.identity import policy
from provisioning.network import selectors, services
from provisioning.network.models import SecurityGroupRule
from provisioning.network.records import flows

_NUMBER: Schema = {"type": ["integer", "string", "null"], "pattern": r"^-?[0-9]{1,5}\Z"}
_GROUP: Schema = {"type": "string", "format": "uuid"}
_TEXT: Schema = {"type": ["string", "null"], "maxLength": 64}
RULE = body(
    "security_group_rule",
    {
        "parent_group_id": _GROUP,
        "ip_protocol": _TEXT,
        "from_port": _NUMBER,
        "to_port": _NUMBER,
        "cidr": _TEXT,
        "group_id": _GROUP | {"type": ["string", "null"]},
    },
    ("parent_group_id",),
    others=True,
)
_WHOLE = {"tcp": (1, flows.HIGHEST_PORT), "udp": (1, flows.HIGHEST_PORT), "icmp": (-1, -1)}
"""Protocol → the port range of a rule with a remote group that specifies no ports."""


class SecurityGroupRulesView(GroupProxy):
    """``POST /os-security-group-rules``."""

    rules = {"POST": "os_compute_api:os-security-groups:rule:create"}
    schemas: ClassVar = {"POST": RULE}

    def post(self, request: Request) -> Response:
        """Create a rule that allows traffic from a CIDR (default 0.0.0.0/0) or from another group."""
        said = self.checked_body()["security_group_rule"]
        group = self.group(said["parent_group_id"], "create_security_group_rule")
        source = self.group(said["group_id"], "get_security_group") if said.get("group_id") else None
        flow = _flow(said, of_group=source is not None)
        with refused():
            [row] = services.create_security_group_rules([services.WantedRule(group, flow, source)])
        return Response({"security_group_rule": rule_shape(row)})


class SecurityGroupRuleView(GroupProxy):
    """``DELETE /os-security-group-rules/{id}``."""

    rules = {"DELETE": "os_compute_api:os-security-groups:rule:delete"}

    def delete(self, request: Request, rule_id: str) -> Response:
        check_uuid(rule_id)
        row = self._found(rule_id)
        policy.enforce(self.context, "delete_security_group_rule", {"project_id": row.group.project_id})
        services.delete_security_group_rule(row)
        return Response(status=202)

    def _found(self, identity: str) -> SecurityGroupRule:
        try:
            return selectors.security_group_rule_for(self.context, identity, all_projects=True)
        except NotFoundError as error:
            raise NotFoundError(f"Security group rule {identity[:64]} not found.") from error


def _flow(said: dict[str, Any], *, of_group: bool) -> flows.Flow:
    """Return the traffic that the body allows; a rule with a CIDR requires protocol and ports, as in nova-network."""
    name = (said.get("ip_protocol") or "").lower()
    first, last = (int(said[end]) if said.get(end) not in {None, ""} else None for end in ("from_port", "to_port"))
    if of_group and first is None and last is None:
        first, last = _WHOLE.get(name, (None, None))
    if name and name not in _WHOLE:
        raise InvalidInputError(f"Invalid IP protocol {name[:64]}.", field="ip_protocol")
    if not of_group and (not name or first is None or last is None):
        raise InvalidInputError("Not enough parameters to build a valid rule.", field="ip_protocol")
    prefix = None if of_group else said.get("cidr") or "0.0.0.0/0"
    ethertype = "IPv6" if prefix and ":" in prefix else "IPv4"
    if name == "icmp":
        first, last = (None if number == -1 else number for number in (first, last))
    return flows.checked("ingress", ethertype, name or None, first, last, prefix)
