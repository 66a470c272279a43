"""The form of a port."""

from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import Any

from django import forms
from django.http import QueryDict

from portal.dashboard.frame.forms import OfferedListField
from portal.dashboard.network.networks.fields import AddressesField, OptionsField, PairsField, mac_of
from portal.dashboard.network.ports.groups import chosen_groups, group_choices
from portal.dashboard.records.refusals import RecordForm
from provisioning.network.models import Port, SecurityGroup

GUARDED = {
    "fixed_ips": ("fixed_ips", "fixed_ips:ip_address"),
    "mac_address": ("mac_address",),
    "allowed_address_pairs": ("allowed_address_pairs",),
    "port_security_enabled": ("port_security_enabled",),
}
"""Field → the attributes whose policy rules protect it."""


class PortForm(RecordForm):
    """Attributes of a port; ``guarded`` are the fields of GUARDED that the caller may set, ``options`` the port's
    current DHCP options.
    """

    service_fields = {"security_groups": "groups", "ip_address": "fixed_ips", "address": "fixed_ips"}
    notes = {
        "fixed_ips": "one on each line",
        "allowed_address_pairs": "address or range, optionally with a MAC address, on each line",
        "extra_dhcp_opts": "name and value on each line; ipv6 before them for DHCPv6",
    }

    name = forms.CharField(max_length=255, required=False)
    fixed_ips = AddressesField(label="Addresses", placeholder="10.0.1.20")
    mac_address = forms.CharField(
        label="MAC address", max_length=17, required=False, help_text="Leave empty to generate one."
    )
    groups = OfferedListField(label="Security groups", required=False)
    port_security_enabled = forms.BooleanField(
        label="Port security",
        required=False,
        help_text="Without it the port can send from every address, and security groups do not apply.",
    )
    allowed_address_pairs = PairsField(label="Allowed address pairs", placeholder="10.0.1.100")
    extra_dhcp_opts = OptionsField(label="Extra DHCP options", placeholder="tftp-server 10.0.1.5")
    admin_state_up = forms.BooleanField(label="Enabled", required=False, initial=True)
    description = forms.CharField(max_length=255, required=False)

    def __init__(
        self,
        data: QueryDict | None,
        *,
        groups: Sequence[SecurityGroup],
        guarded: Collection[str],
        initial: Mapping[str, Any],
        options: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__(data, initial=initial)
        self.options = options
        self.known = groups
        self.offer("groups", group_choices(groups))
        for name in GUARDED.keys() - set(guarded):
            del self.fields[name]

    def clean_mac_address(self) -> str:
        text: str = self.cleaned_data["mac_address"]
        try:
            return mac_of(text) if text else ""
        except ValueError:
            raise forms.ValidationError("Enter a MAC address such as fa:16:3e:00:00:01.") from None

    def clean_groups(self) -> list[SecurityGroup]:
        return chosen_groups(self.known, self.cleaned_data["groups"])

    def columns(self) -> dict[str, Any]:
        """Return the columns of the submitted fields."""
        names = ("name", "description", "admin_state_up", "port_security_enabled", "allowed_address_pairs")
        columns = {name: self.cleaned_data[name] for name in names if name in self.cleaned_data}
        mac = self.cleaned_data.get("mac_address")
        options = self.cleaned_data["extra_dhcp_opts"]
        kept = {_key(each) for each in options}
        gone = [{**each, "opt_value": None} for each in self.options if _key(each) not in kept]
        return columns | {"extra_dhcp_opts": [*options, *gone]} | ({"mac_address": mac} if mac else {})

    def addresses(self) -> list[dict[str, object]] | None:
        """Return the requested addresses; None if the caller may not choose them."""
        if "fixed_ips" not in self.cleaned_data:
            return None
        return [{"ip_address": each} for each in self.cleaned_data["fixed_ips"]]


def initial_of(port: Port) -> dict[str, Any]:
    """Return the initial values for a port."""
    own = port.mac_address
    pairs = [
        pair["ip_address"] + (f" {pair['mac_address']}" if pair.get("mac_address", own) != own else "")
        for pair in port.allowed_address_pairs
    ]
    return {
        "name": port.name,
        "description": port.description,
        "admin_state_up": port.admin_state_up,
        "port_security_enabled": port.port_security_enabled,
        "fixed_ips": "\n".join(row.address for row in sorted(port.fixed_ips.all(), key=attrgetter("id"))),
        "groups": [str(group.id) for group in port.security_groups.all()],
        "mac_address": own,
        "allowed_address_pairs": "\n".join(pairs),
        "extra_dhcp_opts": "\n".join(map(_option, port.extra_dhcp_opts)),
    }


def _key(option: Mapping[str, Any]) -> tuple[object, object]:
    return option["opt_name"], option.get("ip_version", 4)


def _option(option: Mapping[str, Any]) -> str:
    return ("ipv6 " if option.get("ip_version") == 6 else "") + f"{option['opt_name']} {option['opt_value']}"
