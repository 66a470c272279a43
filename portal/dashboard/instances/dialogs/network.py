"""Network interfaces of an instance: attach and detach."""

from collections.abc import Mapping, Sequence

from django import forms
from django.http import HttpResponse, QueryDict
from django.urls import reverse

from portal.dashboard.copy_as.calls import Call
from portal.dashboard.copy_as.kinds import compute as copied
from portal.dashboard.frame.forms import Form, OfferedField
from portal.dashboard.instances.page import InstanceDialog, InstanceSheet
from portal.dashboard.records import refusals
from portal.dashboard.records.questions import QuestionPage
from portal.dashboard.words.names import bdi
from provisioning.common.errors import NotFoundError, NovellaError
from provisioning.compute.actions.interfaces import attach_interface, detach_interface
from provisioning.compute.launch.request import NetworkRequest
from provisioning.network import selectors as network

OFFERED = 200
"""Maximum number of free ports that the dialog offers."""


class InterfaceForm(Form):
    """A network or a free port, and an address."""

    service_fields = {
        **dict.fromkeys(("net_id", "network_id", "port_id", "network"), "target"),
        **dict.fromkeys(("fixed_ips", "ip_address", "networks"), "fixed_ip"),
    }

    target = OfferedField(label="Network or port", widget=forms.Select, error_messages={"required": "Choose one."})
    fixed_ip = forms.CharField(
        label="Address", max_length=45, required=False, help_text="Leave it empty to get the next free address."
    )

    def message_of(self, error: NovellaError) -> str:
        return refusals.message_of(error, self.labels())


class AttachInterface(InstanceSheet):
    """Attaches an interface on a network, or a free port."""

    path, label, icon, action = "interface", "Attach interface", "ethernet", "attach_interface"
    rule = "os_compute_api:os-attach-interfaces:create"
    heading, submit, message = "Attach an interface to {name}", "Attach", "An interface is being attached to {name}."
    consequence = "The guest gets the network device immediately, and must configure it itself unless it uses DHCP."

    def form(self, data: QueryDict | None = None) -> Form:
        form = InterfaceForm(data)
        nets = [(f"network:{net.id}", str(bdi(net))) for net in network.networks_to_choose(self.context)]
        form.offer("target", [*nets, *self._free_ports()], nothing="The project has no network. Create one first.")
        return form

    def _free_ports(self) -> list[tuple[str, str]]:
        if not self.allows("get_port"):
            return []
        own = network.ports_for(self.context).filter(project_id=self.instance.project_id, device_id=None)
        return [(f"port:{port.id}", f"Port {bdi(port)} on {bdi(port.network)}") for port in own[:OFFERED]]

    def save(self, form: Form) -> HttpResponse:
        kind, _, identity = form.cleaned_data["target"].partition(":")
        address = form.cleaned_data["fixed_ip"].strip() or None
        request = (
            NetworkRequest(port_id=identity, fixed_ip=address)
            if kind == "port"
            else NetworkRequest(network_id=identity, fixed_ip=address)
        )
        attach_interface(self.context, self.instance.id, request)
        return self.done()

    def calls(self, form: Form) -> Sequence[Call]:
        kind, _, identity = form.cleaned_data["target"].partition(":")
        address, server = form.cleaned_data["fixed_ip"].strip(), str(self.instance.id)
        if kind == "port":
            return [Call(copied.PORT_INTERFACE, {"server": server, "port_id": identity})]
        fixed = {"fixed_ips": [{"ip_address": address}], "fixed_ip": address} if address else {}
        of = copied.FIXED_INTERFACE if address else copied.INTERFACE
        return [Call(of, {"server": server, "network_id": identity, **fixed})]

    def back(self) -> str:
        return reverse("dashboard:instance_network", args=[self.kwargs["instance_id"]])


class DetachInterface(QuestionPage, InstanceDialog):
    """Asks for confirmation, and detaches an interface."""

    path, label, icon, action = "interface/<uuid:port_id>/detach", "Detach", "x-lg", "detach_interface"
    in_menu = False
    rule = "os_compute_api:os-attach-interfaces:delete"
    question = "Detach {address} from {name}?"
    consequence = "The guest loses the network device immediately. The port and its addresses are released."
    message = "The interface is being detached from {name}."
    stays = True

    def text(self) -> str:
        return self.about()

    def words(self) -> Mapping[str, object]:
        """Return the name of the instance, and the addresses of the interface. Raises NotFoundError."""
        key = self.kwargs["port_id"]
        port = next((row for row in network.interfaces_of(self.instance.id) if row.id == key), None)
        if port is None:
            raise NotFoundError("The instance has no such interface.")
        address = ", ".join(row.address for row in port.fixed_ips.all()) or port.mac_address
        return {"name": bdi(self.instance.name), "address": address}

    def do(self) -> None:
        detach_interface(self.context, self.instance.id, str(self.kwargs["port_id"]))

    def back(self) -> str:
        return reverse("dashboard:instance_network", args=[self.kwargs["instance_id"]])
