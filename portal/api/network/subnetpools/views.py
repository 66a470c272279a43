"""Addition and removal of prefixes in subnet pools."""

from typing import ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import Schemas
from portal.api.network.dialect.bodies import HTTPBadRequestError
from portal.api.network.dialect.kinds import CIDR, Many
from portal.api.network.dialect.views import ResourceView
from portal.api.network.subnetpools.resource import SUBNETPOOL
from provisioning.network import services
from provisioning.network.models import SubnetPool

PREFIXES = Many(CIDR, distinct=False)
BODY = {"type": "object", "properties": {"prefixes": PREFIXES.schema}, "required": ["prefixes"]}


class PrefixesView(ResourceView):
    """Base of the actions that change a pool's prefixes: an action reads prefixes in the body and returns all prefixes
    of the pool.
    """

    resource = SUBNETPOOL
    http_method_names = ["put"]
    schemas: ClassVar[Schemas] = {"PUT": BODY}

    def perform(self, request: Request, identity: str) -> Response:
        """Check the policy for this pool and run the action."""
        row = self.row(identity)
        self.enforce([self.rules["PUT"]], self.resource.target(row))
        said = request.data.get("prefixes") if isinstance(request.data, dict) else None
        if not said or not isinstance(said, list):
            raise HTTPBadRequestError("Request body contains invalid data")
        try:
            prefixes = PREFIXES.read(said)
        except ValueError as error:
            raise HTTPBadRequestError(f"Invalid input for prefixes. Reason: {error}.", field="prefixes") from None
        return Response({"prefixes": self.change(row, prefixes).prefixes})

    def change(self, row: SubnetPool, prefixes: list[str]) -> SubnetPool:
        raise NotImplementedError


class AddPrefixes(PrefixesView):
    """``PUT /network/v2.0/subnetpools/{id}/add_prefixes``."""

    rules = {"PUT": "add_prefixes"}

    def put(self, request: Request, identity: str) -> Response:
        """Add prefixes to a subnet pool."""
        return self.perform(request, identity)

    def change(self, row: SubnetPool, prefixes: list[str]) -> SubnetPool:
        return services.add_prefixes(row, prefixes)


class RemovePrefixes(PrefixesView):
    """``PUT /network/v2.0/subnetpools/{id}/remove_prefixes``."""

    rules = {"PUT": "remove_prefixes"}

    def put(self, request: Request, identity: str) -> Response:
        """Remove prefixes that no subnet is allocated from."""
        return self.perform(request, identity)

    def change(self, row: SubnetPool, prefixes: list[str]) -> SubnetPool:
        return services.remove_prefixes(row, prefixes)
