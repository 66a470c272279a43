"""Security group rules: Neutron's protocol names, validation, and the comparison of two rules."""

from dataclasses import dataclass

from provisioning.network import addressing
from provisioning.network.errors import (
    InvalidCIDRError,
    SecurityGroupEthertypeConflictWithProtocolError,
    SecurityGroupInvalidIcmpValueError,
    SecurityGroupInvalidPortRangeError,
    SecurityGroupInvalidPortValueError,
    SecurityGroupInvalidProtocolForPortError,
    SecurityGroupMissingIcmpTypeError,
    SecurityGroupProtocolRequiredWithPortsError,
    SecurityGroupRuleInvalidProtocolError,
    SecurityGroupRuleParameterConflictError,
)

PROTOCOLS = {
    "ah": 51, "dccp": 33, "egp": 8, "esp": 50, "gre": 47, "icmp": 1, "icmpv6": 58, "igmp": 2, "ipip": 4,
    "ipv6-encap": 41, "ipv6-frag": 44, "ipv6-icmp": 58, "ipv6-nonxt": 59, "ipv6-opts": 60, "ipv6-route": 43,
    "ospf": 89, "pgm": 113, "rsvp": 46, "sctp": 132, "tcp": 6, "udp": 17, "udplite": 136, "vrrp": 112,
}  # fmt: skip
"""Protocol names of the Networking API and their numbers (IANA)."""
_ICMPV6 = {"icmp", "icmpv6", "ipv6-icmp", "1", "58"}
_V6_ONLY = {
    *(name for name in PROTOCOLS if name.startswith(("icmpv6", "ipv6-"))),
    *(str(number) for name, number in PROTOCOLS.items() if name.startswith("ipv6-")),
}
"""Names and numbers of protocols and extension headers that exist only in IPv6."""
PORTED = frozenset({6, 17, 33, 132, 136})
"""Numbers of the protocols that have ports."""
HIGHEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Flow:
    """A validated flow; ``prefix`` is in CIDR notation, in which host bits may be set."""

    direction: str
    ethertype: str = "IPv4"
    protocol: str | None = None
    port_min: int | None = None
    port_max: int | None = None
    prefix: str | None = None

    @property
    def number(self) -> int | None:
        """The protocol's number: ``tcp`` and ``6`` are equal, and ``icmp`` with IPv6 means ICMPv6."""
        return number_of(self.protocol, self.ethertype)

    @property
    def meaning(self) -> tuple[object, ...]:
        """The key by which flows are compared: two flows with equal keys allow the same traffic."""
        prefix = addressing.network_of(self.prefix) if self.prefix else None
        prefix = None if prefix in {"0.0.0.0/0", "::/0"} else prefix
        ports = (self.port_min, self.port_max)
        if self.number in PORTED and ports == (1, HIGHEST_PORT):
            ports = (None, None)
        return (self.direction, self.ethertype, self.number, *ports, prefix)


def number_of(protocol: str | None, ethertype: str) -> int | None:
    """Return a protocol's number; None means any protocol."""
    if protocol is None:
        return None
    if ethertype == "IPv6" and protocol in _ICMPV6:
        return PROTOCOLS["ipv6-icmp"]
    return PROTOCOLS[protocol] if protocol in PROTOCOLS else int(protocol)


def checked(
    direction: str,
    ethertype: str,
    protocol: str | int | None,
    port_min: int | None,
    port_max: int | None,
    prefix: str | None,
) -> Flow:
    """Return the validated flow; raises the errors of security group rules."""
    name = protocol_of(protocol)
    if ethertype == "IPv4" and name in _V6_ONLY:
        raise SecurityGroupEthertypeConflictWithProtocolError(
            f"Invalid ethertype {ethertype} for protocol {name}.", field="ethertype"
        )
    flow = Flow(direction, ethertype, name, port_min, port_max, _prefix(prefix, ethertype))
    _check_ports(flow)
    return flow


def protocol_of(value: str | int | None) -> str | None:
    """Return a protocol as it is stored: a known name in lower case, or a number as text; None means any protocol."""
    text = str(value).strip().lower() if value is not None else ""
    if text in {"", "any", "-1"}:
        return None
    if text in PROTOCOLS or (text.isascii() and text.isdigit() and len(text) <= 3 and int(text) <= 255):
        return text if text in PROTOCOLS else str(int(text))
    names = ", ".join(sorted(PROTOCOLS))
    msg = (
        f"Security group rule protocol {text[:40]} not supported. "
        f"Only protocol values [{names}] and integer representations [0 to 255] are supported."
    )
    raise SecurityGroupRuleInvalidProtocolError(msg, field="protocol")


def _prefix(text: str | None, ethertype: str) -> str | None:
    if not text:
        return None
    try:
        network = addressing.read_prefix(text, loose=True)
    except ValueError:
        raise InvalidCIDRError(f"Invalid CIDR {text[:64]} given as IP prefix.", field="remote_ip_prefix") from None
    if f"IPv{network.version}" != ethertype:
        msg = f"Conflicting value ethertype {ethertype} for CIDR {text[:64]}"
        raise SecurityGroupRuleParameterConflictError(msg, field="remote_ip_prefix")
    return str(network)


def _check_ports(flow: Flow) -> None:
    low, high = flow.port_min, flow.port_max
    if low is None and high is None:
        return
    number = flow.number
    if number is None:
        msg = "Must also specify protocol if port range is given."
        raise SecurityGroupProtocolRequiredWithPortsError(msg, field="port_range_min")
    if number in {PROTOCOLS["icmp"], PROTOCOLS["ipv6-icmp"]}:
        _check_icmp(low, high)
    elif number in PORTED:
        _check_range(low, high)
    else:
        msg = f"Invalid protocol {flow.protocol} for port range, only supported for TCP, UDP, UDPLITE, SCTP and DCCP."
        raise SecurityGroupInvalidProtocolForPortError(msg, field="protocol")


def _check_icmp(kind: int | None, code: int | None) -> None:
    for field, name, value in (("port_range_min", "type", kind), ("port_range_max", "code", code)):
        if value is not None and not 0 <= value <= 255:
            msg = f"Invalid value for ICMP {name} ({field}) {value}. It must be 0 to 255."
            raise SecurityGroupInvalidIcmpValueError(msg, field=field)
    if kind is None:
        msg = f"ICMP code (port-range-max) {code} is provided but ICMP type (port-range-min) is missing."
        raise SecurityGroupMissingIcmpTypeError(msg, field="port_range_min")


def _check_range(low: int | None, high: int | None) -> None:
    for field, value in (("port_range_min", low), ("port_range_max", high)):
        if value is not None and not 1 <= value <= HIGHEST_PORT:
            raise SecurityGroupInvalidPortValueError(f"Invalid value for port {value}", field=field)
    if low is None or high is None or low > high:
        msg = "For TCP/UDP protocols, port_range_min must be <= port_range_max"
        raise SecurityGroupInvalidPortRangeError(msg, field="port_range_min")
