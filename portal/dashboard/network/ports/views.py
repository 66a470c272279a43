"""Ports: create, edit and delete."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from django.http import HttpResponse, QueryDict
from django.urls import reverse

from portal.dashboard.copy_as.calls import Call, edit
from portal.dashboard.copy_as.kinds import network as copied
from portal.dashboard.frame.edits import changes
from portal.dashboard.frame.forms import Form
from portal.dashboard.network.networks.views import PAGE, NetworkPage
from portal.dashboard.network.ports.forms import GUARDED, PortForm, initial_of
from portal.dashboard.network.ports.groups import PortPage, label_of
from portal.dashboard.records.questions import QuestionPage
from portal.dashboard.records.views import Crumbs, SheetPage, may, name_of, owners_of
from portal.dashboard.words.names import bdi
from provisioning.common.values.ids import NOBODY
from provisioning.network import selectors, services
from provisioning.network.models import Network


class PortCreate(SheetPage, NetworkPage):
    """The form to create a port on a network that instances can use."""

    rule = "create_port"
    submit = "Create port"

    def look_up(self, identity: Any) -> Network:
        return selectors.usable_network_for(self.context, identity)

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        """Return the target of a new port of the caller on the network."""
        return {**super().target(**kwargs), "project_id": self.context.project_id}

    def form(self, data: QueryDict | None = None) -> Form:
        owners = {**owners_of(self.record), "project_id": self.context.project_id}
        allowed = {
            name
            for name, attributes in GUARDED.items()
            if all(self.allows(f"create_port:{each}", owners) for each in attributes)
        }
        groups = selectors.security_groups_to_choose(self.context)
        initial = {
            "groups": [str(group.id) for group in groups if group.name == "default"],
            "port_security_enabled": self.record.port_security_enabled,
        }
        return PortForm(data, groups=groups, guarded=allowed, initial=initial)

    def save(self, form: Form) -> HttpResponse:
        typed = cast("PortForm", form)
        made = services.create_port(
            self.context.project_id or NOBODY,
            self.record,
            fixed_ips=typed.addresses() or None,
            groups=form.cleaned_data["groups"],
            **typed.columns(),
        )
        return self.go(PAGE, self.record.id, message=f"The port {label_of(made)} was created.")

    def calls(self, form: Form) -> Sequence[Call]:
        typed, groups = cast("PortForm", form), [str(each.id) for each in form.cleaned_data["groups"]]
        values = {"fixed_ips": typed.addresses(), "security_groups": groups, "no_security_groups": not groups or None}
        return [Call(copied.PORT, {"network_id": str(self.record.id), **typed.columns(), **values})]

    def title(self) -> str:
        return f"New port on {bdi(name_of(self.record))}"

    def about(self) -> str:
        return "A port keeps its IP and MAC address. Attach it to an instance at launch or later."


class PortEdit(SheetPage, PortPage):
    """The form to edit a port."""

    edits = True
    section = "networks"
    rule = "update_port"

    def form(self, data: QueryDict | None = None) -> Form:
        port = self.record
        allowed = {
            name
            for name, attributes in GUARDED.items()
            if all(may(self.context, f"update_port:{each}", port) for each in attributes)
        }
        groups = selectors.security_groups_to_choose(self.context)
        options = port.extra_dhcp_opts
        return PortForm(data, groups=groups, guarded=allowed, initial=initial_of(port), options=options)

    def save(self, form: Form) -> HttpResponse:
        typed = cast("PortForm", form)
        services.update_port(
            self.record, typed.columns(), fixed_ips=typed.addresses(), groups=form.cleaned_data["groups"]
        )
        return self.go(self.cancel_url(), message="Saved.")

    def calls(self, form: Form) -> Sequence[Call]:
        typed = cast("PortForm", form)
        changed = changes(form, **typed.columns())
        if "fixed_ips" in changed:
            changed["fixed_ips"] = typed.addresses()
        changed["mac_address"] = changed.get("mac_address") or None
        if "groups" in changed:
            changed["security_groups"] = [str(each.id) for each in form.cleaned_data["groups"]]
        return edit(copied.PORT_EDIT, {"port": str(self.record.id)}, changed)

    def title(self) -> str:
        return f"Edit port {bdi(label_of(self.record))}"

    def crumbs(self) -> Crumbs:
        return [(name_of(self.record.network), self.back())]

    def back(self) -> str:
        return reverse(PAGE, args=[self.record.network_id])


class PortDelete(QuestionPage, PortPage):
    """Asks for confirmation, and deletes a port that is not in use."""

    section = "networks"
    rule = "delete_port"
    question = "Delete the port {name}?"
    consequence = (
        "Its addresses are released. A port of an instance cannot be deleted: detach it from the instance first."
    )
    stays = True

    def name(self) -> str:
        return label_of(self.record)

    def do(self) -> None:
        services.delete_port(self.record)

    def back(self) -> str:
        return reverse(PAGE, args=[self.record.network_id])
