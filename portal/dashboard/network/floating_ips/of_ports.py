"""Association of a floating IP from the page of an instance."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse

from portal.dashboard.copy_as.calls import Call
from portal.dashboard.copy_as.kinds import network as copied
from portal.dashboard.frame.forms import Form
from portal.dashboard.frame.pages import PageRequest
from portal.dashboard.network.floating_ips.forms import AssociateForm
from portal.dashboard.network.ports.groups import PortPage, label_of
from portal.dashboard.records.views import SheetPage
from portal.dashboard.words.names import bdi
from provisioning.common.context import RequestContext
from provisioning.identity import policy
from provisioning.network import services
from provisioning.network.models import FloatingIP
from provisioning.network.selectors.ways_out import Missing, ways_out_of


class PortFloating(SheetPage, PortPage):
    """Offers the floating IPs that can be associated with a port, or explains the obstacle."""

    rule = "update_floatingip"
    submit = "Associate"

    def get(self, request: HttpRequest, **_: Any) -> HttpResponse:
        ways = ways_out_of(self.context, self.record)
        if ways.missing is not None:
            return self._explain(ways.missing)
        return super().get(request)

    def form(self, data: QueryDict | None = None) -> Form:
        ways = ways_out_of(self.context, self.record)
        return AssociateForm(data, ways, allocates=self.allows("create_floatingip"))

    def save(self, form: Form) -> HttpResponse:
        """Associate the chosen floating IP, or allocate and associate a new one."""
        chosen, port = form.cleaned_data["floating"], self.record
        address = form.cleaned_data.get("address") or None
        if isinstance(chosen, FloatingIP):
            floating = services.associate(chosen, port, address)
        else:
            floating = services.create_floating_ip(port.project_id, chosen, port=port, fixed_address=address)
        return self.go(self.back(), message=f"{floating.address} is now associated with {floating.fixed_address}.")

    def calls(self, form: Form) -> Sequence[Call]:
        chosen, port = form.cleaned_data["floating"], self.record
        values = {"port_id": str(port.id), "fixed_address": form.cleaned_data.get("address")}
        if isinstance(chosen, FloatingIP):
            return [Call(copied.ASSOCIATION, {**values, "floating_ip": str(chosen.id), "address": chosen.address})]
        return [Call(copied.FLOATING_IP, {**values, "network_id": str(chosen.id), "network_name": chosen.name})]

    def title(self) -> str:
        return f"Associate a floating IP with {bdi(label_of(self.record))}"

    def about(self) -> str:
        return "The instance can then be reached from outside, if its security groups allow it."

    def _explain(self, missing: Missing) -> HttpResponse:
        values = {"heading": self.title(), "back": self.cancel_url(), **explained(self.context, missing)}
        if cast("PageRequest", self.request).htmx:
            return self.part("dashboard/network/floating_ips/_missing.html", values)
        return self.page("dashboard/network/floating_ips/missing.html", values)


def explained(context: RequestContext, missing: Missing) -> Mapping[str, str]:
    """Return an explanation of the obstacle: ``lacks``, ``remedy``, and the address and text of a link, if any."""
    subnet, router = missing.subnet, missing.router
    where = f"the network {bdi(subnet.network)} ({subnet.cidr})" if subnet is not None else ""
    lacks, remedy, to, label, rule = {
        "address": (
            "The port has no IPv4 address.",
            "Floating IPs can only be associated with IPv4 addresses.",
            "",
            "",
            "",
        ),
        "external": (
            "There is no external network.",
            "Floating IPs are addresses of an external network, which an operator creates.",
            reverse("dashboard:network_create"),
            "Create an external network",
            "create_network:router:external",
        ),
        "gateway_ip": (
            f"The subnet of {where} has no gateway address.",
            "A router uses the gateway address of the subnet. Set one, then connect a router.",
            reverse("dashboard:subnet_edit", args=[subnet.id]) if subnet else "",
            "Edit the subnet",
            "update_subnet",
        ),
        "router": (
            f"No router is on {where}.",
            "A router must connect it to an external network.",
            f"{reverse('dashboard:router_create')}?subnet={subnet.id}" if subnet else "",
            "Create a router",
            "create_router",
        ),
        "interface": (
            f"No router is on {where}.",
            f"The router {bdi(router)} has a gateway, but is not connected to this network.",
            f"{reverse('dashboard:router_interface_add', args=[router.id])}?subnet={subnet.id}"
            if router and subnet
            else "",
            f"Connect {bdi(router)}",
            "add_router_interface",
        ),
        "gateway": (
            f"The router {bdi(router)} on {where} has no gateway.",
            "Without a gateway it does not reach the external network.",
            reverse("dashboard:router_gateway", args=[router.id]) if router else "",
            f"Set the gateway of {bdi(router)}",
            "update_router",
        ),
    }[missing.what]
    allowed = bool(rule) and (missing.mine or missing.what == "external") and policy.allows(context, rule)
    if not allowed:
        return {"lacks": lacks, "remedy": f"{remedy} Ask an operator or its owner." if rule else remedy}
    return {"lacks": lacks, "remedy": remedy, "to": to, "label": label}
