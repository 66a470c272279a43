"""Addresses of remote consoles: pages for people, sockets for programs."""

from urllib.parse import quote

SOCKET = "ws/console"
PAGES = {"vnc": "/console/vnc", "serial": "/console/serial"}


def page_path(protocol: str, token: str) -> str:
    """Return the page that shows a console; ``path`` names the socket behind it, as noVNC's own page has it."""
    return f"{PAGES[protocol]}?path={quote(f'{SOCKET}?token={token}', safe='')}"


def socket_url(base: str, token: str) -> str:
    """Return the WebSocket of a console, for programs that speak to a serial line; ``base``: the cloud's address."""
    scheme, _, rest = base.partition("://")
    return f"{'wss' if scheme == 'https' else 'ws'}://{rest}/{SOCKET}?token={token}"


def client_url(base: str, protocol: str, token: str) -> str:
    """Return what the Compute API answers: a page for a screen, a socket for a serial line."""
    return socket_url(base, token) if protocol == "serial" else base + page_path(protocol, token)
