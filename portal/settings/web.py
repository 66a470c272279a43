"""Web: addresses, processes and limits."""

import os

from provisioning.common.environment import flag, folder, integer, names, text, web_address
from provisioning.common.settings import BASE_DIR, DEBUG, PORTAL_DIR

PORT = integer("NOVELLA_PORT", 8000, 1, 65535)
"""The port that web listens on."""
PUBLIC_URL = web_address("NOVELLA_PUBLIC_URL").rstrip("/")
"""The address that clients use, such as ``https://cloud.example.org``. The service catalog, version documents, links,
addresses of consoles and files for clients are built from it. Without this setting, addresses use the host name of each
request (one of ``NOVELLA_ALLOWED_HOSTS``). So a cloud with several names, or behind a tunnel, gives each client
addresses that the client can reach.
"""
ALLOWED_HOSTS = names("NOVELLA_ALLOWED_HOSTS", ["127.0.0.1", "localhost", "[::1]"])
"""Names under which web answers, separated by commas; requests for other names get 400. ``*`` allows every name; then
set ``NOVELLA_PUBLIC_URL``.
"""
CSRF_TRUSTED_ORIGINS = names("NOVELLA_TRUSTED_ORIGINS", [])
"""Origins of forms behind a proxy, such as ``https://cloud.example.org``."""
SECURE_COOKIES = flag(
    "NOVELLA_SECURE_COOKIES", default=PUBLIC_URL.startswith("https://"), shown="true for an https address"
)
"""Send cookies over https only."""
SECURE_HSTS_SECONDS = integer(
    "NOVELLA_HSTS_SECONDS",
    2_592_000 if PUBLIC_URL.startswith("https://") else 0,
    0,
    63_072_000,
    shown="2592000 for an https address, else 0",
)
"""How long browsers use only https after a visit, in seconds (``Strict-Transport-Security``); with 0 the header is not
sent.
"""
REGION = text("NOVELLA_REGION", "RegionOne")
"""The region of the cloud's own endpoints in the service catalog. After a change, ``bootstrap`` moves these endpoints
to the new region, as ``bin/up`` does. ``bootstrap`` also restores the cloud's own services and endpoints if they were
deleted: disable them instead.
"""
STATIC_ROOT = folder("NOVELLA_STATIC_ROOT", PORTAL_DIR / "static", shown="`static/` in the portal's folder")
"""Collected files of the dashboard."""
MOST_WEB_PROCESSES = 64
WEB_PROCESSES = integer(
    "NOVELLA_WEB_PROCESSES",
    min(len(os.sched_getaffinity(0)), 4),
    1,
    MOST_WEB_PROCESSES,
    shown="one for each core, up to 4",
)
"""Processes that serve web's one port; each additional one needs some 30 MiB. With two of them web, one worker group
and the supervisor need about 290 MiB when idle (PSS).
"""
CONNECTIONS_PER_ADDRESS = integer("NOVELLA_CONNECTIONS_PER_ADDRESS", 4096, 1, 1_000_000)
"""Concurrent connections of one address (of IPv6, one /64) to each web process; an additional one is reset. A proxy in
front has a single address for all its clients: raise the limit accordingly.
"""
UNSENT_PER_ADDRESS = integer("NOVELLA_UNSENT_PER_ADDRESS", 64 << 20, 1 << 20, 1 << 40)
"""Bytes of responses that each web process buffers for the clients at one address, and four times the limit for all
addresses together; above it, the connections with the largest buffers are closed. A download counts at most 256 KiB,
whatever its size.
"""
READ_TIMEOUT = integer("NOVELLA_READ_TIMEOUT", 60, 1, 86_400)
"""Seconds within which a client must read 16 KiB of a waiting response; slower clients are disconnected."""
SOCKETS_PER_USER = integer("NOVELLA_SOCKETS_PER_USER", 50, 1, 100_000)
"""Concurrent WebSockets of one user (live pages, consoles, scripts), on each machine that runs web; an additional one
is closed with 4429.
"""
SOCKETS_PER_SESSION = integer("NOVELLA_SOCKETS_PER_SESSION", 20, 1, 100_000)
"""Concurrent WebSockets of one session: a browser, a token, an application credential."""
CONSOLE_TOKEN_TTL = integer("NOVELLA_CONSOLE_TOKEN_TTL", 600, 10, 86_400)
"""Seconds within which the address of a remote console must be opened; it works once."""
CONSOLE_IDLE_TIMEOUT = integer("NOVELLA_CONSOLE_IDLE_TIMEOUT", 1800, 0, 86_400)
"""Seconds without a byte in either direction after which an open console is closed; 0: never."""
CONSOLES_PER_USER = integer("NOVELLA_CONSOLES_PER_USER", 16, 1, 10_000)
"""Concurrent consoles of one user, on each machine that runs web. Each host additionally limits its consoles to 64 in
total and to 16 of one user.
"""
TUNNELS_PER_USER = integer("NOVELLA_TUNNELS_PER_USER", 32, 1, 100_000)
"""Concurrent connections of one user to ports of guests ([tunnels](operator-guide.md#tunnels-to-guests)), on each
machine that runs web.
"""
TUNNEL_IDLE_TIMEOUT = integer("NOVELLA_TUNNEL_IDLE_TIMEOUT", 3600, 0, 604_800)
"""Seconds without a byte in either direction after which a connection to a port of a guest is closed; 0: never."""

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "portal.common.front_end.npm_finder.NpmFinder",
    "portal.common.front_end.bundles.BundleFinder",
]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}
WHITENOISE_USE_FINDERS = DEBUG

DATA_UPLOAD_MAX_MEMORY_SIZE = 1_048_576
"""Bytes of a request body that is not an image upload."""
DATA_UPLOAD_MAX_NUMBER_FILES = 0
"""No form uploads files."""
