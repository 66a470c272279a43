"""Kinds of values that only security group rules have."""

from dataclasses import dataclass
from typing import Any

from portal.api.common.validation import Schema
from portal.api.network.dialect.kinds import Choice, Identity, Integer, Kind, Text, quoted
from provisioning.common.ids import read_id
from provisioning.network.errors import SecurityGroupInvalidPortValueError, SecurityGroupRuleInvalidEtherTypeError
from provisioning.network.records import flows

DIRECTION = Choice(("ingress", "egress"))


@dataclass(frozen=True)
class Ethertype(Kind):
    """IPv4 or IPv6, case-insensitive."""

    @property
    def schema(self) -> Schema:
        return {"enum": ["IPv4", "IPv6"]}

    def read(self, value: object) -> str:
        found = {"ipv4": "IPv4", "ipv6": "IPv6"}.get(str(value).lower())
        if found is None:
            msg = (
                f"Security group rule for ethertype {quoted(value)} not supported. Allowed values are ['IPv4', 'IPv6']."
            )
            raise SecurityGroupRuleInvalidEtherTypeError(msg, field="ethertype")
        return found


@dataclass(frozen=True)
class PortNumber(Integer):
    """A port, or an ICMP type or code; the service checks the valid range of the protocol."""

    lowest: int = 0
    highest: int = flows.HIGHEST_PORT

    def read(self, value: object) -> int:
        try:
            return super().read(value)
        except ValueError:
            msg = f"Invalid value for port {str(value)[:64]}"
            raise SecurityGroupInvalidPortValueError(msg, field="port_range_min") from None


@dataclass(frozen=True)
class GroupReference(Identity):
    """The id of a security or address group. Text that is not a UUID is accepted, and the group is then not found."""

    def read(self, value: object) -> Any:
        return read_id(value) or Text(36).read(value)


@dataclass(frozen=True)
class Protocol(Kind):
    """The name or the number of a protocol; null and "any" mean all protocols."""

    @property
    def schema(self) -> Schema:
        return {"type": ["string", "integer", "null"]}

    def read(self, value: object) -> str | None:
        if value is not None and (isinstance(value, bool) or not isinstance(value, str | int)):
            raise ValueError(f"{quoted(value)} is not a protocol")
        return flows.protocol_of(value)


ETHERTYPE, PROTOCOL, PORT_NUMBER, REFERENCE = Ethertype(), Protocol(), PortNumber(), GroupReference()
