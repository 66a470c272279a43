"""The list of security groups, its rows, and the context of the page of one group."""

import uuid
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

from django.db.models import Expression

from portal.dashboard.lists import cells, columns
from portal.dashboard.lists.bulk import bulk_actions
from portal.dashboard.lists.declaration import Column, Empty, HeadLink, RecordList, counted, searched
from portal.dashboard.network import wording
from portal.dashboard.network.security_groups.forms import OWN, TEMPLATES
from portal.dashboard.records.paging import page_of
from portal.dashboard.records.views import instance_names, may
from provisioning.common.context import RequestContext
from provisioning.network import selectors
from provisioning.network.models import SecurityGroup, SecurityGroupRule
from provisioning.network.selectors import membership
from provisioning.network.services.security.security_groups import DEFAULT_NAME


def page_parts(context: RequestContext, identity: str | uuid.UUID, number: str = "") -> dict[str, Any]:
    """Return the context of the detail page, with page ``number`` of its members. Raises NotFoundError."""
    group: SecurityGroup = selectors.security_group_for(context, identity)
    can_add = may(context, "create_security_group_rule", group)
    can_delete_rule = may(context, "delete_security_group_rule", group)
    rules = membership.rules_of(group)
    pages = page_of(membership.ports_in(context, group), number)
    names = instance_names(context, [port.device_id for port in pages])
    return {
        "group": group,
        "inwards": _sentences(rule for rule in rules if rule.direction == "ingress"),
        "outwards": _sentences(rule for rule in rules if rule.direction == "egress"),
        "templates": [(key, each) for key, each in TEMPLATES.items() if key != OWN],
        "members": [{"port": port, "instance": names.get(port.device_id or uuid.UUID(int=0), "")} for port in pages],
        "pages": pages,
        "can_add": can_add,
        "can_delete_rule": can_delete_rule,
        "can_edit": may(context, "update_security_group", group),
        "can_delete": group.name != DEFAULT_NAME and may(context, "delete_security_group", group),
    }


def _sentences(rules: Iterable[SecurityGroupRule]) -> list[dict[str, Any]]:
    return [{"rule": rule, "sentence": wording.sentence(rule)} for rule in rules]


Row = dict[str, Any]


def _rows(context: RequestContext, security_groups: Sequence[SecurityGroup]) -> list[Row]:
    used = membership.port_counts(group.id for group in security_groups)
    return [
        {
            "group": group,
            "inwards": sum(rule.direction == "ingress" for rule in group.rules.all()),
            "outwards": sum(rule.direction == "egress" for rule in group.rules.all()),
            "ports": used.get(group.id, 0),
            "mine": group.project_id == context.project_id,
            "can_edit": may(context, "update_security_group", group),
            "can_delete": group.name != DEFAULT_NAME and may(context, "delete_security_group", group),
        }
        for group in security_groups
    ]


def _name(row: Row) -> object:
    group = row["group"]
    beside = ("" if row["mine"] else "shared", "" if group.stateful else "stateless")
    return cells.record(group, "dashboard:security_group", beside=beside)


def _rules(direction: str) -> Expression:
    return counted(SecurityGroupRule.objects.filter(direction=direction), "group")


def _buttons(row: Row) -> object:
    group, found = row["group"], []
    if row["can_edit"]:
        found.append(cells.button("pencil", "Edit", group, "dashboard:security_group_edit", group.id))
    if row["can_delete"]:
        found.append(cells.button("trash", "Delete", group, "dashboard:security_group_delete", group.id))
    return cells.join("", found)


PORTS = counted(SecurityGroup.ports.through.objects.all(), "securitygroup")
SECURITY_GROUPS = RecordList[SecurityGroup](
    key="security_groups",
    model=SecurityGroup,
    one="security group",
    noun="security groups",
    rule="get_security_group",
    row_id="security-group",
    records=lambda context, _: selectors.security_groups_for(context),
    rows=_rows,
    default="name",
    columns=(
        columns.name(_name, itemgetter("group")),
        Column(
            "inbound", "Inbound", lambda row: cells.count(row["inwards"], "rule"), sort=_rules("ingress"), css="num"
        ),
        Column(
            "outbound", "Outbound", lambda row: cells.count(row["outwards"], "rule"), sort=_rules("egress"), css="num"
        ),
        Column("ports", "Ports", itemgetter("ports"), sort=PORTS, css="num", largest_first=True),
        columns.attribute("description", "Description", "group", css="muted"),
        columns.age("group", optional=True),
        columns.ident("group"),
    ),
    bulk=bulk_actions("security_groups"),
    actions=_buttons,
    search=searched("name", "description"),
    kinds=wording.KINDS,
    empty=Empty("shield", "No security groups yet", ""),
    create=HeadLink(
        "New security group",
        "dashboard:security_group_create",
        rule="create_security_group",
        asks=True,
        first="Create the first group",
    ),
)
