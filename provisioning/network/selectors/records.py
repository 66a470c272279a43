"""Networks, subnets, ports and security groups as a caller may see them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection
from functools import cache
from typing import Any, TypeVar

from django.db.models import BooleanField, CharField, ExpressionWrapper, Model, Q, QuerySet, UUIDField, Value
from django.db.models.expressions import OrderBy

from provisioning.common.context import RequestContext
from provisioning.common.database.lookups import Among, Ids
from provisioning.common.database.prepared import Prepared
from provisioning.common.errors import ForbiddenError, InvalidInputError, NotFoundError
from provisioning.common.lists.listing import Listing, Sort
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.identity import policy
from provisioning.network.errors import (
    AddressGroupNotFoundError,
    AddressScopeNotFoundError,
    ExternalNetworkAttachForbiddenError,
    NetworkNotFoundError,
    PortNotFoundError,
    SecurityGroupNotFoundError,
    SecurityGroupRuleNotFoundError,
    SubnetNotFoundError,
    SubnetPoolNotFoundError,
)
from provisioning.network.models import (
    AddressGroup,
    AddressScope,
    Network,
    Port,
    SecurityGroup,
    SecurityGroupRule,
    Subnet,
    SubnetPool,
)
from provisioning.network.selectors.visibility import (
    Viewer,
    is_usable,
    own,
    shared_with_caller,
    shared_with_others,
    usable,
    viewer_of,
    visible,
    with_conditions,
)

WORDS: dict[type[NotFoundError], str] = {
    NetworkNotFoundError: "Network {} could not be found.",
    SubnetNotFoundError: "Subnet {} could not be found.",
    PortNotFoundError: "Port {} could not be found.",
    SecurityGroupNotFoundError: "Security group {} does not exist",
    SubnetPoolNotFoundError: "Subnet pool {} could not be found.",
    AddressScopeNotFoundError: "Address scope {} could not be found.",
    SecurityGroupRuleNotFoundError: "Security group rule {} does not exist",
    AddressGroupNotFoundError: "Address group {} could not be found.",
}
"""Error → Neutron's message."""
M = TypeVar("M", bound=Model)
RowsFor = Callable[[Viewer], QuerySet[M]]
"""A selector of this package, which returns the records of one kind that its caller sees."""
LISTING = Listing[Any](
    order=(Sort("id", descending=False),),
    filters={"condition": lambda condition: condition},
    no_marker="Invalid input for operation: The resource {marker} of the marker could not be found.",
)
"""Parameters of every list of the Networking API."""


def networks_for(context: RequestContext | Viewer, *, all_projects: bool = False) -> QuerySet[Network]:
    """Return the networks that the caller sees; ``all_projects`` is for operators."""
    rows = with_conditions(Network.objects.all(), shared_with_others=shared_with_others())
    return visible(context, rows, "network", all_projects=all_projects)


def networks_own_first(context: RequestContext) -> QuerySet[Network]:
    """Return the networks that the caller sees, the project's own before others', each by name."""
    return named_first(networks_for(context), own_first(context))


def own_first(context: RequestContext) -> OrderBy:
    """Return the ordering that puts the project's own records before records of other projects."""
    return ExpressionWrapper(Q(project_id=context.project_id or NOBODY), output_field=BooleanField()).desc()


def named_first(rows: QuerySet[M], *before: OrderBy) -> QuerySet[M]:
    """Order records by name, records without a name last; ``before``: orderings with priority."""
    nameless = ExpressionWrapper(Q(name=""), output_field=BooleanField())
    return rows.order_by(*before, nameless, "name", "id")


def network_for(context: RequestContext, identity: str | uuid.UUID, *, all_projects: bool = False) -> Network:
    """Return one network. Raises NotFoundError if it does not exist or is not visible to the caller."""
    return _one(networks_for, context, identity, NetworkNotFoundError, all_projects=all_projects)


def usable_network_for(context: RequestContext, identity: str | uuid.UUID) -> Network:
    """Return a network that the project may create ports on.

    Raises NotFoundError, and ForbiddenError for an external network that the project sees but may not use.
    """
    seen = network_for(context, identity)
    if not is_usable(context.project_id or NOBODY, seen.pk):
        raise ForbiddenError(f"Network {seen.id} is external: it is for routers and floating IPs, not for ports.")
    return seen


def network_by_rights(context: RequestContext, identity: str | None, *, field: str) -> Network | None:
    """Return a network for guests that the project may not use, but the caller may; None if the caller does not see it.

    Operators may use networks of every project, and ``network:attach_external_network`` allows external ones. Raises
    ExternalNetworkAttachForbiddenError, and InvalidInputError for a network that has no subnets or is down.
    """
    seen = one_of(networks_for, context, identity or "", all_projects=True)
    if seen is None:
        return None
    if (
        seen.external
        and not is_usable(context.project_id or NOBODY, seen.pk)
        and not policy.allows(context, "network:attach_external_network")
    ):
        raise ExternalNetworkAttachForbiddenError(seen.id, field=field)
    if not seen.subnets.exists():
        msg = f"Network {seen.id} requires a subnet in order to boot instances on."
        raise InvalidInputError(msg, field=field)
    if not seen.admin_state_up:
        raise InvalidInputError(f"Network {seen.id} is administratively down.", field=field)
    return seen


def usable_networks_for(context: RequestContext) -> QuerySet[Network]:
    """Return the networks that guests of the project can be attached to: own or shared, up, and with a subnet."""
    project = context.project_id or NOBODY
    return usable_by(project, project.hex)


def usable_by(project_id: uuid.UUID | Value, project: str | Value) -> QuerySet[Network]:
    """Return the networks that ``usable_networks_for`` returns to callers in a project.

    The project is given by its id and the id's text without dashes; both may be parameters of a prepared query.
    """
    mine = Network.objects.filter(usable(project_id, project))
    return mine.filter(admin_state_up=True, subnets__isnull=False).distinct().order_by("name", "id")


def networks_to_choose(context: RequestContext) -> list[Network]:
    """Return the networks that guests of the project can be attached to, with their subnets, by name."""
    rows = with_conditions(usable_networks_for(context), shared_with_caller=shared_with_caller(context, "network"))
    networks = list(rows.prefetch_related("subnets"))
    return sorted(networks, key=lambda network: not network.name)


def subnets_for(context: RequestContext | Viewer, *, all_projects: bool = False) -> QuerySet[Subnet]:
    """Return the project's subnets, and subnets of its own and of shared networks, each with ``network_shared``.

    Only the owner sees the subnets of an external network that is not shared.
    """
    shared = shared_with_caller(context, "network", "network__")
    every = with_conditions(Subnet.objects.all(), network_shared=shared)
    viewer = viewer_of(context, all_projects=all_projects)
    return every if viewer.everything else every.filter(own(viewer) | _on_own_network(viewer) | shared)


def _on_own_network(viewer: Viewer) -> Q:
    return Q(network__project_id=viewer.project_id)


def subnet_for(context: RequestContext, identity: str | uuid.UUID, *, all_projects: bool = False) -> Subnet:
    """Return one subnet. Raises NotFoundError if it does not exist or is not visible to the caller."""
    return _one(subnets_for, context, identity, SubnetNotFoundError, all_projects=all_projects)


def usable_subnet(context: RequestContext, subnet_id: uuid.UUID) -> Subnet | None:
    """Return a subnet if the project may create ports on its network, in one short query; None otherwise."""
    project = context.project_id or NOBODY
    return _USABLE_SUBNET.first(key=subnet_id, project_id=project, project=project.hex)


_USABLE_SUBNET = Prepared(
    lambda key, project_id, project: Subnet.objects.filter(usable(project_id, project, "network__"), pk=key),
    key=UUIDField(),
    project_id=UUIDField(),
    project=CharField(),
)


def subnet_pools_for(context: RequestContext | Viewer, *, all_projects: bool = False) -> QuerySet[SubnetPool]:
    """Return the subnet pools that the caller sees."""
    return visible(context, SubnetPool.objects.all(), "subnetpool", all_projects=all_projects)


def subnet_pool_for(context: RequestContext, identity: str | uuid.UUID, *, all_projects: bool = False) -> SubnetPool:
    """Return one subnet pool. Raises NotFoundError if it does not exist or is not visible to the caller."""
    return _one(subnet_pools_for, context, identity, SubnetPoolNotFoundError, all_projects=all_projects)


def address_scopes_for(context: RequestContext | Viewer, *, all_projects: bool = False) -> QuerySet[AddressScope]:
    """Return the address scopes that the caller sees."""
    return visible(context, AddressScope.objects.all(), "address_scope", all_projects=all_projects)


def address_scope_for(
    context: RequestContext, identity: str | uuid.UUID, *, all_projects: bool = False
) -> AddressScope:
    """Return one address scope. Raises NotFoundError if it does not exist or is not visible to the caller."""
    return _one(address_scopes_for, context, identity, AddressScopeNotFoundError, all_projects=all_projects)


def scopes_of_networks(network_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, dict[int, uuid.UUID]]:
    """Return network → IP version → address scope of its subnets' pools; one query."""
    result: dict[uuid.UUID, dict[int, uuid.UUID]] = {}
    for network, version, scope in _SCOPES(ids=network_ids):
        if scope is not None:
            result.setdefault(network, {})[version] = scope
    return result


_SCOPES = Prepared(
    lambda ids: Subnet.objects.filter(Among("network_id", ids), subnet_pool__address_scope__isnull=False).values_list(
        "network_id", "ip_version", "subnet_pool__address_scope_id"
    ),
    ids=Ids(),
)


def ports_for(context: RequestContext | Viewer, *, all_projects: bool = False) -> QuerySet[Port]:
    """Return the project's ports, with their addresses and security groups."""
    every = Port.objects.prefetch_related("fixed_ips", "security_groups")
    every = with_conditions(every, on_shared_network=shared_with_others("network__"))
    viewer = viewer_of(context, all_projects=all_projects)
    return every if viewer.everything else every.filter(own(viewer))


def visible_ports_for(context: RequestContext | Viewer, *, all_projects: bool = False) -> QuerySet[Port]:
    """Return the project's ports, and other projects' ports on its networks, as Neutron lists them."""
    viewer = viewer_of(context, all_projects=all_projects)
    every = ports_for(Viewer(viewer.project_id, viewer.project, everything=True))
    return every if viewer.everything else every.filter(own(viewer) | _on_own_network(viewer))


def visible_port_for(context: RequestContext, identity: str | uuid.UUID, *, all_projects: bool = False) -> Port:
    """Return one port that ``visible_ports_for`` lists. Raises PortNotFoundError."""
    return _one(visible_ports_for, context, identity, PortNotFoundError, all_projects=all_projects)


def device_ids_at(context: RequestContext, address: str, *, begins: bool = False) -> QuerySet[Port, uuid.UUID | None]:
    """Return the ids of the project's instances with an address, or with one that begins with it (``begins``)."""
    lookup = {"fixed_ips__address__startswith" if begins else "fixed_ips__address": address}
    rows = ports_for(context).prefetch_related(None).filter(device_id__isnull=False, **lookup)
    return rows.values_list("device_id", flat=True)


def port_for(context: RequestContext, identity: str | uuid.UUID, *, all_projects: bool = False) -> Port:
    """Return one port. Raises NotFoundError if it does not exist or is not visible to the caller."""
    return _one(ports_for, context, identity, PortNotFoundError, all_projects=all_projects)


def security_groups_for(context: RequestContext | Viewer, *, all_projects: bool = False) -> QuerySet[SecurityGroup]:
    """Return the security groups that the caller sees, with their rules."""
    every = SecurityGroup.objects.prefetch_related("rules")
    return visible(context, every, "security_group", all_projects=all_projects)


def security_groups_to_choose(context: RequestContext) -> list[SecurityGroup]:
    """Return the security groups that the caller sees, by name."""
    return list(named_first(security_groups_for(context)))


def chosen_security_groups(
    context: RequestContext, ids: Collection[uuid.UUID], *, all_projects: bool = False
) -> list[SecurityGroup]:
    """Return the groups with these ids, own and shared ones. Raises NotFoundError for the first id without a group."""
    groups = {row.pk: row for row in security_groups_for(context, all_projects=all_projects).filter(pk__in=ids)}
    for identity in ids:
        if identity not in groups:
            raise SecurityGroupNotFoundError(WORDS[SecurityGroupNotFoundError].format(identity))
    return list(groups.values())


def security_group_for(
    context: RequestContext, identity: str | uuid.UUID, *, all_projects: bool = False
) -> SecurityGroup:
    """Return one group. Raises NotFoundError if it does not exist or is not visible to the caller."""
    return _one(security_groups_for, context, identity, SecurityGroupNotFoundError, all_projects=all_projects)


def security_group_rules_for(
    context: RequestContext | Viewer, *, all_projects: bool = False
) -> QuerySet[SecurityGroupRule]:
    every = SecurityGroupRule.objects.select_related("group")
    viewer = viewer_of(context, all_projects=all_projects)
    return every if viewer.everything else every.filter(group__project_id=viewer.project_id)


def security_group_rule_for(
    context: RequestContext, identity: str | uuid.UUID, *, all_projects: bool = False
) -> SecurityGroupRule:
    """Return one rule. Raises NotFoundError if it does not exist or belongs to another project."""
    return _one(security_group_rules_for, context, identity, SecurityGroupRuleNotFoundError, all_projects=all_projects)


def address_groups_for(context: RequestContext | Viewer, *, all_projects: bool = False) -> QuerySet[AddressGroup]:
    """Return the address groups that the caller sees."""
    return visible(context, AddressGroup.objects.all(), "address_group", all_projects=all_projects)


def address_group_for(
    context: RequestContext, identity: str | uuid.UUID, *, all_projects: bool = False
) -> AddressGroup:
    """Return one group. Raises AddressGroupNotFoundError if it does not exist or is not visible to the caller."""
    return _one(address_groups_for, context, identity, AddressGroupNotFoundError, all_projects=all_projects)


def _one(
    rows_for: RowsFor[M],
    context: RequestContext,
    identity: str | uuid.UUID,
    error: type[NotFoundError],
    *,
    all_projects: bool,
) -> M:
    """Return the row with this id. If there is none that the caller may see, raise ``error`` with Neutron's message."""
    result = one_of(rows_for, context, identity, all_projects=all_projects)
    if result is None:
        raise error(WORDS[error].format(identity))
    return result


def one_of(
    rows_for: RowsFor[M], context: RequestContext, identity: str | uuid.UUID, *, all_projects: bool = False
) -> M | None:
    """Return the row with this id among those that ``rows_for`` returns for the caller, or None."""
    viewer, key = viewer_of(context, all_projects=all_projects), read_id(identity) or NOBODY
    rows = _prepared(rows_for, viewer.everything)
    result: M | None = rows.first(key=key, project_id=viewer.project_id, project=viewer.project)
    return result


@cache
def _prepared(rows_for: RowsFor[Any], everything: bool) -> Prepared[Any]:  # noqa: FBT001 - a part of the key
    def rows(key: Value, project_id: Value, project: Value) -> QuerySet[Any]:
        return rows_for(Viewer(project_id, project, everything)).filter(pk=key).order_by()

    return Prepared(rows, key=UUIDField(), project_id=UUIDField(), project=CharField())
