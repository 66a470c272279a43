"""Address scopes (Networking API v2.0 reference, "Address scopes")."""

from portal.api.frame.resource import Operation, Values
from portal.api.network.dialect.attributes import Attribute, shared, standard
from portal.api.network.dialect.kinds import IPVersion
from portal.api.network.dialect.resource import Resource
from provisioning.common.context import RequestContext
from provisioning.network import selectors, services
from provisioning.network.models import AddressScope


def _create(context: RequestContext, values: Values) -> AddressScope:
    return services.create_address_scope(**values)


def _update(context: RequestContext, row: AddressScope, values: Values, revision: int | None) -> AddressScope:
    return services.update_address_scope(row, values, revision)


def _delete(context: RequestContext, row: AddressScope, revision: int | None) -> None:
    services.delete_address_scope(row, revision)


ADDRESS_SCOPE = Resource(
    name="address_scope",
    quota="address_scopes",
    list=Operation(selectors.address_scopes_for),
    show=Operation(selectors.address_scope_for),
    create=Operation(_create),
    update=Operation(_update),
    delete=Operation(_delete),
    tagged=False,
    attributes=(
        *standard(name_required=True),
        Attribute(name="ip_version", kind=IPVersion(), post=True, required=True, sort=True),
        shared(post=True, put=True, default=False, guards=("create", "update")),
    ),
)
