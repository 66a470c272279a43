"""The underlay: the network between hosts that carries guests' networks."""

import contextlib
import ipaddress
import socket
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import urlsplit

from compute_agent.network.kernel import links, namespace
from compute_agent.settings import AgentSettings
from compute_agent.virt.errors import RetryableHostError

T = TypeVar("T")

VXLAN_OVERHEAD = {4: 50, 6: 70}
"""Bytes of the outer Ethernet, IP, UDP and VXLAN headers, by IP version (RFC 7348)."""


class Underlay:
    """This host's address on the underlay, in the machine's own namespace."""

    def __init__(self, settings: AgentSettings, original: int | None) -> None:
        """``original`` is the machine's namespace if the agent has left it."""
        self._settings = settings
        self.namespace = original
        self.agent = settings.netns

    def address(self) -> str:
        """Return the address at which other hosts reach this host: the setting, or else the address of the route to the
        portal.

        Raises RetryableHostError if there is none.
        """
        if self._settings.underlay_address:
            return self._settings.underlay_address
        try:
            return self.inside(self._facing_portal)
        except OSError as error:
            raise RetryableHostError(
                "The host has no address at which other hosts reach it.", detail=str(error)
            ) from error

    def room(self, address: str) -> int | None:
        """Return the MTU that is left for guests' packets; None if no interface has the address."""
        version = ipaddress.ip_address(address).version
        mtu = self.inside(lambda: _mtu_of(address))
        return None if mtu is None else mtu - VXLAN_OVERHEAD[version]

    def inside(self, work: Callable[[], T]) -> T:
        """Run ``work`` in the machine's own namespace; see ``namespace.open_in``."""
        return work() if self.namespace is None else namespace.open_in(self.namespace, work)

    def _facing_portal(self) -> str:
        url = urlsplit(self._settings.portal_url)
        target = (url.hostname or "", url.port or 80)
        family, kind, *_, found = socket.getaddrinfo(*target, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(found)  # sends nothing
            return str(probe.getsockname()[0])


def _mtu_of(address: str) -> int | None:
    with links.netlink("look at its own interfaces") as route, contextlib.suppress(StopIteration):
        row = next(row for row in route.get_addr() if row.get_attr("IFA_ADDRESS") == address)
        return int(route.get_links(row["index"])[0].get_attr("IFLA_MTU"))
    return None
