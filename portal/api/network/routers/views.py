"""Actions of routers: interfaces and single routes."""

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import Schemas
from portal.api.network.dialect.bodies import HTTPBadRequestError
from portal.api.network.dialect.kinds import ID, Many, Record
from portal.api.network.dialect.views import ResourceView
from portal.api.network.routers.resource import ROUTE, ROUTER
from provisioning.network import selectors, services
from provisioning.network.models import Router
from provisioning.network.services import RouterInterface

INTERFACE = Record({"subnet_id": ID, "port_id": ID})
ROUTES_BODY = Record({"router": Record({"routes": Many(ROUTE)}, ("routes",))}, ("router",))


class RouterAction(ResourceView):
    """Base class of the views ``PUT /network/v2.0/routers/{id}/<action>``."""

    resource = ROUTER
    http_method_names = ["put"]

    def perform(self, request: Request, identity: str) -> Response:
        """Check the policy for this router and run the action."""
        row = self.row(identity)
        self.enforce([self.rules["PUT"]], self.resource.target(row))
        return Response(self.act(row, request.data))

    def act(self, row: Router, body: object) -> dict[str, Any]:
        """Perform the action and return the body of the response."""
        raise NotImplementedError

    @staticmethod
    def read(kind: Record, body: object) -> dict[str, Any]:
        try:
            return kind.read(body)
        except ValueError as error:
            raise HTTPBadRequestError(f"Invalid input for router. Reason: {error}.") from None


class AddInterface(RouterAction):
    """``add_router_interface``: by subnet or by port."""

    rules = {"PUT": "add_router_interface"}
    schemas: ClassVar[Schemas] = {"PUT": INTERFACE.schema}

    def put(self, request: Request, identity: str) -> Response:
        """Attach the router to a network."""
        return self.perform(request, identity)

    def act(self, row: Router, body: object) -> dict[str, Any]:
        said = self.read(INTERFACE, body)
        if "subnet_id" in said and "port_id" in said:
            raise HTTPBadRequestError("Bad router request: Cannot specify both subnet-id and port-id.")
        if "port_id" in said:
            port = selectors.port_for(self.context, said["port_id"], all_projects=self.operator)
            return info(services.add_interface_by_port(row, port, anywhere=self.operator))
        if "subnet_id" not in said:
            raise HTTPBadRequestError("Bad router request: Either subnet_id or port_id must be specified.")
        subnet = selectors.subnet_for(self.context, said["subnet_id"], all_projects=self.operator)
        return info(services.add_interface_by_subnet(row, subnet, anywhere=self.operator))


class RemoveInterface(RouterAction):
    """``remove_router_interface``: by subnet, by port, or by both, which must match."""

    rules = {"PUT": "remove_router_interface"}
    schemas: ClassVar[Schemas] = {"PUT": INTERFACE.schema}

    def put(self, request: Request, identity: str) -> Response:
        """Detach the router from a network."""
        return self.perform(request, identity)

    def act(self, row: Router, body: object) -> dict[str, Any]:
        said = self.read(INTERFACE, body)
        if "port_id" in said:
            subnet_id = str(said["subnet_id"]) if "subnet_id" in said else None
            return info(services.remove_interface_by_port(row, str(said["port_id"]), subnet_id))
        if "subnet_id" not in said:
            raise HTTPBadRequestError("Bad router request: Either subnet_id or port_id must be specified.")
        subnet = selectors.subnet_for(self.context, said["subnet_id"], all_projects=self.operator)
        return info(services.remove_interface_by_subnet(row, subnet))


class AddRoutes(RouterAction):
    """``add_extraroutes``."""

    rules = {"PUT": "add_extraroutes"}
    schemas: ClassVar[Schemas] = {"PUT": ROUTES_BODY.schema}

    def put(self, request: Request, identity: str) -> Response:
        """Add routes to the existing ones."""
        return self.perform(request, identity)

    def act(self, row: Router, body: object) -> dict[str, Any]:
        self.change(row, self.read(ROUTES_BODY, body)["router"]["routes"])
        return {"router": self.shape_of(row.pk)}

    def change(self, row: Router, routes: list[dict[str, str]]) -> Router:
        return services.add_routes(row, routes)


class RemoveRoutes(AddRoutes):
    """``remove_extraroutes``."""

    rules = {"PUT": "remove_extraroutes"}

    def change(self, row: Router, routes: list[dict[str, str]]) -> Router:
        return services.remove_routes(row, routes)


def info(interface: RouterInterface) -> dict[str, Any]:
    """Return Neutron's representation of an interface that was added or removed."""
    router, port, subnet = interface.router, interface.port, interface.subnet
    return {
        "id": str(router.id),
        "tenant_id": router.project_id.hex,
        "project_id": router.project_id.hex,
        "port_id": str(port.id),
        "network_id": str(port.network_id),
        "subnet_id": str(subnet.id),
        "subnet_ids": [str(subnet.id)],
        "tags": [],
    }
