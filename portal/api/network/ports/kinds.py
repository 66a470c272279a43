"""Kinds of values that only ports have."""

from dataclasses import dataclass

from portal.api.common.validation import Schema
from portal.api.network.frame.kinds import ADDRESS, CIDR, MAC, Kind, Many, Record, Text, quoted


@dataclass(frozen=True)
class PairAddress(Kind):
    """An address or a range."""

    @property
    def schema(self) -> Schema:
        return {"type": "string"}

    def read(self, value: object) -> str:
        return CIDR.read(value) if isinstance(value, str) and "/" in value else ADDRESS.read(value)


@dataclass(frozen=True)
class OptionValue(Text):
    """What a DHCP option says, on one line."""

    shortest: int = 1

    def read(self, value: object) -> str:
        found = super().read(value)
        if not found.isprintable():
            raise ValueError(f"{quoted(value)} has characters that cannot be printed")
        return found


OPTION_NAME = Text(64, 1)
"""A name or a number; which there are is the service's to say."""
PAIRS = Many(Record({"ip_address": PairAddress(), "mac_address": MAC}, required=("ip_address",)), most=10, null=True)
"""As many as Neutron's ``max_allowed_address_pair``."""
