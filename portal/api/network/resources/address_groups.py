"""Address groups (Networking API v2.0 reference, "Address groups")."""

from typing import Any

from portal.api.frame.parts import Call, Service, parts
from portal.api.frame.resource import Operation, Values
from portal.api.network.dialect.attributes import Attribute, shared, standard
from portal.api.network.dialect.bodies import HTTPBadRequestError, columns
from portal.api.network.dialect.kinds import Many, Text
from portal.api.network.dialect.resource import Resource
from portal.api.network.dialect.views import PartView
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


_NAMED = {"type": "object", "properties": {"addresses": ADDRESSES.schema}}
BODY = {
    "type": "object",
    "properties": {"address_group": _NAMED, "addresses": ADDRESSES.schema},
}
"""The reference's body has an object ``address_group`` around the ranges; openstacksdk's body has the ranges alone."""


def _addresses(body: Any) -> list[str]:
    whole = body if isinstance(body, dict) else {}
    group = whole.get("address_group", whole)
    try:
        return ADDRESSES.read(group.get("addresses") if isinstance(group, dict) else None)
    except ValueError as error:
        raise HTTPBadRequestError(f"Invalid input for addresses. Reason: {error}.", field="addresses") from None


def _change(service: Service) -> Call:
    return Call(
        service,
        "update_address_group",
        "Update the group and show it.",
        name="address_group",
        shape=lambda view, group: view.shape_of(group.pk),
        body=BODY,
        read=_addresses,
    )


PARTS = parts(
    PartView,
    "address-groups/{identity}/",
    {
        "PUT add_addresses": _change(services.add_addresses),
        "PUT remove_addresses": _change(services.remove_addresses),
    },
    resource=ADDRESS_GROUP,
)
