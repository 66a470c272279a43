"""The forms of floating IPs and port forwardings."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.http import QueryDict

from portal.dashboard.frame.forms import ChoiceLabel, OfferedField
from portal.dashboard.records.refusals import RecordForm
from portal.dashboard.words.names import bdi
from provisioning.network.models import FixedIP, FloatingIP, Network, PortForwarding
from provisioning.network.selectors.ways_out import WaysOut

NEW = "new:"
NO_TARGET = "No instance on a network behind its routers. The instance's page shows what is missing."
PROTOCOLS = ("tcp", "udp", "sctp", "dccp")
_RANGE = re.compile(r"([0-9]{1,5})(?:\s*[-:]\s*([0-9]{1,5}))?", re.ASCII)


class AllocateForm(RecordForm):
    """An external network and, if the policy allows it, an address."""

    service_fields = {"floating_ip_address": "address", "ip_address": "address"}

    network = OfferedField(label="External network", widget=forms.Select)
    address = forms.GenericIPAddressField(
        label="Address", protocol="IPv4", required=False, help_text="Leave empty to use the lowest free address."
    )
    description = forms.CharField(max_length=255, required=False)

    def __init__(self, data: QueryDict | None, networks: Sequence[Network], *, chooses: bool) -> None:
        super().__init__(data)
        self.networks = networks
        self.offer("network", [(str(each.id), str(each)) for each in networks])
        if not chooses:
            del self.fields["address"]

    def clean_network(self) -> Network:
        network = next((each for each in self.networks if str(each.id) == self.cleaned_data["network"]), None)
        if network is None:
            raise forms.ValidationError("Choose one of the external networks.")
        return network


class AssociateForm(RecordForm):
    """A floating IP for a port: an existing one, or a new one from an external network."""

    focuses = False
    service_fields = {"port_id": "floating"}

    floating = OfferedField(label="Floating IP", error_messages={"required": "Choose a floating IP."})
    address = OfferedField(label="Associate with", required=False, widget=forms.Select)

    def __init__(self, data: QueryDict | None, ways: WaysOut, *, allocates: bool) -> None:
        self.free = {str(row.id): row for row in [*ways.free, *ways.taken]}
        self.new = {f"{NEW}{each.id}": each for each in ways.networks} if allocates else {}
        first = next(iter([*(str(row.id) for row in ways.free), *self.new]), "")
        super().__init__(data, initial={"floating": first, "address": next(iter(ways.addresses), "")})
        known = {each.id: str(each) for each in ways.networks}
        choices = [(str(row.id), ChoiceLabel(row.address, known[row.network_id])) for row in ways.free]
        choices += [
            (key, ChoiceLabel("Allocate a new one", f"from {bdi(each)}", icon="plus-lg"))
            for key, each in self.new.items()
        ]
        choices += [
            (str(row.id), ChoiceLabel(row.address, f"now associated with {row.fixed_address}")) for row in ways.taken
        ]
        self.offer("floating", choices)
        self.addresses = ways.addresses
        self.offer("address", [(each, each) for each in ways.addresses])
        if len(ways.addresses) < 2:
            del self.fields["address"]

    def clean_floating(self) -> FloatingIP | Network:
        """Return a floating IP, or the network to allocate one from."""
        chosen = self.cleaned_data["floating"]
        result: FloatingIP | Network | None = self.free.get(chosen) or self.new.get(chosen)
        if result is None:
            raise forms.ValidationError("Choose one of the listed addresses or networks.")
        return result

    def clean_address(self) -> str:
        text = str(self.cleaned_data["address"])
        if text not in self.addresses:
            raise forms.ValidationError("Choose one of the port's addresses.")
        return text


class TargetForm(RecordForm):
    """One of the offered addresses of instances."""

    service_fields = {"port_id": "target"}

    target = OfferedField(label="Instance", widget=forms.Select, error_messages={"required": "Choose an instance."})

    def __init__(
        self,
        data: QueryDict | None,
        targets: Sequence[tuple[FixedIP, str]],
        *,
        initial: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(data, initial=initial)
        self.targets = {str(fixed.pk): fixed for fixed, _ in targets}
        self.offer("target", [(str(fixed.pk), words) for fixed, words in targets], nothing=NO_TARGET)

    def clean_target(self) -> FixedIP:
        fixed_ip = self.targets.get(self.cleaned_data["target"])
        if fixed_ip is None:
            raise forms.ValidationError("Choose one of the instances.")
        return fixed_ip


class ForwardingForm(TargetForm):
    """A port forwarding: external ports and target; all errors are shown together."""

    notes = {"inside": "leave empty to use the same ports"}
    focuses = False

    protocol = forms.ChoiceField(choices=[(each, each.upper()) for each in PROTOCOLS])
    outside = forms.CharField(
        label="External ports", max_length=20, widget=forms.TextInput({"placeholder": "8080 or 8000-8010"})
    )
    inside = forms.CharField(
        label="Ports of the instance", max_length=20, required=False, widget=forms.TextInput({"placeholder": "80"})
    )
    description = forms.CharField(max_length=255, required=False)
    field_order = ("protocol", "outside", "target", "inside", "description")

    def clean(self) -> dict[str, Any]:
        """Read the port ranges; the internal range must have the length of the external range, or be a single port."""
        typed = super().clean() or self.cleaned_data
        outside = self._read("outside")
        inside = self._read("inside") or outside
        if outside and inside and inside[0] != inside[1] and inside[1] - inside[0] != outside[1] - outside[0]:
            self.add_error("inside", "Enter one port, or as many as outside.")
        typed["external"], typed["internal"] = outside, inside
        return typed

    def _read(self, name: str) -> tuple[int, int] | None:
        text = self.cleaned_data.get(name)
        if not text:
            return None
        match = _RANGE.fullmatch(text)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= first <= last <= 65535:
            self.add_error(name, "Enter one port, or a range such as 8000-8010, from 1 to 65535.")
            return None
        return first, last


def initial_of(row: PortForwarding, target: object) -> dict[str, Any]:
    """Return the initial values for a forwarding; ``target``: the key of its address."""
    outside, inside = (
        str(first) if first == last else f"{first}-{last}"
        for first, last in (
            (row.external_port_first, row.external_port_last),
            (row.internal_port_first, row.internal_port_last),
        )
    )
    return {
        "protocol": row.protocol,
        "outside": outside,
        "inside": inside,
        "target": str(target),
        "description": row.description,
    }
