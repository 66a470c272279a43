"""The networks of the cloud, as an operator reads them from the API, and the packets that must pass according to them.

The records are interpreted as Neutron's API documents them; none of the product's own logic is used. IPv4 only.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LISTS = ("networks", "subnets", "ports", "routers", "floatingips", "security-groups", "security-group-rules")
INTERFACE, GATEWAY, GUEST = "network:router_interface", "network:router_gateway", "compute:"
HOSTS_OWN = "network:floatingip_agent_gateway"
"""The owner of a host's own port on the external network. Guests without a floating IP are seen outside with its
address.
"""
NUMBERS = {"icmp": "1", "tcp": "6", "udp": "17"}
ANYWHERE = {None, "", "0.0.0.0/0"}

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Flow:
    """The protocol and destination port of a new connection: TCP or UDP, or ICMP (port 0)."""

    protocol: str
    port: int = 0

    def __str__(self) -> str:
        return f"{self.protocol.upper()} {self.port}" if self.port else self.protocol.upper()


PING = Flow("icmp")


@dataclass(frozen=True)
class End:
    """An address of a guest's interface."""

    port: Row
    address: str

    @property
    def network(self) -> str:
        return str(self.port["network_id"])

    @property
    def server(self) -> str:
        return str(self.port["device_id"])


class Picture:
    """The records of one moment, by the names of their lists in the API."""

    def __init__(self, records: Mapping[str, Sequence[Row]]) -> None:
        """``records`` has a list for each name in ``LISTS``; floating IPs contain their port forwardings."""
        self.networks = {row["id"]: row for row in records["networks"]}
        self.subnets = {row["id"]: row for row in records["subnets"]}
        self.ports = {row["id"]: row for row in records["ports"]}
        self.routers = {row["id"]: row for row in records["routers"]}
        self.floating = list(records["floatingips"])
        self.rules: dict[str, list[Row]] = {row["id"]: [] for row in records["security-groups"]}
        for rule in records["security-group-rules"]:
            self.rules.setdefault(rule["security_group_id"], []).append(rule)

    # ----- ends -----------------------------------------------------------------------------------------------------

    def ends(self) -> Iterator[End]:
        """Yield the addresses of all guests."""
        for port in self.ports.values():
            if port["device_owner"].startswith(GUEST):
                yield from (
                    End(port, each["ip_address"]) for each in port["fixed_ips"] if ":" not in each["ip_address"]
                )

    def end(self, port: str, address: str) -> End | None:
        """Return a port's end with this address."""
        return next((each for each in self.ends() if (each.port["id"], each.address) == (port, address)), None)

    def subnet(self, end: End) -> Row:
        """Return the subnet of the end's address."""
        return next(
            self.subnets[each["subnet_id"]] for each in end.port["fixed_ips"] if each["ip_address"] == end.address
        )

    # ----- ways -----------------------------------------------------------------------------------------------------

    def way_out(self, end: End) -> Row | None:
        """Return the router that forwards an end's packets to other networks; None if there is none, or if it
        is down.
        """
        gateway = self.subnet(end)["gateway_ip"]
        for leg in self.ports.values():
            here = leg["device_owner"] == INTERFACE and leg["network_id"] == end.network
            if here and any(each["ip_address"] == gateway for each in leg["fixed_ips"]):
                router = self.routers.get(leg["device_id"])
                return router if router is not None and router["admin_state_up"] else None
        return None

    def joined(self, network: str) -> set[str]:
        """Return the networks that routers in service connect to a network, including the network itself."""
        legs = [each for each in self.ports.values() if each["device_owner"] == INTERFACE]
        near = {each["device_id"] for each in legs if each["network_id"] == network}
        near = {each for each in near if each in self.routers and self.routers[each]["admin_state_up"]}
        return {network} | {each["network_id"] for each in legs if each["device_id"] in near}

    def is_routed(self, source: End, target: End) -> bool:
        """Return whether packets are routed from one end to the other and back; security groups are not considered."""
        if not self._up(source) or not self._up(target):
            return False
        if source.network == target.network:
            return True
        there, back = self.way_out(source), self.way_out(target)
        return there is not None and back is not None and there["id"] == back["id"]

    def _up(self, end: End) -> bool:
        return bool(end.port["admin_state_up"] and self.networks[end.network]["admin_state_up"])

    def passes(self, source: End, target: End, flow: Flow) -> bool:
        """Return whether the source must be able to open a connection to the target at its fixed address."""
        return (
            self.is_routed(source, target)
            and self.permits(source, "egress", flow, target.address)
            and self.permits(target, "ingress", flow, source.address)
        )

    # ----- outside --------------------------------------------------------------------------------------------------

    def external_router_of(self, end: End) -> Row | None:
        """Return the router that connects an end to the external network, None if there is none."""
        router = self.way_out(end)
        return router if router is not None and router["external_gateway_info"] and self._up(end) else None

    def floating_of(self, end: End) -> Row | None:
        """Return the floating IP of an end."""
        for row in self.floating:
            if (row["port_id"], row["fixed_ip_address"]) == (end.port["id"], end.address):
                return row
        return None

    def enters(self, floating: Row, target: End, flow: Flow, outside: str) -> bool:
        """Return whether a client with the external address ``outside`` must reach ``flow`` of a guest by its floating
        IP.
        """
        router = self.external_router_of(target)
        return (
            router is not None
            and router["id"] == floating["router_id"]
            and self.permits(target, "ingress", flow, outside)
        )

    def leaves(self, end: End, flow: Flow, outside: str) -> set[str]:
        """Return the addresses that a guest may have as a source in the external network. If the set is empty, its
        packets must not arrive there.
        """
        router = self.external_router_of(end)
        if router is None or not self.permits(end, "egress", flow, outside):
            return set()
        floating = self.floating_of(end)
        if floating is not None and floating["router_id"] == router["id"]:
            return {floating["floating_ip_address"]}
        way = router["external_gateway_info"]
        if not way.get("enable_snat", True):
            return set()
        return {
            each["ip_address"]
            for port in self.ports.values()
            if port["network_id"] == way["network_id"]
            and (
                port["device_owner"] == HOSTS_OWN
                or (port["device_owner"], port["device_id"]) == (GATEWAY, router["id"])
            )
            for each in port["fixed_ips"]
        }

    # ----- rules ----------------------------------------------------------------------------------------------------

    def permits(self, end: End, direction: str, flow: Flow, remote: str) -> bool:
        """Return whether the security groups of an end allow a flow from or to a remote address."""
        if not end.port["port_security_enabled"]:
            return True
        rules = [rule for group in end.port["security_groups"] for rule in self.rules[group]]
        return any(
            rule["direction"] == direction
            and rule["ethertype"] == "IPv4"
            and _carries(rule, flow)
            and self._is_from(rule, end, remote)
            for rule in rules
        )

    def _is_from(self, rule: Row, end: End, remote: str) -> bool:
        if rule["remote_group_id"]:
            return remote in self.members(rule["remote_group_id"], end)
        prefix = rule["remote_ip_prefix"]
        return prefix in ANYWHERE or ipaddress.ip_address(remote) in ipaddress.ip_network(prefix)

    def members(self, group: str, end: End) -> set[str]:
        """Return the addresses of a group's members that a rule of ``end`` can match: only members on the end's network
        and on networks that are connected to it.
        """
        near = self.joined(end.network)
        return {
            each.address
            for each in self.ends()
            if group in each.port["security_groups"]
            and each.port["port_security_enabled"]
            and each.network in near
            and each.port["id"] != end.port["id"]
        }


def _carries(rule: Row, flow: Flow) -> bool:
    protocol = rule["protocol"]
    if protocol in {None, "", "any", "0"}:
        return True
    if NUMBERS.get(str(protocol), str(protocol)) != NUMBERS[flow.protocol]:
        return False
    if flow == PING:
        return rule["port_range_min"] in {None, 8}
    if rule["port_range_min"] is None:
        return True
    return int(rule["port_range_min"]) <= flow.port <= int(rule["port_range_max"])
