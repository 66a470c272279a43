"""Routers: the list, the detail page, and the actions."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, cast

from django.http import Http404, HttpResponse, QueryDict

from portal.dashboard.copy_as.calls import Call, Result, edit
from portal.dashboard.copy_as.kinds import network as copied
from portal.dashboard.frame.edits import changes
from portal.dashboard.frame.forms import Form
from portal.dashboard.frame.pages import Page
from portal.dashboard.lists.views import ListPage
from portal.dashboard.network import wording
from portal.dashboard.network.routers.forms import GatewayForm, InterfaceForm, NewRouterForm, RouteForm, RouterForm
from portal.dashboard.network.routers.listing import ROUTERS, page_parts
from portal.dashboard.records.questions import QuestionPage
from portal.dashboard.records.views import Crumbs, DetailPage, RecordPage, SheetPage, may, name_of, owners_of
from portal.dashboard.words.names import bdi
from provisioning.common.values.ids import NOBODY
from provisioning.identity import policy
from provisioning.network import selectors, services
from provisioning.network.models import Port, Router, Subnet
from provisioning.network.selectors import routing

HOME = "dashboard:routers"
PAGE = "dashboard:router"
SNAT = "router:external_gateway_info:enable_snat"


class RouterPage(RecordPage[Router]):
    """Base of the pages of one router."""

    section = "routers"
    back_to = HOME
    page_name = PAGE

    def look_up(self, identity: uuid.UUID) -> Router:
        return routing.router_for(self.context, identity)

    def crumbs(self) -> Crumbs:
        return [(name_of(self.record), self.back())]


class RouterList(ListPage):
    """The project's routers."""

    records = ROUTERS
    lead = "Routers connect networks to each other and to external networks."


class RouterDetail(DetailPage[Router], RouterPage):
    """One router with its gateway, interfaces and routes."""

    rule = "get_router"

    template = "dashboard/network/routers/page.html"
    live_kind = "router"

    def parts(self, identity: uuid.UUID, number: str) -> Mapping[str, Any]:
        return page_parts(self.context, identity)


class RouterCreate(SheetPage):
    """The form for a new router; ``?subnet=`` preselects a subnet."""

    section = "routers"
    rule = "create_router"
    back_to = HOME
    heading = "New router"
    submit = "Create router"

    def form(self, data: QueryDict | None = None) -> Form:
        outside = routing.external_networks_for(self.context)
        return NewRouterForm(
            data,
            subnets=[each for each in _subnets(self) if self._can_join(each)],
            networks=outside,
            hides=self.allows(f"create_{SNAT}"),
            initial={"subnets": self.request.GET.getlist("subnet"), "gateway": str(outside[0].id) if outside else ""},
        )

    def _can_join(self, subnet: Subnet) -> bool:
        """Whether the router can get the subnet's gateway address."""
        return subnet.gateway_ip is not None and subnet.network.project_id == self.context.project_id

    def save(self, form: Form) -> HttpResponse:
        typed = form.cleaned_data
        if typed["subnets"]:
            policy.enforce(self.context, "add_router_interface")
        router = services.create_connected_router(
            self.context.project_id or NOBODY,
            typed["subnets"],
            gateway=cast("NewRouterForm", form).chosen_gateway(),
            **{name: typed[name] for name in ("name", "description", "admin_state_up")},
        )
        return self.go(PAGE, router.id, message=f"{bdi(router.name)} was created.")

    def calls(self, form: Form) -> Sequence[Call]:
        typed, gateway = form.cleaned_data, cast("NewRouterForm", form).chosen_gateway()
        names, subnets = ("name", "description", "admin_state_up"), [str(each.id) for each in typed["subnets"]]
        router = Call(
            copied.ROUTER, {**{name: typed[name] for name in names}, **_gateway_values(gateway), "interfaces": subnets}
        )
        legs = [Call(copied.FIRST_INTERFACE, {"router": Result(router), "subnet_id": each}) for each in subnets]
        return [router, *legs]

    def about(self) -> str:
        return "A router connects networks to each other and to an external network."


class RouterEdit(SheetPage, RouterPage):
    """The form for a router's name, description and state."""

    edits = True
    rule = "update_router"

    def form(self, data: QueryDict | None = None) -> Form:
        names = ("name", "description", "admin_state_up")
        return RouterForm(data, initial={name: getattr(self.record, name) for name in names})

    def save(self, form: Form) -> HttpResponse:
        services.update_router(self.record, form.cleaned_data)
        return self.go(self.back(), message="Saved.")

    def calls(self, form: Form) -> Sequence[Call]:
        return edit(copied.ROUTER_EDIT, {"router": str(self.record.id)}, changes(form))

    def title(self) -> str:
        return f"Edit {bdi(name_of(self.record))}"


class RouterGateway(SheetPage, RouterPage):
    """The form for the external gateway."""

    edits = True
    rule = "update_router"
    submit = "Set gateway"

    def form(self, data: QueryDict | None = None) -> Form:
        router = self.record
        port = router.gateway_port
        return GatewayForm(
            data,
            networks=routing.external_networks_for(self.context),
            hides=may(self.context, f"update_{SNAT}", router),
            initial={"gateway": str(port.network_id) if port else "", "enable_snat": router.enable_snat},
        )

    def save(self, form: Form) -> HttpResponse:
        services.update_router(self.record, {"gateway": cast("GatewayForm", form).chosen_gateway()})
        return self.go(self.back(), message=f"{bdi(name_of(self.record))} now has a gateway.")

    def calls(self, form: Form) -> Sequence[Call]:
        gateway = cast("GatewayForm", form).chosen_gateway()
        return [Call(copied.GATEWAY, {"router": str(self.record.id), **_gateway_values(gateway)})]

    def title(self) -> str:
        return f"Gateway of {bdi(name_of(self.record))}"

    def about(self) -> str:
        return "The router gets an external address, and floating IPs of that network can use the router."


class RouterGatewayClear(QuestionPage, RouterPage):
    """Asks for confirmation, and removes the external gateway of a router."""

    rule = "update_router"
    question = "Clear the gateway of {name}?"
    consequence = (
        "Instances behind this router lose external access. The gateway cannot be removed while floating IPs use it."
    )
    label = "Clear gateway"
    message = "The gateway of {name} was removed."
    stays = True

    def do(self) -> None:
        services.update_router(self.record, {"gateway": None})


class RouterDelete(QuestionPage, RouterPage):
    """Asks for confirmation, and deletes a router."""

    rule = "delete_router"

    def text(self) -> str:
        return (
            "Its gateway address is released." if self.record.gateway_port_id else "It is not connected to any network."
        )

    def blocked(self) -> str:
        names = [str(leg.network) for leg in routing.legs_of(self.record)]
        return f"It is still on {wording.listed(names)}: remove these interfaces first." if names else ""

    def do(self) -> None:
        services.delete_router(self.record)


class InterfaceAdd(SheetPage, RouterPage):
    """The form to connect a router to a subnet."""

    rule = "add_router_interface"
    submit = "Connect"

    def form(self, data: QueryDict | None = None) -> Form:
        on = {row.subnet_id for leg in routing.legs_of(self.record) for row in leg.fixed_ips.all()}
        subnets = [subnet for subnet in _subnets(self) if subnet.id not in on]
        chosen = self.request.GET.get("subnet", "")
        return InterfaceForm(data, subnets, chosen, own_project=self.record.project_id)

    def save(self, form: Form) -> HttpResponse:
        subnet, address = form.cleaned_data["subnet"], form.cleaned_data["address"]
        if cast("InterfaceForm", form).at_gateway():
            services.add_interface_by_subnet(self.record, subnet)
        else:
            owners = {**owners_of(subnet), "project_id": self.context.project_id}
            for attribute in ("", ":fixed_ips", ":fixed_ips:ip_address" if address else ":fixed_ips:subnet_id"):
                policy.enforce(self.context, f"create_port{attribute}", owners)
            services.add_interface_at(self.record, subnet, address or None)
        return self.go(self.back(), message=f"{bdi(name_of(self.record))} is on {bdi(subnet.network)} now.")

    def calls(self, form: Form) -> Sequence[Call]:
        subnet, address = form.cleaned_data["subnet"], form.cleaned_data["address"]
        router, key = str(self.record.id), str(subnet.id)
        if cast("InterfaceForm", form).at_gateway():
            return [Call(copied.ROUTER_INTERFACE, {"router": router, "subnet_id": key})]
        fixed = {"subnet_id": key, **({"ip_address": address} if address else {})}
        port = Call(copied.PORT, {"network_id": str(subnet.network_id), "fixed_ips": [fixed]})
        return [port, Call(copied.ROUTER_PORT, {"router": router, "port_id": Result(port)})]

    def title(self) -> str:
        return f"Connect {bdi(name_of(self.record))} to a network"


class InterfaceRemove(QuestionPage, RouterPage):
    """Asks for confirmation, and disconnects a router from a network."""

    rule = "remove_router_interface"
    question = "Disconnect {name}?"
    consequence = "Its instances can no longer reach other networks through this router."
    label = "Disconnect"
    message = "{name} was disconnected."
    stays = True

    def target(self, **kwargs: Any) -> dict[str, object]:
        """Find the router and its interface."""
        result = dict(super().target(**kwargs))
        legs = routing.legs_of(self.record)
        leg = next((each for each in legs if each.id == kwargs["port"]), None)
        if leg is None:
            raise Http404
        self.leg: Port = leg
        return result

    def name(self) -> str:
        return str(self.leg.network)

    def do(self) -> None:
        services.remove_interface_by_port(self.record, str(self.leg.id))


class RouteAdd(SheetPage, RouterPage):
    """The form to add a route."""

    rule = "add_extraroutes"
    submit = "Add route"

    def form(self, data: QueryDict | None = None) -> Form:
        return RouteForm(data)

    def save(self, form: Form) -> HttpResponse:
        services.add_routes(self.record, [form.cleaned_data])
        return self.go(self.back(), message=f"{form.cleaned_data['destination']} is now routed there.")

    def calls(self, form: Form) -> Sequence[Call]:
        route = {name: form.cleaned_data[name] for name in ("destination", "nexthop")}
        values = {"routes": [route], "body": {"router": {"routes": [route]}}}
        terraform = {"destination_cidr": route["destination"], "next_hop": route["nexthop"]}
        return [Call(copied.ROUTE, {"router": str(self.record.id), **values, **terraform})]

    def title(self) -> str:
        return f"Add a route to {bdi(name_of(self.record))}"


class RouteRemove(QuestionPage, RouterPage):
    """Asks for confirmation, and removes the route in ``?destination=`` and ``nexthop=``."""

    rule = "remove_extraroutes"
    question = "Remove the route to {name}?"
    consequence = "Packets for this range are then sent to the gateway, if the router has one."
    label = "Remove"
    message = "The route to {name} was removed."
    stays = True

    def name(self) -> str:
        return f"{self._route['destination']} by {self._route['nexthop']}"

    def do(self) -> None:
        services.remove_routes(self.record, [self._route])

    @property
    def _route(self) -> dict[str, str]:
        route = {name: self.request.GET.get(name, "") for name in ("destination", "nexthop")}
        if route not in self.record.routes:
            raise Http404
        return route


def _gateway_values(gateway: services.Gateway | None) -> dict[str, Any]:
    """Return the values of a call for an external gateway."""
    return {"gateway": str(gateway.network.id), "enable_snat": gateway.enable_snat} if gateway is not None else {}


def _subnets(page: Page) -> Sequence[Subnet]:
    """Return the subnets of networks that instances can use, to which a router can be connected."""
    networks = selectors.networks_to_choose(page.context)
    result = []
    for network in networks:
        for subnet in network.subnets.all():
            if not network.external:
                subnet.network = network
                result.append(subnet)
    return result
