"""Guests' interfaces as the tests of the filters plug them in, and what they ask of each other."""

from __future__ import annotations

import socket
from collections.abc import Callable

from tests.host.cast import Wish
from tests.host.lab import (
    PATIENCE,
    Interface,
    dhcp_discover,
    dhcp_offer,
)

Plug = Callable[[Wish], Interface]


STRANGER = "fa:16:3e:66:66:66"


def serve(interface: Interface, port: int) -> socket.socket:
    return interface.space.listens(interface.address, port)


def ready(plug: Plug, wish: Wish) -> Interface:
    interface = plug(wish)
    interface.configure()
    return interface


def offered(interface: Interface, hardware: str | None = None) -> str | None:
    interface.drain()
    interface.send(dhcp_discover(hardware or interface.port.mac_address))
    frame = interface.hears(lambda got: dhcp_offer(got) is not None, 1.5 if hardware else PATIENCE)
    return dhcp_offer(frame) if frame else None
