"""Networks, subnets, ports and security groups as a caller may see them."""

import uuid
from typing import Any, TypeVar

from django.db.models import Model, Q, QuerySet, Value

from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.common.ids import NOBODY, read_id
from provisioning.common.listing import Listing, Sort
from provisioning.identity import policy
from provisioning.network.errors import (
    NetworkNotFoundError,
    PortNotFoundError,
    SecurityGroupNotFoundError,
    SecurityGroupRuleNotFoundError,
    SubnetNotFoundError,
)
from provisioning.network.models import Network, Port, SecurityGroup, SecurityGroupRule, Subnet

WORDS: dict[type[NotFoundError], str] = {
    NetworkNotFoundError: "Network {} could not be found.",
    SubnetNotFoundError: "Subnet {} could not be found.",
    PortNotFoundError: "Port {} could not be found.",
    SecurityGroupNotFoundError: "Security group {} does not exist",
    SecurityGroupRuleNotFoundError: "Security group rule {} does not exist",
}
"""Neutron's sentences."""
M = TypeVar("M", bound=Model)
LISTING = Listing[Any](
    order=(Sort("id", descending=False),),
    no_marker="Invalid input for operation: The resource {marker} of the marker could not be found.",
)
"""Every list of the Networking API."""


def networks_for(context: RequestContext, *, all_projects: bool = False) -> QuerySet[Network]:
    """Return the project's networks and the shared ones; ``all_projects`` is for operators."""
    every = Network.objects.all()
    return every if all_projects and _sees_all(context) else every.filter(_own(context) | Q(shared=True))


def network_for(context: RequestContext, identity: str | uuid.UUID, *, all_projects: bool = False) -> Network:
    """Return one network; NotFoundError when there is none or it is another project's."""
    return _one(networks_for(context, all_projects=all_projects), identity, NetworkNotFoundError)


def usable_networks_for(context: RequestContext) -> QuerySet[Network]:
    """Return the networks a guest of the project can be put on: own or shared, up, and with a subnet."""
    return usable_by(context.project_id or NOBODY)


def usable_by(project_id: uuid.UUID | Value) -> QuerySet[Network]:
    """Return the same for a project, which may be the parameter of a prepared query."""
    mine = Network.objects.filter(Q(project_id=project_id) | Q(shared=True))
    return mine.filter(admin_state_up=True, subnets__isnull=False).distinct().order_by("name", "id")


def networks_to_choose(context: RequestContext) -> list[Network]:
    """Return the networks that a guest of the project can be put on, with their subnets, by name."""
    return list(usable_networks_for(context).prefetch_related("subnets"))


def subnets_for(context: RequestContext, *, all_projects: bool = False) -> QuerySet[Subnet]:
    """Return the subnets of the networks the caller sees."""
    every = Subnet.objects.all()
    if all_projects and _sees_all(context):
        return every
    return every.filter(_own(context) | Q(network__shared=True) | Q(network__project_id=context.project_id or NOBODY))


def subnet_for(context: RequestContext, identity: str | uuid.UUID, *, all_projects: bool = False) -> Subnet:
    """Return one subnet; NotFoundError when there is none or it is another project's."""
    return _one(subnets_for(context, all_projects=all_projects), identity, SubnetNotFoundError)


def ports_for(context: RequestContext, *, all_projects: bool = False) -> QuerySet[Port]:
    """Return the project's ports, with what is shown of them."""
    every = Port.objects.prefetch_related("fixed_ips", "security_groups")
    return every if all_projects and _sees_all(context) else every.filter(_own(context))


def device_ids_at(context: RequestContext, address: str, *, begins: bool = False) -> list[uuid.UUID]:
    """Return the ids of the project's instances that have an address; ``begins``: one that begins so."""
    lookup = {"fixed_ips__address__startswith" if begins else "fixed_ips__address": address}
    found = ports_for(context).prefetch_related(None).filter(device_id__isnull=False, **lookup)
    return [device_id for device_id in found.values_list("device_id", flat=True) if device_id]


def port_for(context: RequestContext, identity: str | uuid.UUID, *, all_projects: bool = False) -> Port:
    """Return one port; NotFoundError when there is none or it is another project's."""
    return _one(ports_for(context, all_projects=all_projects), identity, PortNotFoundError)


def security_groups_for(context: RequestContext, *, all_projects: bool = False) -> QuerySet[SecurityGroup]:
    """Return the project's security groups, with their rules."""
    every = SecurityGroup.objects.prefetch_related("rules")
    return every if all_projects and _sees_all(context) else every.filter(_own(context))


def security_groups_to_choose(context: RequestContext) -> list[SecurityGroup]:
    """Return the project's security groups, by name."""
    return list(security_groups_for(context).order_by("name"))


def security_group_for(
    context: RequestContext, identity: str | uuid.UUID, *, all_projects: bool = False
) -> SecurityGroup:
    """Return one group; NotFoundError when there is none or it is another project's."""
    return _one(security_groups_for(context, all_projects=all_projects), identity, SecurityGroupNotFoundError)


def security_group_rules_for(context: RequestContext, *, all_projects: bool = False) -> QuerySet[SecurityGroupRule]:
    every = SecurityGroupRule.objects.select_related("group")
    return (
        every if all_projects and _sees_all(context) else every.filter(group__project_id=context.project_id or NOBODY)
    )


def security_group_rule_for(
    context: RequestContext, identity: str | uuid.UUID, *, all_projects: bool = False
) -> SecurityGroupRule:
    """Return one rule; NotFoundError when there is none or it is another project's."""
    return _one(security_group_rules_for(context, all_projects=all_projects), identity, SecurityGroupRuleNotFoundError)


def _sees_all(context: RequestContext) -> bool:
    """Whether the caller may see every project's objects."""
    return policy.allows(context, "novella:get_networks:all_projects")


def _own(context: RequestContext) -> Q:
    """Match rows of the caller's project; an unscoped caller owns nothing."""
    return Q(project_id=context.project_id or NOBODY)


def _one(rows: QuerySet[M], identity: str | uuid.UUID, error: type[NotFoundError]) -> M:
    """Return the row with this id; *missing* and *not yours* are the same error, in Neutron's words."""
    found = rows.filter(pk=read_id(identity) or NOBODY).first()
    if found is None:
        raise error(WORDS[error].format(identity))
    return found
