"""The forms of networks and subnets."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django import forms
from django.http import QueryDict

from portal.dashboard.frame.forms import OfferedField, WholeNumberField
from portal.dashboard.network.networks.fields import AddressesField, CidrField, PoolsField, RoutesField
from portal.dashboard.network.networks.listing import MODES
from portal.dashboard.records.refusals import RecordForm
from provisioning.common.errors import NovellaError
from provisioning.network.models import Router, Subnet
from provisioning.network.services import FirstSubnet
from provisioning.network.services.networks.networks import SMALLEST_MTU
from provisioning.network.services.networks.subnets import SubnetFields

GUARDED = {
    "shared": "shared",
    "external": "router:external",
    "is_default": "is_default",
    "mtu": "mtu",
    "port_security_enabled": "port_security_enabled",
    "network_type": "provider:network_type",
    "physical_network": "provider:physical_network",
    "segmentation_id": "provider:segmentation_id",
}
"""Field → the attribute whose policy rule protects it."""
TYPES = (("", "VXLAN, a free VNI"), ("vxlan", "VXLAN"), ("vlan", "VLAN"), ("flat", "Flat"))
MODE_CHOICES = [("", "None: addresses are configured in the guest or by an external router"), *MODES.items()]


class NetworkForm(RecordForm):
    """Attributes of a network; ``guarded`` are the fields of GUARDED that the caller may set."""

    service_fields = {"router:external": "external", "provider:network_type": "network_type"}
    notes = {"description": "for people", "mtu": "bytes; leave empty for the maximum"}

    name = forms.CharField(max_length=255, widget=forms.TextInput({"placeholder": "web"}))
    description = forms.CharField(max_length=255, required=False)
    admin_state_up = forms.BooleanField(label="Enabled", required=False, initial=True)
    mtu = WholeNumberField(label="MTU", required=False, min_value=SMALLEST_MTU, max_value=65535)
    port_security_enabled = forms.BooleanField(
        label="Port security",
        required=False,
        initial=True,
        help_text="New ports can only send from their own addresses, and security groups apply to them.",
    )
    shared = forms.BooleanField(required=False, help_text="Every project can use it.")
    external = forms.BooleanField(
        required=False, help_text="It is connected to the outside. Floating IPs are allocated from it."
    )
    is_default = forms.BooleanField(
        label="Default external network", required=False, help_text="Used when no external network is specified."
    )
    network_type = forms.ChoiceField(label="Network type", choices=TYPES, required=False)
    physical_network = forms.CharField(label="Physical network", max_length=64, required=False)
    segmentation_id = WholeNumberField(label="VNI or VLAN", required=False, max_value=1 << 24)

    def __init__(
        self, data: QueryDict | None, *, guarded: Collection[str], initial: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(data, initial=initial)
        for name in GUARDED.keys() - set(guarded):
            del self.fields[name]

    def columns(self) -> dict[str, Any]:
        """Return the attributes of the network other than its name; empty values are omitted."""
        typed = self.cleaned_data
        names = ("description", "admin_state_up", *GUARDED)
        return {name: typed[name] for name in names if name in typed and typed[name] not in {None, ""}}


class NewNetworkForm(NetworkForm):
    """A network with its first subnets."""

    service_fields = {
        **NetworkForm.service_fields,
        "gateway_ip": "with_gateway",
        "ipv6_address_mode": "ipv6_mode",
        "subnet_id": "router",
    }
    notes = {**NetworkForm.notes, "cidr": "leave empty for none", "cidr6": "leave empty for none"}

    cidr = CidrField(
        label="IPv4 range", required=False, version=4, widget=forms.TextInput({"placeholder": "10.0.1.0/24"})
    )
    cidr6 = CidrField(
        label="IPv6 range", required=False, version=6, widget=forms.TextInput({"placeholder": "fd12:3456:789a::/64"})
    )
    ipv6_mode = forms.ChoiceField(
        label="How guests get IPv6 addresses", choices=MODE_CHOICES, required=False, initial="slaac"
    )
    with_gateway = forms.BooleanField(
        label="Gateway",
        required=False,
        initial=True,
        help_text="The first address, for a router. Without a gateway the subnet cannot be connected to a router.",
    )
    enable_dhcp = forms.BooleanField(
        label="DHCP", required=False, initial=True, help_text="Guests get their addresses and DNS servers by DHCP."
    )
    dns_nameservers = AddressesField(label="DNS servers", placeholder="9.9.9.9", rows=1)
    router = OfferedField(label="Router", required=False, widget=forms.Select)
    field_order = (
        *(
            "name",
            "description",
            "cidr",
            "cidr6",
            "router",
            "ipv6_mode",
            "with_gateway",
            "enable_dhcp",
            "dns_nameservers",
        ),
        *("mtu", "port_security_enabled", "shared", "external", "is_default"),
        *("network_type", "physical_network", "segmentation_id", "admin_state_up"),
    )

    def __init__(
        self,
        data: QueryDict | None,
        *,
        guarded: Collection[str],
        routers: Sequence[Router],
        initial: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(data, guarded=guarded, initial={"router": first_of(routers), **(initial or {})})
        self.routers = routers
        self.offer("router", router_choices(routers))
        if not routers:
            del self.fields["router"]

    def clean_router(self) -> Router | None:
        return chosen_router(self.routers, self.cleaned_data["router"])

    def clean(self) -> dict[str, Any]:
        """Check that each name server has a range of its IP version."""
        typed = super().clean() or self.cleaned_data
        for version, name in ((4, "cidr"), (6, "cidr6")):
            servers = [each for each in typed.get("dns_nameservers", ()) if (":" in each) == (version == 6)]
            if servers and not typed.get(name) and name not in self.errors:
                msg = f"There is no IPv{version} range for the {', '.join(servers)}."
                self.add_error("dns_nameservers", msg)
        return typed

    def first_subnets(self) -> list[FirstSubnet]:
        """Return the subnets of a valid form."""
        typed = self.cleaned_data
        result = []
        for version, name in ((4, "cidr"), (6, "cidr6")):
            if not typed[name]:
                continue
            servers = [each for each in typed["dns_nameservers"] if (":" in each) == (version == 6)]
            fields: SubnetFields = {"enable_dhcp": typed["enable_dhcp"], "dns_nameservers": servers}
            if not typed["with_gateway"]:
                fields["gateway_ip"] = None
            if version == 6 and typed["enable_dhcp"] and typed["ipv6_mode"]:
                fields["ipv6_ra_mode"] = fields["ipv6_address_mode"] = typed["ipv6_mode"]
            result.append(FirstSubnet(typed[name], fields))
        return result


def first_of(routers: Sequence[Router]) -> str:
    """Return the id of the router that is selected by default."""
    return str(routers[0].id) if routers else ""


def router_choices(routers: Sequence[Router]) -> list[tuple[str, str]]:
    return [*((str(each.id), str(each)) for each in routers), ("", "None")]


def chosen_router(routers: Sequence[Router], key: str) -> Router | None:
    """Return the offered router with this id; None for an empty id. Raises ValidationError for any other id."""
    router = next((each for each in routers if str(each.id) == key), None)
    if router is None and key:
        raise forms.ValidationError("Choose one of the routers.")
    return router


class SubnetForm(RecordForm):
    """An existing subnet: all attributes except its range and IPv6 mode."""

    service_fields = {"ipv6_address_mode": "ipv6_mode", "ipv6_ra_mode": "ipv6_mode", "ip_version": "cidr"}
    notes = {
        "gateway_ip": "",
        "allocation_pools": "first-last on each line; leave empty to keep them",
        "dns_nameservers": "one on each line",
        "host_routes": "range via address on each line",
    }

    name = forms.CharField(max_length=255, required=False)
    gateway = forms.ChoiceField(
        choices=[("auto", "The first address"), ("own", "Another address"), ("none", "None")], required=False
    )
    gateway_ip = forms.GenericIPAddressField(label="Gateway's address", required=False)
    enable_dhcp = forms.BooleanField(
        label="DHCP",
        required=False,
        initial=True,
        help_text="Guests get their addresses, routes and DNS servers by DHCP.",
    )
    allocation_pools = PoolsField(label="Allocation pools", placeholder="10.0.1.10-10.0.1.99")
    dns_nameservers = AddressesField(label="DNS servers", placeholder="9.9.9.9")
    host_routes = RoutesField(label="Host routes", placeholder="10.9.0.0/24 via 10.0.1.9")
    description = forms.CharField(max_length=255, required=False)

    def clean(self) -> dict[str, Any]:
        """Require an address for a custom gateway."""
        typed = super().clean() or self.cleaned_data
        if typed.get("gateway") == "own" and not typed.get("gateway_ip") and "gateway_ip" not in self.errors:
            self.add_error("gateway_ip", "Enter the gateway's address.")
        return typed

    def refuse(self, error: NovellaError) -> None:
        """Show an error of the gateway's address at the choice of the gateway, unless the user typed the address."""
        super().refuse(error)
        if self.cleaned_data.get("gateway") != "own" and "gateway_ip" in self.errors:
            self.add_error("gateway", self.errors.pop("gateway_ip").data)

    def columns(self) -> dict[str, Any]:
        """Return the attributes; the gateway is omitted if the cloud chooses it."""
        typed = self.cleaned_data
        names = ("name", "description", "enable_dhcp", "dns_nameservers", "host_routes")
        columns: dict[str, Any] = {name: typed[name] for name in names}
        if typed["allocation_pools"]:
            columns["allocation_pools"] = typed["allocation_pools"]
        if typed["gateway"] == "own":
            columns["gateway_ip"] = typed["gateway_ip"]
        elif typed["gateway"] == "none":
            columns["gateway_ip"] = None
        return columns


class NewSubnetForm(SubnetForm):
    """Another subnet of a network."""

    notes = {**SubnetForm.notes, "allocation_pools": "first-last on each line; leave empty for all addresses"}

    cidr = CidrField(
        label="Range",
        widget=forms.TextInput({"placeholder": "10.0.1.0/24 or fd12:3456:789a::/64"}),
        error_messages={"required": "Enter a range such as 10.0.1.0/24."},
    )
    ipv6_mode = forms.ChoiceField(
        label="How guests get IPv6 addresses", choices=MODE_CHOICES, required=False, help_text="For IPv6 ranges only."
    )
    field_order = (
        *("cidr", "name", "gateway", "gateway_ip", "enable_dhcp", "ipv6_mode"),
        *("allocation_pools", "dns_nameservers", "host_routes", "description"),
    )

    def columns(self) -> dict[str, Any]:
        columns = super().columns()
        mode = self.cleaned_data["ipv6_mode"]
        return columns | ({"ipv6_ra_mode": mode, "ipv6_address_mode": mode} if mode else {})


def initial_of(subnet: Subnet) -> dict[str, Any]:
    """Return the initial values for a subnet."""
    routes = [f"{route['destination']} via {route['nexthop']}" for route in subnet.host_routes]
    return {
        "name": subnet.name,
        "description": subnet.description,
        "gateway": "own" if subnet.gateway_ip else "none",
        "gateway_ip": subnet.gateway_ip,
        "enable_dhcp": subnet.enable_dhcp,
        "allocation_pools": "\n".join(f"{pool['start']}-{pool['end']}" for pool in subnet.allocation_pools),
        "dns_nameservers": "\n".join(subnet.dns_nameservers),
        "host_routes": "\n".join(routes),
    }
