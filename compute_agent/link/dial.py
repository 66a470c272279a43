"""Connections to the portal: addresses, and sockets in the network namespace that the agent was started in."""

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import Executor
from urllib.parse import urlsplit

from compute_agent.engine.threads import in_thread

CONNECT_TIMEOUT = 10.0

SocketOpener = Callable[[Callable[[], socket.socket]], socket.socket]
"""Calls the given function in the network namespace from which the portal is reachable. Returns the socket that the
function opened.
"""


def here(open_socket: Callable[[], socket.socket]) -> socket.socket:
    """Open the socket in the calling thread's namespace. Used by agents that have no namespace of their own."""
    return open_socket()


def link_url(portal_url: str) -> str:
    """Return the WebSocket URL of the agents' link."""
    scheme, rest = portal_url.split("://", 1)
    return f"{'wss' if scheme == 'https' else 'ws'}://{rest}/ws/agent"


def dial(portal_url: str, opener: SocketOpener) -> socket.socket:
    """Connect to the portal. Blocks for at most ``CONNECT_TIMEOUT`` seconds per address. Raises OSError."""
    url = urlsplit(portal_url)
    port = url.port or (443 if url.scheme == "https" else 80)

    def open_socket() -> socket.socket:
        return socket.create_connection((url.hostname, port), CONNECT_TIMEOUT)

    connected = opener(open_socket)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.settimeout(0)
    return connected


async def dial_in_thread(pool: Executor, portal_url: str, opener: SocketOpener) -> socket.socket:
    """Run ``dial`` in a thread of ``pool``. If the caller is cancelled, no connection stays open. Raises OSError."""
    opened: list[socket.socket] = []
    try:
        await in_thread(pool, lambda: opened.append(dial(portal_url, opener)))
    except asyncio.CancelledError:
        for each in opened:
            each.close()
        raise
    return opened[0]
