"""Kinds of values that only security rules have."""

from dataclasses import dataclass

from portal.api.common.validation import Schema
from portal.api.network.frame.kinds import Choice, Integer, Kind, quoted
from provisioning.common.numbers import MAX_INTEGER
from provisioning.network import flows

DIRECTION = Choice(("ingress", "egress"))
PORT_NUMBER = Integer(-1, MAX_INTEGER)
"""Ports, types and codes; what each protocol has is the service's to say."""


@dataclass(frozen=True)
class Ethertype(Kind):
    """IPv4 or IPv6, in capitals or not."""

    @property
    def schema(self) -> Schema:
        return {"enum": ["IPv4", "IPv6"]}

    def read(self, value: object) -> str:
        found = {"ipv4": "IPv4", "ipv6": "IPv6"}.get(str(value).lower())
        if found is None:
            raise ValueError(f"{quoted(value)} is not in ['IPv4', 'IPv6']")
        return found


@dataclass(frozen=True)
class Protocol(Kind):
    """A name or a number; null and "any" are all of them."""

    @property
    def schema(self) -> Schema:
        return {"type": ["string", "integer", "null"]}

    def read(self, value: object) -> str | None:
        if value is not None and (isinstance(value, bool) or not isinstance(value, str | int)):
            raise ValueError(f"{quoted(value)} is not a protocol")
        return flows.protocol_of(value)


ETHERTYPE, PROTOCOL = Ethertype(), Protocol()
