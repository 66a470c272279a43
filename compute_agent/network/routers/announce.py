"""Announces addresses of routers and external networks several times."""

from collections.abc import Callable, Collection

from compute_agent.network.kernel.announcing import announce
from compute_agent.network.routers.records import Leg
from compute_agent.virt.errors import RetryableHostError

TIMES = 3
"""Number of announcements of a new address."""

Inside = Callable[[str, Callable[[], None]], None]
"""Runs work in the namespace with this name."""


class Announcements:
    """Announces new addresses immediately, and again with the next checks, in case packets were lost.

    An address that has moved to another host is no longer announced here.
    """

    def __init__(self) -> None:
        self._left: dict[tuple[str, str, str], dict[str, int]] = {}
        """Namespace, interface and MAC address → remaining announcements of each address."""

    def add(self, inside: Inside, space: str, leg: Leg, addresses: frozenset[str]) -> None:
        """Announce these addresses on a leg of the namespace ``space``."""
        if addresses:
            inside(space, lambda: announce(leg.name, leg.mac, addresses))
            self._left.setdefault((space, leg.name, leg.mac), {}).update(dict.fromkeys(addresses, TIMES - 1))

    def keep_only(self, space: str, interface: str, addresses: Collection[str]) -> None:
        """Stop announcing all addresses on this interface except ``addresses``: other addresses are no longer on this
        host.
        """
        for (name, on, _), left in self._left.items():
            if (name, on) == (space, interface):
                for gone in left.keys() - set(addresses):
                    del left[gone]

    def keep_only_spaces(self, spaces: Collection[str]) -> None:
        """Discard announcements of other namespaces, which no longer exist."""
        self._left = {key: left for key, left in self._left.items() if key[0] in spaces}

    def again(self, inside: Inside) -> None:
        """Repeat announcements that were not sent ``TIMES`` times."""
        for key, left in list(self._left.items()):
            space, name, mac = key
            addresses = frozenset(left)
            self._left[key] = {address: times - 1 for address, times in left.items() if times > 1}
            if not self._left[key]:
                del self._left[key]
            if not addresses:
                continue
            try:
                inside(space, lambda name=name, mac=mac, addresses=addresses: announce(name, mac, addresses))  # type: ignore[misc]
            except RetryableHostError:  # deleted
                self._left.pop(key, None)
