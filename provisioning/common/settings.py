"""Processes and folders."""

from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from provisioning.common.environment import flag, folder, one_of

BASE_DIR = Path(__file__).resolve().parents[2]
DATA_DIR = folder("NOVELLA_DATA", BASE_DIR / "var", shown="`var/` in the checkout").resolve()
"""The data folder."""
PORTAL_DIR = DATA_DIR / "portal"
"""Data of web, workers and commands; bin/up and this machine's agent have directories next to it."""
RUN_DIR = PORTAL_DIR / "run"
"""Wake-up sockets and process files."""
for _name in ("db.sqlite3", "secrets"):  # new keys could not decrypt existing data
    if (DATA_DIR / _name).exists() and not (PORTAL_DIR / _name).exists():
        _message = f"{DATA_DIR} is of an older version: move {_name} into {PORTAL_DIR}, or let bin/up do it."
        raise ImproperlyConfigured(_message)
ROLE = one_of("NOVELLA_ROLE", "command", ("web", "worker", "command"))
"""The kind of this process, which determines how it keeps database connections."""
LOG_LEVEL = one_of("NOVELLA_LOG_LEVEL", "INFO", ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"))
"""Log messages below this level are dropped."""
DEBUG = flag("NOVELLA_DEBUG", default=False)
"""Django's debug pages; never enable them where others have access."""
