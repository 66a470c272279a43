"""Subnet pools and address scopes (Networking API v2.0 reference, "Subnet pools", "Address scopes")."""

from dataclasses import dataclass
from typing import Any

from portal.api.frame import Call, Operation, Values, parts
from portal.api.network.dialect import Attribute, Resource, bodies, kinds, shared, standard, views
from provisioning.common.context import RequestContext
from provisioning.common.values.numbers import MAX_INTEGER
from provisioning.identity import policy
from provisioning.network import selectors, services
from provisioning.network.models import AddressScope, SubnetPool


def _create_scope(context: RequestContext, values: Values) -> AddressScope:
    return services.create_address_scope(**values)


def _update_scope(context: RequestContext, row: AddressScope, values: Values, revision: int | None) -> AddressScope:
    return services.update_address_scope(row, values, revision)


def _delete_scope(context: RequestContext, row: AddressScope, revision: int | None) -> None:
    services.delete_address_scope(row, revision)


ADDRESS_SCOPE = Resource(
    name="address_scope",
    quota="address_scopes",
    list=Operation(selectors.address_scopes_for),
    show=Operation(selectors.address_scope_for),
    create=Operation(_create_scope),
    update=Operation(_update_scope),
    delete=Operation(_delete_scope),
    tagged=False,
    attributes=(
        *standard(name_required=True),
        Attribute(name="ip_version", kind=kinds.IPVersion(), post=True, required=True, sort=True),
        shared(post=True, put=True, default=False, guards=("create", "update")),
    ),
)


@dataclass(frozen=True)
class Length(kinds.Integer):
    """The length of a prefix, which Neutron shows as text."""

    def write(self, value: int) -> str:
        return str(value)


LENGTH = Length(0, 128)
"""Bits of a prefix."""


def _with_scope(context: RequestContext, values: Values) -> Any:
    """Return the values with the address scope's record. Raises NotFoundError if the caller may not see the scope."""
    fields = dict(values)
    if "address_scope_id" in fields:
        identity = fields.pop("address_scope_id")
        fields["address_scope"] = None if identity is None else _scope(context, identity)
    return fields


def _scope(context: RequestContext, identity: object) -> AddressScope:
    return selectors.address_scope_for(context, str(identity), all_projects=policy.allows(context, views.ALL_PROJECTS))


def _create_pool(context: RequestContext, values: Values) -> SubnetPool:
    return services.create_subnet_pool(**_with_scope(context, values))


def _update_pool(context: RequestContext, row: SubnetPool, values: Values, revision: int | None) -> SubnetPool:
    return services.update_subnet_pool(row, _with_scope(context, values), revision)


def _delete_pool(context: RequestContext, row: SubnetPool, revision: int | None) -> None:
    services.delete_subnet_pool(row, revision)


SUBNETPOOL = Resource(
    name="subnetpool",
    quota="subnetpools",
    list=Operation(selectors.subnet_pools_for),
    show=Operation(selectors.subnet_pool_for),
    create=Operation(_create_pool),
    update=Operation(_update_pool),
    delete=Operation(_delete_pool),
    attributes=(
        *standard(name_required=True),
        Attribute(name="prefixes", kind=kinds.Many(kinds.CIDR), post=True, put=True, required=True, filter=False),
        Attribute(name="ip_version", kind=kinds.IPVersion(), sort=True),
        Attribute(name="default_prefixlen", kind=LENGTH, post=True, put=True),
        Attribute(name="min_prefixlen", kind=LENGTH, post=True, put=True),
        Attribute(name="max_prefixlen", kind=LENGTH, post=True, put=True),
        Attribute(name="default_quota", kind=kinds.OrNone(kinds.Integer(0, MAX_INTEGER)), post=True, put=True),
        Attribute(name="address_scope_id", kind=kinds.OrNone(kinds.ID), post=True, put=True),
        shared(post=True, default=False, guards=("create",)),
        Attribute(
            name="is_default", kind=kinds.BOOLEAN, post=True, put=True, default=False, guards=("create", "update")
        ),
    ),
)


PREFIXES = kinds.Many(kinds.CIDR, distinct=False)
BODY = {"type": "object", "properties": {"prefixes": PREFIXES.schema}, "required": ["prefixes"]}


def _prefixes(body: Any) -> list[str]:
    specified = body.get("prefixes") if isinstance(body, dict) else None
    if not specified or not isinstance(specified, list):
        raise bodies.HTTPBadRequestError("Request body contains invalid data")
    try:
        return PREFIXES.read(specified)
    except ValueError as error:
        raise bodies.HTTPBadRequestError(f"Invalid input for prefixes. Reason: {error}.", field="prefixes") from None


_OF_PREFIXES: Any = {"name": "prefixes", "shape": lambda view, pool: pool.prefixes, "body": BODY, "read": _prefixes}
PARTS = parts(
    views.PartView,
    "subnetpools/{identity}/",
    {
        "PUT add_prefixes": Call(
            services.add_prefixes, "add_prefixes", "Add prefixes to a subnet pool.", **_OF_PREFIXES
        ),
        "PUT remove_prefixes": Call(
            services.remove_prefixes,
            "remove_prefixes",
            "Remove prefixes that no subnet is allocated from.",
            **_OF_PREFIXES,
        ),
    },
    resource=SUBNETPOOL,
)
