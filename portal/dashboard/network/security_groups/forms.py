"""Forms of security groups and their rules."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.http import QueryDict

from portal.dashboard.frame.forms import ChoiceLabel, OfferedField, WholeNumberField
from portal.dashboard.records.refusals import RecordForm
from provisioning.common.errors import InvalidInputError
from provisioning.network import addressing
from provisioning.network.models import AddressGroup, SecurityGroup
from provisioning.network.records import flows
from provisioning.network.records.flows import Flow
from provisioning.network.services import RequestedRule

OWN = "own"
MEMBERS = "members"
VERSIONS = ("IPv4", "IPv6")
ECHO_REQUEST = {"IPv4": 8, "IPv6": 128}
_PORTS = re.compile(r"([0-9]{1,5})(?:\s*[-:]\s*([0-9]{1,5}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Template:
    """Common rules: TCP ``ports``, ping, or all traffic."""

    title: str
    about: str
    ports: tuple[int, ...] = ()
    ping: bool = False


TEMPLATES = {
    "ssh": Template("SSH", "TCP 22: log in to Linux", (22,)),
    "web": Template("Web", "TCP 80 and 443: HTTP and HTTPS", (80, 443)),
    "ping": Template("Ping", "ICMP echo request", ping=True),
    "rdp": Template("RDP", "TCP 3389: log in to Windows", (3389,)),
    "mysql": Template("MySQL", "TCP 3306: also MariaDB", (3306,)),
    "postgresql": Template("PostgreSQL", "TCP 5432", (5432,)),
    MEMBERS: Template("All from this group", "Any traffic between members"),
    OWN: Template("Own rule", "Any protocol, ports, direction"),
}


def flows_of(key: str) -> list[Flow]:
    """Return the traffic that a template allows from any address."""
    prefixes = {"IPv4": "0.0.0.0/0", "IPv6": "::/0"}
    return [
        flows.checked(direction, version, protocol, low, high, prefixes[version])
        for version in VERSIONS
        for direction, protocol, low, high in _parts(key, version)
    ]


def _parts(key: str, version: str) -> list[tuple[str, str | None, int | None, int | None]]:
    template = TEMPLATES[key]
    if template.ping:
        return [("ingress", "icmp" if version == "IPv4" else "ipv6-icmp", ECHO_REQUEST[version], None)]
    return [("ingress", "tcp", port, port) for port in template.ports] or [("ingress", None, None, None)]


REMOTES = (
    ("anywhere", ChoiceLabel("Anywhere", "0.0.0.0/0 and ::/0")),
    ("range", ChoiceLabel("A range of addresses")),
    ("group", ChoiceLabel("Members of a security group")),
    ("address_group", ChoiceLabel("The addresses of an address group")),
)


class GroupForm(RecordForm):
    """Name, description and statefulness."""

    notes = {"description": "for people"}

    name = forms.CharField(max_length=255, widget=forms.TextInput({"placeholder": "web-servers"}))
    description = forms.CharField(max_length=255, required=False)
    stateful = forms.BooleanField(
        required=False,
        initial=True,
        help_text="Reply traffic is allowed automatically. If off, each direction needs its own rules.",
    )


class RuleForm(RecordForm):
    """A template or a complete rule, and the remote; all errors are shown together."""

    service_fields = {
        "port_range_min": "ports",
        "port_range_max": "ports",
        "remote_ip_prefix": "cidr",
        "remote_group_id": "group",
        "remote_address_group_id": "address_group",
    }
    notes = {"protocol": "a name or a number; any means all", "ports": "empty means all", "cidr": ""}
    focuses = False

    template = forms.ChoiceField(
        label="Rule",
        choices=[(key, ChoiceLabel(each.title, each.about)) for key, each in TEMPLATES.items()],
        initial="ssh",
        widget=forms.RadioSelect,
    )
    direction = forms.ChoiceField(
        choices=[("ingress", "Inbound: to the members"), ("egress", "Outbound: from the members")], required=False
    )
    protocol = forms.CharField(
        max_length=40, required=False, widget=forms.TextInput({"placeholder": "tcp", "list": "protocols"})
    )
    ports = forms.CharField(max_length=20, required=False, widget=forms.TextInput({"placeholder": "443 or 8000-8010"}))
    icmp_type = WholeNumberField(label="ICMP type", max_value=255, required=False)
    icmp_code = WholeNumberField(label="ICMP code", max_value=255, required=False)
    ethertype = forms.ChoiceField(
        label="IP version", choices=[("", "IPv4 and IPv6"), ("IPv4", "IPv4"), ("IPv6", "IPv6")], required=False
    )
    remote = forms.ChoiceField(
        label="Remote", choices=REMOTES, initial="anywhere", required=False, widget=forms.RadioSelect
    )
    cidr = forms.CharField(
        label="Address range",
        max_length=64,
        required=False,
        widget=forms.TextInput({"placeholder": "198.51.100.0/24"}),
    )
    group = OfferedField(label="Security group", required=False, widget=forms.Select)
    address_group = OfferedField(label="Address group", required=False, widget=forms.Select)
    description = forms.CharField(max_length=255, required=False)

    def __init__(
        self,
        data: QueryDict | None,
        *,
        initial: dict[str, Any],
        groups: Sequence[SecurityGroup],
        address_groups: Sequence[AddressGroup],
    ) -> None:
        super().__init__(data, initial=initial)
        self.groups, self.address_groups = groups, address_groups
        self.offer("group", [(str(each.id), str(each)) for each in groups])
        self.offer("address_group", [(str(each.id), str(each)) for each in address_groups])
        if not address_groups:
            self.fields["remote"].choices = REMOTES[:-1]  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        """Check protocol, ports and remote separately."""
        typed = super().clean() or self.cleaned_data
        typed["remote"] = "itself" if typed.get("template") == MEMBERS else typed.get("remote") or "anywhere"
        self._clean_remote(typed)
        if typed.get("template") == OWN:
            self._clean_flow(typed)
        return typed

    def _clean_remote(self, typed: dict[str, Any]) -> None:
        kind = typed["remote"]
        if kind == "range":
            text = typed.get("cidr", "")
            try:
                typed["range"] = addressing.read_prefix(text, loose=True).cidr
            except ValueError:
                self.add_error("cidr", "Enter a range such as 198.51.100.0/24, or one address.")
        elif kind in {"group", "address_group"}:
            offered: Sequence[SecurityGroup | AddressGroup] = self.groups if kind == "group" else self.address_groups
            group = next((each for each in offered if str(each.id) == typed.get(kind)), None)
            if group is None:
                self.add_error(kind, "Choose one of the groups.")
            typed["chosen"] = group

    def _clean_flow(self, typed: dict[str, Any]) -> None:
        number: int | None = None
        if not typed.get("protocol"):
            self.add_error("protocol", "Enter a protocol: tcp, udp, icmp, a number, or any.")
        try:
            typed["protocol"] = flows.protocol_of(typed.get("protocol"))
            number = flows.number_of(typed["protocol"], "IPv6" if typed.get("ethertype") == "IPv6" else "IPv4")
        except InvalidInputError:
            self.add_error("protocol", "Unknown protocol. Enter tcp, udp, icmp, any, or a number up to 255.")
        typed["low"] = typed["high"] = None
        if text := typed.get("ports", ""):
            match = _PORTS.fullmatch(text)
            if match is None:
                self.add_error("ports", "Enter one port, or a range such as 8000-8010.")
            else:
                typed["low"], typed["high"] = int(match[1]), int(match[2] or match[1])
        if number in {1, 58}:
            if text:
                self.add_error("ports", "ICMP has types and codes instead of ports.")
            typed["low"], typed["high"] = typed.get("icmp_type"), typed.get("icmp_code")
        elif typed.get("icmp_type") is not None or typed.get("icmp_code") is not None:
            self.add_error("icmp_type", "Types and codes are only for ICMP.")
        if not self.errors:
            try:
                self._flows(typed)
            except InvalidInputError as error:
                field = "icmp_type" if number in {1, 58} and str(error.field).startswith("port_range") else ""
                self.add_error(field, self.message_of(error)) if field else self.refuse(error)

    def rules_for(self, group: SecurityGroup) -> list[RequestedRule]:
        """Return the rules of a valid form, for both IP versions unless one is chosen."""
        typed = self.cleaned_data
        remote_group = group if typed["remote"] == "itself" else None
        addresses = None
        if typed["remote"] == "group":
            remote_group = typed["chosen"]
        elif typed["remote"] == "address_group":
            addresses = typed["chosen"]
        return [
            RequestedRule(group, flow, remote_group, addresses, typed.get("description", ""))
            for flow in self._flows(typed)
        ]

    def _flows(self, typed: dict[str, Any]) -> list[Flow]:
        """Return the flows. Raises InvalidInputError for combinations that are invalid."""
        result = []
        for version in self._versions(typed):
            prefix = None
            if typed["remote"] == "range":
                prefix = str(typed["range"])
            elif typed["remote"] == "anywhere":
                prefix = "0.0.0.0/0" if version == "IPv4" else "::/0"
            result += [
                flows.checked(direction, version, protocol, low, high, prefix)
                for direction, protocol, low, high in self._parts(typed, version)
            ]
        return result

    def _versions(self, typed: dict[str, Any]) -> Sequence[str]:
        ethertype = typed.get("ethertype") if typed["template"] == OWN else ""
        if ethertype:
            return (ethertype,)
        if typed["remote"] == "range":
            return (f"IPv{typed['range'].version}",)
        protocol = str(typed.get("protocol") or "") if typed["template"] == OWN else ""
        if protocol.startswith(("icmpv6", "ipv6")):
            return ("IPv6",)
        return VERSIONS

    @staticmethod
    def _parts(typed: dict[str, Any], version: str) -> list[tuple[str, str | None, int | None, int | None]]:
        if typed["template"] == OWN:
            return [(typed.get("direction") or "ingress", typed["protocol"], typed["low"], typed["high"])]
        return _parts(typed["template"], version)
