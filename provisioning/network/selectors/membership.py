"""Members and rules of security groups."""

import uuid
from collections.abc import Collection, Iterable

from django.db.models import Count, Prefetch, QuerySet

from provisioning.common.context import RequestContext
from provisioning.network.errors import SecurityGroupConflictError
from provisioning.network.models import Port, SecurityGroup, SecurityGroupRule
from provisioning.network.selectors.records import ports_for, security_groups_for


def check_one_kind(groups: Iterable[SecurityGroup]) -> None:
    """Reject stateful together with stateless groups on one port. Raises SecurityGroupConflictError."""
    if len({group.stateful for group in groups}) > 1:
        msg = "Cannot apply both stateful and stateless security groups on the same port at the same time"
        raise SecurityGroupConflictError(f"Error {msg} while attempting the operation.", field="security_groups")


def port_counts(group_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, int]:
    """Return group → number of its ports; one query."""
    rows = SecurityGroup.objects.filter(id__in=list(group_ids)).annotate(many=Count("ports"))
    return dict(rows.values_list("id", "many"))


def rules_of(group: SecurityGroup) -> list[SecurityGroupRule]:
    """Return a group's rules with the groups that they refer to: ingress first, then the oldest first."""
    rows = group.rules.select_related("remote_group", "remote_address_group")
    return list(rows.order_by("-direction", "created_at", "id"))


def groups_with_rules(context: RequestContext, keys: Collection[uuid.UUID] | None = None) -> list[SecurityGroup]:
    """Return the groups that the caller sees, the oldest first, with their rules and the groups that these refer to.

    ``keys``: only the groups with these ids.
    """
    rows = groups_and_rules(context)
    rows = rows if keys is None else rows.filter(pk__in=keys)
    return list(rows.order_by("created_at", "id"))


def groups_and_rules(context: RequestContext) -> QuerySet[SecurityGroup]:
    """Return all groups that the caller sees, with their rules, as a query."""
    named = Prefetch("rules", SecurityGroupRule.objects.select_related("remote_group"))
    return security_groups_for(context).prefetch_related(None).prefetch_related(named)


def is_named_by_others(group: SecurityGroup) -> bool:
    """Whether a rule of another group of the same project refers to this one."""
    rows = SecurityGroupRule.objects.filter(remote_group=group, group__project_id=group.project_id)
    return rows.exclude(group=group).exists()


def ports_in(context: RequestContext, group: SecurityGroup) -> QuerySet[Port]:
    """Return the project's ports that are in a group, the oldest first, with their addresses and networks."""
    rows = ports_for(context).filter(security_groups=group).select_related("network")
    return rows.order_by("created_at", "id")
