"""Networks: the list, the detail page, and the actions."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, cast

from django.http import HttpResponse, QueryDict
from django.urls import reverse

from portal.dashboard.copy_as.calls import Call, Result, edit
from portal.dashboard.copy_as.kinds import network as copied
from portal.dashboard.frame.edits import changes
from portal.dashboard.frame.forms import Form
from portal.dashboard.lists.declaration import HeadLink
from portal.dashboard.lists.views import ListPage
from portal.dashboard.network import wording
from portal.dashboard.network.networks.forms import GUARDED, NetworkForm, NewNetworkForm
from portal.dashboard.network.networks.listing import NETWORKS, OWN, device_words, page_parts
from portal.dashboard.records.questions import QuestionPage
from portal.dashboard.records.views import Crumbs, DetailPage, RecordPage, SheetPage, may, name_of
from portal.dashboard.words.names import bdi
from provisioning.common.context import RequestContext
from provisioning.common.values.ids import NOBODY
from provisioning.identity import policy
from provisioning.network import selectors, services
from provisioning.network.models import Network, Router
from provisioning.network.selectors import routing, uses
from provisioning.network.selectors.topology import may_have_topology

HOME = "dashboard:networks"
PAGE = "dashboard:network"
UNCHANGING = {"network_type", "physical_network", "segmentation_id"}
NAMED = 5
"""Maximum number of ports that a confirmation lists."""


class NetworkPage(RecordPage[Network]):
    """Base of the pages of one network."""

    section = "networks"
    back_to = HOME
    page_name = PAGE

    def look_up(self, identity: uuid.UUID) -> Network:
        return selectors.network_for(self.context, identity)

    def crumbs(self) -> Crumbs:
        return [(name_of(self.record), self.back())]


class NetworkList(ListPage):
    """The networks that the project may see."""

    records = NETWORKS
    template = "dashboard/network/networks/list.html"

    def offers(self, link: HeadLink) -> bool:
        return super().offers(link) and (link is not OWN or may_have_topology(self.context.project_id or NOBODY))


class NetworkDetail(DetailPage[Network], NetworkPage):
    """One network with its subnets and ports."""

    rule = "get_network"

    template = "dashboard/network/networks/page.html"
    live_kind = "network"

    def parts(self, identity: uuid.UUID, number: str) -> Mapping[str, Any]:
        return page_parts(self.context, identity, number)


class NetworkCreate(SheetPage):
    """The form for a new network with its first subnets."""

    section = "networks"
    rule = "create_network"
    back_to = HOME
    template = "dashboard/network/networks/create.html"
    heading = "New network"
    submit = "Create network"

    def form(self, data: QueryDict | None = None) -> Form:
        allowed = {name for name, attribute in GUARDED.items() if self.allows(f"create_network:{attribute}")}
        initial = {"cidr": uses.free_range(self.context)} if data is None else {}
        return NewNetworkForm(data, guarded=allowed, routers=routers_to_join(self.context), initial=initial)

    def save(self, form: Form) -> HttpResponse:
        typed = cast("NewNetworkForm", form)
        subnets = typed.first_subnets()
        if subnets:
            policy.enforce(self.context, "create_subnet", own_network(self.context))
        network = services.create_network_with_subnets(
            self.context.project_id or NOBODY,
            form.cleaned_data["name"],
            typed.columns(),  # type: ignore[arg-type]  # the form's fields are those
            subnets,
            form.cleaned_data.get("router"),
        )
        return self.go(PAGE, network.id, message=f"{bdi(network.name)} was created.")

    def calls(self, form: Form) -> Sequence[Call]:
        typed = cast("NewNetworkForm", form)
        columns = typed.columns()
        segment = {name: columns[name] for name in sorted(UNCHANGING) if name in columns}
        network = Call(copied.NETWORK, {"name": form.cleaned_data["name"], **columns, "segment": segment})
        result, router = [network], form.cleaned_data.get("router")
        for subnet in typed.first_subnets():
            made = Call(copied.SUBNET, {"network_id": Result(network), **subnet_values(subnet.cidr, subnet.fields)})
            result.append(made)
            if router is not None and "gateway_ip" not in subnet.fields:
                values = {"router": str(router.id), "subnet_id": Result(made)}
                result.append(Call(copied.ROUTER_INTERFACE, values))
        return result

    def extra_context(self) -> dict[str, Any]:
        return {**super().extra_context(), "suggested6": uses.free_range_ipv6()}

    def about(self) -> str:
        return "A private network of this project. Only the name is required."


def subnet_values(cidr: str, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a call that creates a subnet with these columns."""
    result = {"cidr": cidr, "ip_version": 6 if ":" in cidr else 4, **columns}
    return result | ({"no_gateway": True} if columns.get("gateway_ip", cidr) is None else {})


def routers_to_join(context: RequestContext) -> list[Router]:
    """Return the routers that the caller may connect a new network to."""
    return routing.routers_out(context) if policy.allows(context, "add_router_interface") else []


def own_network(context: RequestContext) -> dict[str, object]:
    """Return the policy target of a resource on a network that the caller is about to create."""
    own = context.project_id
    return {"project_id": own, "network:project_id": own, "network:tenant_id": own}


class NetworkOwn(QuestionPage):
    """Asks for confirmation, and creates a network with a router to the external network."""

    section = "networks"
    rule = "get_auto_allocated_topology"
    back_to = HOME
    question = "Create a network with external access?"
    consequence = "Creates a network with a free range, and a router that connects it to the default external network."
    label = "Create both"
    message = "The network and its router were created."
    danger = False

    def words(self) -> Mapping[str, object]:
        return {}

    def do(self) -> None:
        self.made = services.allocate_topology(self.context.project_id or NOBODY)

    def success_url(self) -> str:
        return reverse(PAGE, args=[self.made.network_id])


class NetworkEdit(SheetPage, NetworkPage):
    """The form to edit a network."""

    edits = True
    rule = "update_network"

    def form(self, data: QueryDict | None = None) -> Form:
        network = self.record
        allowed = {
            name
            for name, attribute in GUARDED.items()
            if name not in UNCHANGING and may(self.context, f"update_network:{attribute}", network)
        }
        names = ("name", "description", "admin_state_up", *allowed)
        return NetworkForm(data, guarded=allowed, initial={name: getattr(network, name) for name in names})

    def save(self, form: Form) -> HttpResponse:
        typed = form.cleaned_data
        changes = cast("NetworkForm", form).columns() | {name: typed[name] for name in ("name", "description")}
        services.update_network(self.record, changes)
        return self.go(self.back(), message="Saved.")

    def calls(self, form: Form) -> Sequence[Call]:
        values = changes(form, **cast("NetworkForm", form).columns())
        return edit(copied.NETWORK_EDIT, {"network": str(self.record.id)}, values)

    def title(self) -> str:
        return f"Edit {bdi(name_of(self.record))}"


class NetworkDelete(QuestionPage, NetworkPage):
    """Asks for confirmation, and deletes a network that is not in use; the confirmation lists its users."""

    rule = "delete_network"
    consequence = "Its subnets are deleted with it. This cannot be undone."

    def blocked(self) -> str:
        ports, others = uses.blocking_ports(self.context, self.record, NAMED + 1)
        if not ports and not others:
            return ""
        devices = device_words(self.context, ports)
        users = list(dict.fromkeys(devices[port.id][0] or f"port {bdi(name_of(port))}" for port in ports))
        if len(users) > NAMED:
            users = [*users[:NAMED], "others"]
        if others:
            users.append(wording.count(others, "port") + " of other projects")
        return f"It is in use by {wording.listed(users)}: delete or disconnect them first."

    def do(self) -> None:
        services.delete_network(self.record)
