"""Security groups and their rules in the Compute API up to 2.35."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from portal.api.compute.dialect.schemas import Schema, body, last
from portal.api.compute.proxies.base import ProxyView, limited
from portal.api.compute.servers.security_group_shapes import REMOTE, rule_shape, security_group
from portal.api.frame.parts import Call, parts
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.identity import policy
from provisioning.network import selectors, services
from provisioning.network.models import SecurityGroup, SecurityGroupRule
from provisioning.network.records import flows
from provisioning.network.selectors.visibility import sees_all

LARGEST = 1000
"""Maximum number of groups in one response."""
_WORDS: Schema = {"type": "string", "maxLength": 255}
GROUP = body("security_group", {"name": _WORDS, "description": _WORDS}, ("name", "description"), others=True)


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


def _check_uuid(identity: str) -> None:
    """Raise InvalidInputError if the id of a group or rule is not a UUID."""
    if read_id(identity) is None:
        raise InvalidInputError("Security group id should be uuid", field="id")


@contextmanager
def _refused() -> Iterator[None]:
    """Convert a ConflictError in this context, which the Network API answers with 409, into InvalidInputError (400), as
    in Nova.
    """
    try:
        yield
    except ConflictError as error:
        raise InvalidInputError(error.message) from error


def _group(context: RequestContext, identity: str, rule: str) -> SecurityGroup:
    """Return a group that the caller may see, if this rule of the Network API allows it.

    Raises NotFoundError, and InvalidInputError for an invalid UUID.
    """
    _check_uuid(identity)
    try:
        group = selectors.security_group_for(context, identity, all_projects=True)
    except NotFoundError as error:
        raise NotFoundError(f"Security group {identity[:64]} not found.") from error
    policy.enforce(context, rule, {"project_id": group.project_id})
    return group


def _list(context: RequestContext, *, every: bool, first: int, most: int) -> Sequence[SecurityGroup]:
    """Return the project's groups, or with ``every`` the groups of all projects if the caller is an operator.

    As in the Network API, the project's ``default`` group is created if it does not exist.
    """
    project = context.project_id or NOBODY
    if context.project_id:
        services.ensure_default_security_group(project)
    groups = selectors.security_groups_for(context, all_projects=every)
    if not (every and sees_all(context)):
        groups = groups.filter(project_id=project)
    rows = groups.prefetch_related(REMOTE).order_by("project_id", "name", "id")
    return list(rows[first : first + min(most or LARGEST, LARGEST)])


def _page(view: ProxyView) -> dict[str, Any]:
    query = view.checked_query()
    first, most = int(last(query, "offset") or 0), int(last(query, "limit") or LARGEST)
    return {"every": "all_tenants" in query, "first": first, "most": most}


def _create(context: RequestContext, body: dict[str, str]) -> SecurityGroup:
    with _refused():
        return services.create_security_group(
            context.project_id or NOBODY, body["name"], description=body["description"]
        )


def _update(context: RequestContext, identity: str, body: dict[str, str]) -> SecurityGroup:
    group = _group(context, identity, "update_security_group")
    with _refused():
        return services.update_security_group(group, {name: body[name] for name in ("name", "description")})


def _delete(context: RequestContext, identity: str) -> None:
    group = _group(context, identity, "delete_security_group")
    with _refused():
        services.delete_security_group(group, even_default=sees_all(context))


def _shape(view: ProxyView, group: SecurityGroup) -> dict[str, Any]:
    """Return the current state of a group."""
    rows = SecurityGroup.objects.prefetch_related("rules", REMOTE)
    return security_group(rows.get(pk=group.pk))


def _create_rule(context: RequestContext, body: dict[str, Any]) -> SecurityGroupRule:
    group = _group(context, body["parent_group_id"], "create_security_group_rule")
    source = _group(context, body["group_id"], "get_security_group") if body.get("group_id") else None
    flow = _flow(body, of_group=source is not None)
    with _refused():
        [row] = services.create_security_group_rules([services.WantedRule(group, flow, source)])
    return row


def _delete_rule(context: RequestContext, identity: str) -> None:
    _check_uuid(identity)
    try:
        row = selectors.security_group_rule_for(context, identity, all_projects=True)
    except NotFoundError as error:
        raise NotFoundError(f"Security group rule {identity[:64]} not found.") from error
    policy.enforce(context, "delete_security_group_rule", {"project_id": row.group.project_id})
    services.delete_security_group_rule(row)


def _flow(rule: dict[str, Any], *, of_group: bool) -> flows.Flow:
    """Return the traffic that the body allows; a rule with a CIDR requires protocol and ports, as in nova-network."""
    name = (rule.get("ip_protocol") or "").lower()
    first, last = (int(rule[end]) if rule.get(end) not in {None, ""} else None for end in ("from_port", "to_port"))
    if of_group and first is None and last is None:
        first, last = _WHOLE.get(name, (None, None))
    if name and name not in _WHOLE:
        raise InvalidInputError(f"Invalid IP protocol {name[:64]}.", field="ip_protocol")
    if not of_group and (not name or first is None or last is None):
        raise InvalidInputError("Not enough parameters to build a valid rule.", field="ip_protocol")
    prefix = None if of_group else rule.get("cidr") or "0.0.0.0/0"
    ethertype = "IPv6" if prefix and ":" in prefix else "IPv4"
    if name == "icmp":
        first, last = (None if number == -1 else number for number in (first, last))
    return flows.checked("ingress", ethertype, name or None, first, last, prefix)


_RULES = "os_compute_api:os-security-groups:"
PARTS = parts(
    ProxyView,
    "",
    {
        "GET os-security-groups": Call(
            _list,
            f"{_RULES}get",
            "List the project's groups by name; with ``all_tenants``, operators list the groups of all projects. As in"
            " the Network API, the project's ``default`` group is created if it does not exist.",
            also=("get_security_group",),
            name="security_groups",
            shape=lambda view, found: [security_group(group) for group in found],
            query=limited,
            more=_page,
        ),
        "POST os-security-groups": Call(
            _create,
            f"{_RULES}create",
            "Create a group with the default rules.",
            also=("create_security_group",),
            name="security_group",
            shape=_shape,
            body=GROUP,
        ),
        "GET os-security-groups/{security_group_id}": Call(
            lambda context, identity: _group(context, identity, "get_security_group"),
            f"{_RULES}show",
            name="security_group",
            shape=_shape,
        ),
        "PUT os-security-groups/{security_group_id}": Call(
            _update,
            f"{_RULES}update",
            "Update the name and description.",
            name="security_group",
            shape=_shape,
            body=GROUP,
        ),
        "DELETE os-security-groups/{security_group_id}": Call(
            _delete, f"{_RULES}delete", "Delete a group that is not in use by a port.", status=202
        ),
        "POST os-security-group-rules": Call(
            _create_rule,
            f"{_RULES}rule:create",
            "Create a rule that allows traffic from a CIDR (default 0.0.0.0/0) or from another group.",
            name="security_group_rule",
            shape=lambda view, row: rule_shape(row),
            body=RULE,
        ),
        "DELETE os-security-group-rules/{rule_id}": Call(_delete_rule, f"{_RULES}rule:delete", status=202),
    },
)
