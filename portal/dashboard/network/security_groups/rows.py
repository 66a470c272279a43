"""Rows of the list of security groups and context of their detail page."""

import uuid
from collections.abc import Iterable
from typing import Any

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
