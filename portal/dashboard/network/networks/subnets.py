"""Subnets: add, edit and delete."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, cast

from django.http import HttpResponse, QueryDict
from django.urls import reverse

from portal.dashboard.copy_as.calls import Call, edit
from portal.dashboard.copy_as.kinds import network as copied
from portal.dashboard.frame.edits import changes
from portal.dashboard.frame.forms import Form
from portal.dashboard.network import wording
from portal.dashboard.network.networks.forms import NewSubnetForm, SubnetForm, initial_of
from portal.dashboard.network.networks.listing import device_words
from portal.dashboard.network.networks.views import NAMED, PAGE, NetworkPage, subnet_values
from portal.dashboard.records.questions import QuestionPage
from portal.dashboard.records.views import Crumbs, RecordPage, SheetPage, name_of
from portal.dashboard.words.names import bdi
from provisioning.network import selectors, services
from provisioning.network.models import Subnet
from provisioning.network.selectors import uses


class SubnetPage(RecordPage[Subnet]):
    """Base of the pages of one subnet."""

    section = "networks"
    back_to = "dashboard:networks"

    def look_up(self, identity: uuid.UUID) -> Subnet:
        return selectors.subnet_for(self.context, identity)

    def back(self) -> str:
        return reverse(PAGE, args=[self.record.network_id])

    def crumbs(self) -> Crumbs:
        return [(name_of(self.record.network), self.back())]


class SubnetCreate(SheetPage, NetworkPage):
    """The form to add a subnet to a network."""

    rule = "create_subnet"
    template = "dashboard/network/networks/subnet.html"
    submit = "Add subnet"

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        """Return the target of a new subnet of the caller on the network."""
        return {**super().target(**kwargs), "project_id": self.context.project_id}

    def form(self, data: QueryDict | None = None) -> Form:
        return NewSubnetForm(data, initial={} if data is not None else {"cidr": uses.free_range(self.context)})

    def save(self, form: Form) -> HttpResponse:
        made = services.create_subnet(self.record, form.cleaned_data["cidr"], **cast("NewSubnetForm", form).columns())
        return self.go(self.back(), message=f"{made.cidr} was added.")

    def calls(self, form: Form) -> Sequence[Call]:
        values = subnet_values(form.cleaned_data["cidr"], cast("NewSubnetForm", form).columns())
        return [Call(copied.SUBNET, {"network_id": str(self.record.id), **values})]

    def title(self) -> str:
        return f"Add a subnet to {bdi(name_of(self.record))}"


class SubnetEdit(SheetPage, SubnetPage):
    """The form to edit a subnet."""

    edits = True
    rule = "update_subnet"
    template = "dashboard/network/networks/subnet.html"

    def form(self, data: QueryDict | None = None) -> Form:
        form = SubnetForm(data, initial=initial_of(self.record))
        cast("Any", form.fields["gateway"]).choices = [("own", "This address"), ("none", "None")]
        return form

    def save(self, form: Form) -> HttpResponse:
        services.update_subnet(self.record, cast("SubnetForm", form).columns())
        return self.go(self.back(), message="Saved.")

    def calls(self, form: Form) -> Sequence[Call]:
        columns = cast("SubnetForm", form).columns()
        gateway = columns.pop("gateway_ip", "")
        changed = changes(form, **columns)
        if {"gateway", "gateway_ip"} & changed.keys():
            changed |= {"gateway_ip": gateway or None, "no_gateway": gateway is None or None}
        changed["allocation_pools"] = changed.get("allocation_pools") or None  # they are kept
        return edit(copied.SUBNET_EDIT, {"subnet": str(self.record.id)}, changed)

    def title(self) -> str:
        return f"Edit {self.record.cidr}"


class SubnetDelete(QuestionPage, SubnetPage):
    """Asks for confirmation, and deletes a subnet that is not in use."""

    rule = "delete_subnet"
    consequence = "Its addresses are no longer allocated."
    stays = True

    def name(self) -> str:
        return str(self.record.cidr)

    def blocked(self) -> str:
        ports = uses.ports_of_subnet(self.context, self.record.id, NAMED + 1)
        if not ports:
            return ""
        devices = device_words(self.context, ports)
        users = list(dict.fromkeys(devices[port.id][0] or f"port {bdi(name_of(port))}" for port in ports))
        if len(users) > NAMED:
            users = [*users[:NAMED], "others"]
        return f"{wording.listed(users)} use its addresses. It cannot be deleted while they do."

    def do(self) -> None:
        services.delete_subnet(self.record)
