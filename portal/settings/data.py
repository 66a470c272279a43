"""Keys and the database."""

from portal.environment import database
from portal.settings.web import WEB_PROCESSES
from provisioning.common.environment import declare, integer
from provisioning.common.settings import PORTAL_DIR, ROLE

declare("NOVELLA_SECRET_KEY", shown="generated, in `secrets/`")
"""Signs sessions; the same on every web process."""
declare("NOVELLA_SECRET_KEY_FALLBACKS")
"""Previous keys of sessions, separated by commas, that are still accepted ([new keys](operator-guide.md#new-keys))."""
declare("NOVELLA_BUS_KEY", shown="generated, in `secrets/`")
"""Signs the messages of the queue; the same on every web process and worker."""
declare("NOVELLA_BUS_KEY_FALLBACKS")
"""Previous keys of the queue, separated by commas, that are still accepted."""

declare("NOVELLA_DATABASE_URL", shown="SQLite in the portal's folder")
"""``postgres://user:password@host/name`` for PostgreSQL; [with a standby](operator-guide.md#backup-and-restore) two
hosts.
"""
declare("NOVELLA_DATABASE_POOL", values="8 to 1000", shown="24; with three web processes 16, with four 12")
"""Maximum connections to PostgreSQL of one web process, in addition to the connection on which it listens for wake-ups.
"""
declare(
    "NOVELLA_SQLITE_SYNCHRONOUS",
    values="NORMAL or FULL",
    shown="`NORMAL`; `FULL` once a host on another machine has connected (the file `remote-hosts` beside the database"
    " records this)",
)
"""``FULL``: every answered write is on the disk, at the cost of one sync for each write; ``NORMAL``: a power failure of
the machine may lose the latest writes, a killed process loses none.
"""
SQLITE_TIMEOUT = integer("NOVELLA_SQLITE_TIMEOUT", 20, 1, 600)
"""Seconds that a statement waits for the SQLite file while another process writes, before the request fails."""
DATABASES = {"default": database("NOVELLA_DATABASE_URL", PORTAL_DIR, ROLE, SQLITE_TIMEOUT, WEB_PROCESSES)}
