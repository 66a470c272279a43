"""Kinds of values that only ports have."""

from dataclasses import dataclass
from typing import Any

from portal.api.common.validation import Schema
from portal.api.network.dialect.kinds import ADDRESS, CIDR, ID, MAC, IPVersion, Kind, Many, OrNone, Record, Text, quoted
from provisioning.network.services.base.dhcp_options import BLANK


@dataclass(frozen=True)
class PairAddress(Kind):
    """An address or a range."""

    @property
    def schema(self) -> Schema:
        return {"type": "string"}

    def read(self, value: object) -> str:
        return CIDR.read(value) if isinstance(value, str) and "/" in value else ADDRESS.read(value)


@dataclass(frozen=True)
class Line(Text):
    """A single-line text."""

    def read(self, value: object) -> str:
        found = super().read(value)
        if len(found.splitlines()) > 1:
            raise ValueError(f"Multi-line string is not allowed: {quoted(value)}")
        return found


@dataclass(frozen=True)
class DhcpOption(Record):
    """A DHCP option; only options that an empty value disables may be empty."""

    def read(self, value: object) -> dict[str, Any]:
        found = super().read(value)
        given = found["opt_value"]
        if given is not None and not given.strip() and found["opt_name"] not in BLANK:
            raise ValueError(f"{quoted(given)} Blank strings are not permitted")
        return found


@dataclass(frozen=True)
class FixedIps(Many):
    """Addresses: several of one subnet are allowed, duplicates are rejected, and unknown fields are ignored."""

    distinct: bool = False
    null: bool = True

    def read(self, value: object) -> list[Any]:
        if isinstance(value, list):
            known = ("subnet_id", "ip_address")
            value = [
                {name: each[name] for name in known if name in each} if isinstance(each, dict) else each
                for each in value
            ]
        found = super().read(value)
        given = [each["ip_address"] for each in found if "ip_address" in each]
        twice = next((address for index, address in enumerate(given) if address in given[:index]), None)
        if twice is not None:
            raise ValueError(f"Duplicate IP address {quoted(twice)}")
        return found


FIXED_IPS = FixedIps(Record({"subnet_id": ID, "ip_address": ADDRESS}))
OPTIONS = Many(
    DhcpOption(
        {"opt_name": Line(64, 1), "opt_value": OrNone(Line()), "ip_version": IPVersion()},
        required=("opt_name", "opt_value"),
    ),
    most=20,
    null=True,
)
PAIRS = Many(Record({"ip_address": PairAddress(), "mac_address": MAC}, required=("ip_address",)), most=10, null=True)
"""The maximum is Neutron's ``max_allowed_address_pair``."""
