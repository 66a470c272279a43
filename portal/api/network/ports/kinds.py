"""Kinds of values that only ports have."""

import re
from dataclasses import dataclass

import netaddr

from portal.api.common.validation import Schema
from portal.api.network.frame.kinds import ADDRESS, CIDR, MAC, Kind, Many, Record, Text, quoted

_OPTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}", re.ASCII)
LAST_OPTION = 254
"""The last number of an option (RFC 2132)."""
WIDEST = {4: 8, 6: 16}
"""By IP version, the shortest prefix of a range: a few wider ones together would be every address."""


@dataclass(frozen=True)
class PairAddress(Kind):
    """An address, or a range that is far from every address."""

    @property
    def schema(self) -> Schema:
        return {"type": "string"}

    def read(self, value: object) -> str:
        if not isinstance(value, str) or "/" not in value:
            return ADDRESS.read(value)
        found = CIDR.read(value)
        network = netaddr.IPNetwork(found)
        if network.prefixlen < WIDEST[network.version]:
            raise ValueError(
                f"{quoted(value)} is wider than /{WIDEST[network.version]}; "
                "switch port_security_enabled off to let the port send from every address"
            )
        return found


@dataclass(frozen=True)
class OptionName(Text):
    """The name or number of a DHCP option."""

    longest: int = 64
    shortest: int = 1

    def read(self, value: object) -> str:
        found = super().read(value)
        if not _OPTION.fullmatch(found) or (found.isdecimal() and not 1 <= int(found) <= LAST_OPTION):
            raise ValueError(f"{quoted(value)} is not a valid name of a DHCP option")
        return found


@dataclass(frozen=True)
class OptionValue(Text):
    """What a DHCP option says, on one line."""

    shortest: int = 1

    def read(self, value: object) -> str:
        found = super().read(value)
        if not found.isprintable():
            raise ValueError(f"{quoted(value)} has characters that cannot be printed")
        return found


PAIRS = Many(Record({"ip_address": PairAddress(), "mac_address": MAC}, required=("ip_address",)), most=10, null=True)
"""As many as Neutron's ``max_allowed_address_pair``."""
