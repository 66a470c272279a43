"""Address groups (Networking API v2.0 reference, "Address groups")."""

from portal.api.frame.resource import Operation, Values
from portal.api.network.dialect.attributes import Attribute, shared, standard
from portal.api.network.dialect.bodies import columns
from portal.api.network.dialect.kinds import Many, Text
from portal.api.network.dialect.resource import Resource
from provisioning.common.context import RequestContext
from provisioning.network import selectors, services
from provisioning.network.models import AddressGroup

ADDRESSES = Many(Text(64))


def _create(context: RequestContext, values: Values) -> AddressGroup:
    return services.create_address_group(**{"name": "", "addresses": [], **columns(ADDRESS_GROUP, values)})


def _update(context: RequestContext, row: AddressGroup, values: Values, revision: int | None) -> AddressGroup:
    return services.update_address_group(row, columns(ADDRESS_GROUP, values), revision)


def _delete(context: RequestContext, row: AddressGroup, revision: int | None) -> None:
    services.delete_address_group(row, revision)


ADDRESS_GROUP = Resource(
    name="address_group",
    quota="address_groups",
    list=Operation(selectors.address_groups_for),
    show=Operation(selectors.address_group_for),
    create=Operation(_create),
    update=Operation(_update),
    delete=Operation(_delete),
    tagged=False,
    attributes=(
        *standard(),
        Attribute(name="addresses", kind=ADDRESSES, post=True, default=(), filter=False),
        shared(sort=False),
    ),
)
