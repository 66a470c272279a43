"""Addresses of remote consoles: pages for browsers, sockets for programs."""

from urllib.parse import quote

SOCKET = "ws/console"
PAGES = {"vnc": "/console/vnc", "serial": "/console/serial"}


def page_path(protocol: str, token: str) -> str:
    """Return the path of a console's page; its parameter ``path`` is the path of the console's WebSocket, as in noVNC's
    own page.
    """
    return f"{PAGES[protocol]}?path={quote(f'{SOCKET}?token={token}', safe='')}"


def socket_url(base: str, token: str) -> str:
    """Return the WebSocket address of a console, for serial console clients; ``base`` is the cloud's address."""
    scheme, _, rest = base.partition("://")
    return f"{'wss' if scheme == 'https' else 'ws'}://{rest}/{SOCKET}?token={token}"


def client_url(base: str, protocol: str, token: str) -> str:
    """Return the URL for the Compute API: a page for a graphical console, a socket for a serial one."""
    return socket_url(base, token) if protocol == "serial" else base + page_path(protocol, token)
