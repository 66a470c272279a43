"""Names of network namespaces and interfaces, and addresses, for several hosts on one machine (see ``up.switch``)."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

UNDERLAY, EXTERNAL = "underlay0", "external0"
"""Interfaces of a host, and the bridges of the switch that they are connected to."""
MOST_HOSTS = 50


@dataclass(frozen=True)
class Places:
    """Hosts 1 to ``MOST_HOSTS``. The names of all namespaces begin with ``name``, which is unique on this machine."""

    name: str
    underlay: str = "192.0.2.0/24"
    """Host 7 has the seventh address."""
    outside: tuple[str, ...] = ("203.0.113.1/24", "2001:db8:113::1/64")
    """Addresses of the namespace ``world``, with prefix lengths. They can be gateways of the external network's
    subnets.
    """

    def machine(self, number: int) -> str:
        """Return the namespace that represents a host."""
        return f"{self.name}-{number}"

    def guests(self, number: int) -> str:
        """Return the namespace that the host's agent creates for bridges and guests."""
        return f"{self.machine(number)}-guests"

    @property
    def middle(self) -> str:
        """Return the namespace of the switch itself."""
        return f"{self.name}-switch"

    @property
    def world(self) -> str:
        """Return the namespace of clients in the external network."""
        return f"{self.name}-outside"

    def underlay_address(self, number: int) -> str:
        return str(ipaddress.ip_network(self.underlay)[number])

    def agent_options(self, number: int) -> list[str]:
        """Return the agent's options for its host's namespaces, address and interface."""
        return [
            *("--netns", self.guests(number), "--machine-netns", self.machine(number)),
            *("--underlay-address", self.underlay_address(number), "--physical-networks", f"external:{EXTERNAL}"),
        ]
