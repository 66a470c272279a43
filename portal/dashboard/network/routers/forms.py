"""The forms of routers."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.http import QueryDict

from portal.dashboard.frame.forms import ChoiceLabel, OfferedField, OfferedListField
from portal.dashboard.records.refusals import RecordForm
from portal.dashboard.words.names import bdi
from provisioning.network import addressing
from provisioning.network.models import Network, Subnet
from provisioning.network.services import Gateway

NO_NETWORK = "There is no external network. Ask an operator for one."


class RouterForm(RecordForm):
    """Name, description and state of a router."""

    notes = {"description": "for people"}

    name = forms.CharField(max_length=255, widget=forms.TextInput({"placeholder": "way-out"}))
    description = forms.CharField(max_length=255, required=False)
    admin_state_up = forms.BooleanField(label="Enabled", required=False, initial=True)


class GatewayForm(RecordForm):
    """The external network of a router; ``hides``: whether the caller may choose that instances share the router's
    address (SNAT).
    """

    service_fields = {"external_gateway_info": "gateway"}
    needs_gateway = True

    gateway = OfferedField(label="External network", required=False, widget=forms.Select)
    enable_snat = forms.BooleanField(
        label="Source NAT (SNAT)",
        required=False,
        initial=True,
        help_text="Instances without a floating IP use the router's address for external connections.",
    )

    def __init__(
        self,
        data: QueryDict | None,
        *,
        networks: Sequence[Network],
        hides: bool,
        initial: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(data, initial=initial)
        self.networks = networks
        none = [] if self.needs_gateway and networks else [("", "None")]
        self.offer("gateway", [*((str(each.id), str(each)) for each in networks), *none])
        if not networks:
            self.fields["gateway"].help_text = NO_NETWORK
        if not hides:
            del self.fields["enable_snat"]

    def clean_gateway(self) -> Network | None:
        chosen = self.cleaned_data["gateway"]
        network = next((each for each in self.networks if str(each.id) == chosen), None)
        if network is None and (chosen or self.needs_gateway):
            raise forms.ValidationError("Choose one of the external networks.")
        return network

    def chosen_gateway(self) -> Gateway | None:
        network = self.cleaned_data["gateway"]
        return Gateway(network, self.cleaned_data.get("enable_snat", True)) if network else None


class NewRouterForm(RouterForm, GatewayForm):
    """A router with its external gateway and its subnets."""

    needs_gateway = False
    service_fields = {**GatewayForm.service_fields, "subnet_id": "subnets", "fixed_ips": "subnets"}

    subnets = OfferedListField(label="Connect these networks", required=False)
    field_order = ("name", "description", "gateway", "enable_snat", "subnets", "admin_state_up")

    def __init__(self, data: QueryDict | None, *, subnets: Sequence[Subnet], **kwargs: Any) -> None:
        super().__init__(data, **kwargs)
        self.known = {str(each.id): each for each in subnets}
        offered = [(key, ChoiceLabel(str(each.network), each.cidr)) for key, each in self.known.items()]
        self.offer("subnets", offered, nothing="There is no subnet to connect yet.")

    def clean_subnets(self) -> list[Subnet]:
        chosen = self.cleaned_data["subnets"]
        if not set(chosen) <= self.known.keys():
            raise forms.ValidationError("Choose from the listed networks.")
        return [self.known[key] for key in chosen]


class InterfaceForm(RecordForm):
    """A subnet to connect, and the router's address on it. Without an address, the router gets the gateway's address on
    networks of ``own_project``, and a free address on all other networks.
    """

    service_fields = {"subnet_id": "subnet", "ip_address": "address", "fixed_ips": "address"}

    subnet = OfferedField(widget=forms.Select, error_messages={"required": "Choose a subnet."})
    address = forms.GenericIPAddressField(
        required=False,
        help_text="Leave empty to use the subnet's gateway address, or a free address on another project's network.",
    )

    def __init__(self, data: QueryDict | None, subnets: Sequence[Subnet], chosen: str, *, own_project: object) -> None:
        super().__init__(data, initial={"subnet": chosen})
        self.known = {str(each.id): each for each in subnets}
        self.own_project = own_project
        offered = [(key, self._label(each)) for key, each in self.known.items()]
        self.offer("subnet", offered, nothing="Every subnet that you can use is connected.")

    def _label(self, subnet: Subnet) -> str:
        gateway = f"gateway {subnet.gateway_ip}" if subnet.gateway_ip else "no gateway"
        others = "" if subnet.network.project_id == self.own_project else ", of another project"
        return f"{bdi(subnet.network)}: {subnet.cidr} ({gateway}{others})"

    def clean_subnet(self) -> Subnet:
        subnet = self.known.get(self.cleaned_data["subnet"])
        if subnet is None:
            raise forms.ValidationError("Choose one of the subnets.")
        return subnet

    def clean(self) -> dict[str, Any]:
        """Require an address if the subnet has no gateway address."""
        typed = super().clean() or self.cleaned_data
        subnet, address = typed.get("subnet"), typed.get("address")
        if subnet is not None and subnet.gateway_ip is None and not address and "address" not in self.errors:
            self.add_error("address", "The subnet has no gateway address. Enter an address for the router.")
        return typed

    def at_gateway(self) -> bool:
        """Whether the router gets the gateway's address."""
        subnet, address = self.cleaned_data["subnet"], self.cleaned_data["address"]
        own = subnet.network.project_id == self.own_project
        return bool(address == subnet.gateway_ip if address else own)


class RouteForm(RecordForm):
    """A destination range and its next hop."""

    service_fields = {"routes": "nexthop"}

    destination = forms.CharField(max_length=64, widget=forms.TextInput({"placeholder": "10.9.0.0/24"}))
    nexthop = forms.CharField(
        label="Next hop",
        max_length=64,
        widget=forms.TextInput({"placeholder": "10.0.0.9"}),
        help_text="An address on one of the router's networks, not the router's own.",
    )

    def clean_destination(self) -> str:
        try:
            return str(addressing.read_prefix(self.cleaned_data["destination"], loose=True).cidr)
        except ValueError:
            raise forms.ValidationError("Enter a range such as 10.9.0.0/24.") from None

    def clean_nexthop(self) -> str:
        try:
            return str(addressing.read_address(self.cleaned_data["nexthop"]))
        except ValueError:
            raise forms.ValidationError("Enter an address such as 10.0.0.9.") from None
