"""Address groups (Networking API v2.0 reference, "Address groups")."""

from typing import ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import Schemas
from portal.api.frame.resource import Operation, Values
from portal.api.network.dialect.attributes import Attribute, shared, standard
from portal.api.network.dialect.bodies import HTTPBadRequestError, columns
from portal.api.network.dialect.kinds import Many, Text
from portal.api.network.dialect.resource import Resource
from portal.api.network.dialect.views import ResourceView
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


class AddressesView(ResourceView):
    """Base of the actions that change a group's ranges: an action reads ranges in the body and returns the group."""

    resource = ADDRESS_GROUP
    rules = {"PUT": "update_address_group"}
    http_method_names = ["put"]
    schemas: ClassVar[Schemas] = {"PUT": BODY}

    def put(self, request: Request, identity: str) -> Response:
        """Update the group and show it."""
        row = self.row(identity)
        self.enforce(["update_address_group"], self.resource.target(row))
        body = request.data if isinstance(request.data, dict) else {}
        group = body.get("address_group", body)
        try:
            addresses = ADDRESSES.read(group.get("addresses") if isinstance(group, dict) else None)
        except ValueError as error:
            raise HTTPBadRequestError(f"Invalid input for addresses. Reason: {error}.", field="addresses") from None
        self.change(row, addresses)
        return Response({"address_group": self.shape_of(identity)})

    def change(self, row: AddressGroup, addresses: list[str]) -> AddressGroup:
        raise NotImplementedError


class AddAddresses(AddressesView):
    """``PUT /network/v2.0/address-groups/{id}/add_addresses``."""

    def change(self, row: AddressGroup, addresses: list[str]) -> AddressGroup:
        return services.add_addresses(row, addresses)


class RemoveAddresses(AddressesView):
    """``PUT /network/v2.0/address-groups/{id}/remove_addresses``."""

    def change(self, row: AddressGroup, addresses: list[str]) -> AddressGroup:
        return services.remove_addresses(row, addresses)
