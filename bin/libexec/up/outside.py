"""The external network of a new cloud: its physical network and the ranges of floating IPs."""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from up.places import Places
from up.programs import Hosts

MACHINE, EXTERNAL = "machine", "external"
"""Physical networks: the machine's own network, and the network of the external interfaces of hosts that ``--hosts``
creates.
"""
CUSTOMARY = "172.24.4.0/22"
"""The range that contains the /24 of floating IPs, if one in it is unused; DevStack's external network starts here,
too.
"""
SMALLEST = 29
"""The maximum prefix length of a range: it has six addresses, including one for the gateway and one for a router."""
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True)
class Outside:
    """The physical network, and its ranges with their gateways: ``172.24.4.1/24``."""

    physical_network: str
    gateways: tuple[str, ...]

    @classmethod
    def of(cls, hosts: Hosts, places: Places, asked: Network | None = None) -> Outside:
        """Return the external network of the hosts. If it is this machine's network, its range is ``asked``, or
        by default one to which this machine has no route.
        """
        if hosts.switched:
            return cls(EXTERNAL, places.outside)
        return cls(MACHINE, (first_of(asked or free_range(() if hosts.simulated else networks_around())),))

    def options(self) -> list[str]:
        """Return the arguments of ``manage.py bootstrap`` that describe the network."""
        ranges = [word for gateway in self.gateways for word in ("--external-range", gateway)]
        return ["--external-network", self.physical_network, *ranges]


def first_of(network: Network) -> str:
    """Return the first host address of a network with its prefix length: ``198.51.100.1/24``."""
    return f"{network[1]}/{network.prefixlen}"


def checked_range(text: str) -> Network:
    """Parse the value of ``--external-range``. Raises ValueError."""
    network = ipaddress.IPv4Network(text)
    if network.prefixlen > SMALLEST:
        message = f"/{network.prefixlen} is too small"
        raise ValueError(message)
    return network


def free_range(used: Iterable[Network]) -> Network:
    """Return the first candidate range that does not overlap any of ``used``; the first candidate if there is none."""
    taken = [network for network in used if network.version == 4]
    for candidate in _candidates():
        if not any(candidate.overlaps(network) for network in taken):
            return candidate
    return next(_candidates())


def _candidates() -> Iterator[ipaddress.IPv4Network]:
    yield from ipaddress.IPv4Network(CUSTOMARY).subnets(new_prefix=24)
    yield from ipaddress.IPv4Network("172.16.0.0/12").subnets(new_prefix=24)


def networks_around() -> list[Network]:
    """Return the networks that this machine has routes to.  Raises OSError, CalledProcessError."""
    machine = os.environ.get("NOVELLA_AGENT_MACHINE_NETNS")
    command = ["ip", "-j", *(["-n", machine] if machine else []), "route", "show"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    ranges = [each["dst"] for each in json.loads(shown or "[]") if each["dst"] != "default"]
    return [ipaddress.ip_network(each, strict=False) for each in ranges]
