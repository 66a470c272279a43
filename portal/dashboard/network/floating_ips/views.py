"""Floating IPs: the list, allocation, release, association and port forwardings."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpResponse, QueryDict
from django.urls import reverse

from portal.dashboard.copy_as.calls import Call, edit
from portal.dashboard.copy_as.kinds import network as copied
from portal.dashboard.frame.edits import changes
from portal.dashboard.frame.forms import Form
from portal.dashboard.lists.views import ListPage
from portal.dashboard.network.floating_ips.forms import AllocateForm, ForwardingForm, TargetForm, initial_of
from portal.dashboard.network.floating_ips.listing import FLOATING_IPS, label_of, page_parts
from portal.dashboard.records.questions import QuestionPage
from portal.dashboard.records.views import Crumbs, DetailPage, RecordPage, SheetPage, instance_names
from portal.dashboard.words.names import bdi
from provisioning.common.values.ids import NOBODY
from provisioning.network import services
from provisioning.network.models import FixedIP, FloatingIP, PortForwarding
from provisioning.network.selectors import routing
from provisioning.network.selectors.ways_out import reachable_addresses
from provisioning.network.services.floating_ips.port_forwardings import ForwardingRequest

HOME = "dashboard:floating_ips"
PAGE = "dashboard:floating_ip"
WRITTEN = {
    "outside": ("external_port", "external_port_range"),
    "inside": ("internal_port", "internal_port_range"),
    "target": ("internal_port_id", "internal_ip_address"),
}
"""Field of the form for a port forwarding → the values of calls, if they have other names."""


class FloatingPage(RecordPage[FloatingIP]):
    """Base of the pages of one floating IP."""

    section = "floating_ips"
    back_to = HOME
    page_name = PAGE

    def look_up(self, identity: uuid.UUID) -> FloatingIP:
        return routing.floating_ip_for(self.context, identity)

    def crumbs(self) -> Crumbs:
        return [(self.record.address, reverse(PAGE, args=[self.record.pk]))]

    def targets(self) -> list[tuple[FixedIP, str]]:
        """Return the addresses of instances with which this floating IP can be associated, with labels."""
        addresses = reachable_addresses(self.context, self.record.network_id)
        names = instance_names(self.context, [row.port.device_id for row in addresses if row.port])
        return [
            (
                row,
                f"{names.get(row.port.device_id or NOBODY, row.port.name)}: {row.address} ({bdi(row.port.network)})",
            )
            for row in addresses
            if row.port is not None
        ]


class FloatingList(ListPage):
    """The project's floating IPs."""

    records = FLOATING_IPS
    lead = "External addresses of your instances. A floating IP can be moved from one instance to another."


class FloatingDetail(DetailPage[FloatingIP], FloatingPage):
    """One floating IP with its port forwardings."""

    rule = "get_floatingip"

    template = "dashboard/network/floating_ips/page.html"
    live_kind = "floating_ip"

    def parts(self, identity: uuid.UUID, number: str) -> Mapping[str, Any]:
        return page_parts(self.context, identity)


class FloatingAllocate(SheetPage):
    """The form to allocate a floating IP from an external network."""

    section = "floating_ips"
    rule = "create_floatingip"
    back_to = HOME
    heading = "Allocate a floating IP"
    submit = "Allocate"

    def form(self, data: QueryDict | None = None) -> Form:
        networks = routing.external_networks_for(self.context)
        return AllocateForm(data, networks, chooses=self.allows("create_floatingip:floating_ip_address"))

    def save(self, form: Form) -> HttpResponse:
        typed = form.cleaned_data
        made = services.create_floating_ip(
            self.context.project_id or NOBODY,
            typed["network"],
            address=typed.get("address") or None,
            description=typed["description"],
        )
        return self.go(HOME, message=f"{made.address} was allocated. Now associate it with an instance.")

    def calls(self, form: Form) -> Sequence[Call]:
        typed = form.cleaned_data
        network = {"network_id": str(typed["network"].id), "network_name": typed["network"].name}
        return [
            Call(copied.FLOATING_IP, {**network, "address": typed.get("address"), "description": typed["description"]})
        ]

    def about(self) -> str:
        if not routing.external_networks_for(self.context):
            return "There is no external network. Ask an operator for one."
        return "An external address. The project keeps it until you release it."


class FloatingRelease(QuestionPage, FloatingPage):
    """Asks for confirmation, and releases a floating IP."""

    rule = "delete_floatingip"
    question = "Release {name}?"
    label = "Release"
    message = "{name} was released."

    def text(self) -> str:
        leads = self.record.fixed_address
        now = f"It is associated with {leads}, which can then no longer be reached at this address. " if leads else ""
        return f"{now}It can then be allocated to another project, and you may not get it back."

    def name(self) -> str:
        return str(self.record.address)

    def do(self) -> None:
        services.delete_floating_ip(self.record, with_forwardings=True)


class FloatingAssociate(SheetPage, FloatingPage):
    """The form to associate a floating IP with an instance."""

    rule = "update_floatingip"
    submit = "Associate"
    page_name = ""

    def form(self, data: QueryDict | None = None) -> Form:
        return TargetForm(data, self.targets())

    def save(self, form: Form) -> HttpResponse:
        fixed = form.cleaned_data["target"]
        services.associate(self.record, fixed.port, fixed.address)
        return self.go(HOME, message=f"{self.record.address} is now associated with {fixed.address}.")

    def calls(self, form: Form) -> Sequence[Call]:
        fixed = form.cleaned_data["target"]
        floating = {"floating_ip": str(self.record.id), "address": self.record.address}
        return [Call(copied.ASSOCIATION, {**floating, "port_id": str(fixed.port_id), "fixed_address": fixed.address})]

    def title(self) -> str:
        return f"Associate {self.record.address} with an instance"


class FloatingDisassociate(QuestionPage, FloatingPage):
    """Asks for confirmation, and disassociates a floating IP; ``?to=instance`` returns to the instance."""

    rule = "update_floatingip"
    question = "Disassociate {name}?"
    consequence = "The instance can no longer be reached at this address. The project keeps the address."
    label = "Disassociate"
    message = "{name} was disassociated."
    page_name = ""
    stays = True

    def name(self) -> str:
        return str(self.record.address)

    def do(self) -> None:
        services.disassociate(self.record)

    def back(self) -> str:
        port = self.record.fixed_port
        if self.request.GET.get("to") == "instance" and port is not None and port.device_id:
            return reverse("dashboard:instance_network", args=[port.device_id])
        return self.back_to


def forwarding_values(typed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a call that creates or changes a port forwarding."""
    fixed = typed["target"]
    values = {"protocol": typed["protocol"], "description": typed["description"]}
    for name in ("internal", "external"):
        first, last = typed[name]
        values |= {f"{name}_port": first} if first == last else {f"{name}_port_range": f"{first}:{last}"}
    return {**values, "internal_port_id": str(fixed.port_id), "internal_ip_address": fixed.address}


class ForwardingPage(FloatingPage):
    """Base of the pages of one port forwarding."""

    def target(self, **kwargs: Any) -> dict[str, object]:
        """Find the floating IP and its forwarding."""
        result = dict(super().target(**kwargs))
        self.forwarding: PortForwarding = routing.port_forwarding_for(self.record, kwargs["forwarding"])
        return result


class ForwardingAdd(SheetPage, FloatingPage):
    """The form to add a port forwarding."""

    rule = "create_floatingip_port_forwarding"
    submit = "Forward"

    def form(self, data: QueryDict | None = None) -> Form:
        return ForwardingForm(data, self.targets())

    def save(self, form: Form) -> HttpResponse:
        typed = form.cleaned_data
        fixed = typed["target"]
        request = ForwardingRequest(
            typed["protocol"], typed["external"], fixed.port, fixed.address, typed["internal"], typed["description"]
        )
        made = services.create_port_forwarding(self.record, request)
        return self.go(self.back(), message=f"{label_of(made)}: the port forwarding is active.")

    def calls(self, form: Form) -> Sequence[Call]:
        values = forwarding_values(form.cleaned_data)
        kind = copied.FORWARDED_RANGE if "external_port_range" in values else copied.FORWARDING
        return [Call(kind, {"floating_ip": str(self.record.id), **values})]

    def title(self) -> str:
        return f"Forward ports of {self.record.address}"

    def about(self) -> str:
        return (
            "Ports of one address are forwarded to one or more instances. Their security groups must allow the traffic."
        )


class ForwardingEdit(ForwardingPage, SheetPage):
    """The form to edit a port forwarding."""

    edits = True
    rule = "update_floatingip_port_forwarding"

    def form(self, data: QueryDict | None = None) -> Form:
        row = self.forwarding
        fixed = row.internal_port.fixed_ips.select_related("port__network").filter(address=row.internal_ip_address)
        targets = self.targets()
        known = {each.pk for each, _ in targets}
        targets += [
            (each, f"{each.address} ({bdi(each.port.network)})") for each in fixed if each.pk not in known and each.port
        ]
        return ForwardingForm(data, targets, initial=initial_of(row, next((each.pk for each in fixed), None)))

    def save(self, form: Form) -> HttpResponse:
        typed = form.cleaned_data
        fixed = typed["target"]
        changes = {"internal_port": fixed.port, "internal_address": fixed.address}
        changes |= {name: typed[name] for name in ("protocol", "external", "internal", "description")}
        made = services.update_port_forwarding(self.forwarding, changes)
        return self.go(self.back(), message=f"{label_of(made)}: the port forwarding is active.")

    def calls(self, form: Form) -> Sequence[Call]:
        ids = {"floating_ip": str(self.record.id), "port_forwarding": str(self.forwarding.id)}
        changed, values = changes(form), forwarding_values(form.cleaned_data)
        names = {each for name in changed for each in WRITTEN.get(name, (name,))}
        return edit(copied.FORWARDING_EDIT, ids, {name: value for name, value in values.items() if name in names})

    def title(self) -> str:
        return f"Edit a port forwarding of {self.record.address}"

    def about(self) -> str:
        return "Changing the ports or the instance closes open connections."


class ForwardingDelete(QuestionPage, ForwardingPage):
    """Asks for confirmation, and deletes a port forwarding."""

    rule = "delete_floatingip_port_forwarding"
    question = "Delete forwarding?"
    label = "Delete forwarding"
    message = "The port forwarding was deleted: {name}."
    stays = True

    def name(self) -> str:
        return label_of(self.forwarding)

    def text(self) -> str:
        return f"{self.name()}. Open connections are closed immediately."

    def do(self) -> None:
        services.delete_port_forwarding(self.forwarding)
