"""A PostgreSQL server for one run of the tests: ``python -m tests.support.postgresql_server FOLDER PID``.

It has a migrated database to copy, and ends, with all its files, when the process with that number does.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import psycopg

from tools.chaos.clouds.database import Postgresql

CHECKOUT = Path(__file__).resolve().parents[2]
READY = "ready"
"""The file in the folder that says that the server can be used."""
TEMPLATE = "migrated"


def url_of(folder: Path, name: str = "postgres") -> str:
    return f"postgres://novella@/{name}?host={folder}"


def serve(folder: Path, pid: int) -> None:
    """Start the server and stay until the process ends."""
    session = os.pidfd_open(pid)
    server = Postgresql(folder)
    try:
        server.start()
        with psycopg.connect(url_of(folder).replace("postgres:", "postgresql:"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {TEMPLATE}".encode())
        migrate = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
        environment = {**os.environ, "NOVELLA_DATABASE_URL": url_of(folder, TEMPLATE)}
        subprocess.run(migrate, cwd=CHECKOUT, env=environment, stdin=subprocess.DEVNULL, check=True)
        (folder / READY).touch()
        select.select([session], [], [])
    finally:
        server.stop(keep=False)
        Path(f"{folder}.lock").unlink(missing_ok=True)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))
