"""The database, read from the environment."""

from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from provisioning.common.environment import env, integer

OF_ALL, LEAST, MOST = 48, 12, 24
"""Connections to PostgreSQL shared by the web processes of a machine (about half of the 100 that the server allows by
default), and the minimum and maximum for one process.
"""


def database(name: str, data: Path, role: str, patience: int, processes: int = 1) -> dict[str, Any]:
    """Return Django's settings of the database at the URL in the variable ``name``, by default SQLite in the directory
    ``data``.

    ``role`` determines how connections are kept, ``patience`` is SQLite's lock timeout in seconds, ``processes`` the
    number of web processes that share PostgreSQL's connections.
    """
    url = env.str(name, default="")
    chosen = env.str("NOVELLA_SQLITE_SYNCHRONOUS", default="").upper()
    if chosen not in {"", "FULL", "NORMAL"}:
        raise ImproperlyConfigured(f"NOVELLA_SQLITE_SYNCHRONOUS is {chosen!r}; it must be FULL or NORMAL.")
    if not url:
        return {
            "ENGINE": "provisioning.common.sqlite",
            "NAME": str(data / "db.sqlite3"),
            "CONN_MAX_AGE": None,
            "SYNCHRONOUS_BY_HOSTS": not chosen,
            "OPTIONS": {
                "transaction_mode": "IMMEDIATE",
                "timeout": patience,
                "init_command": f"PRAGMA journal_mode=WAL; PRAGMA synchronous={chosen or 'NORMAL'};"
                " PRAGMA journal_size_limit=27103364; PRAGMA cache_size=2000; PRAGMA mmap_size=268435456;"
                " PRAGMA secure_delete=ON",
            },
            "TEST": {"NAME": str(data / "test.sqlite3")},
        }
    result: dict[str, Any] = env.db_url_config(url)
    if result["ENGINE"] == "django.db.backends.postgresql":
        result["ENGINE"] = "provisioning.common.postgresql"
    if role == "web":
        most = integer("NOVELLA_DATABASE_POOL", min(max(OF_ALL // processes, LEAST), MOST), 8, 1000)
        result.setdefault("OPTIONS", {})["pool"] = {"min_size": 1, "max_size": most}
        result["CONN_MAX_AGE"] = 0
    else:
        result["CONN_MAX_AGE"] = 600
        result["CONN_HEALTH_CHECKS"] = True
    return result
