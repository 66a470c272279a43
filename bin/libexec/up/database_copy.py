"""Copies the SQLite database before it is migrated to another version, once for each version.

``python bin/libexec up.database_copy DATABASE VERSION`` copies into ``backups/`` next to it.
"""

from __future__ import annotations

import contextlib
import sqlite3
import sys
import time
from pathlib import Path

MOST_COPIES = 3


def copy(database: Path, version: str) -> None:
    folder = database.parent / "backups"
    if any(folder.glob(f"db-*-{version}.sqlite3")):
        return
    folder.mkdir(mode=0o700, exist_ok=True)
    part = folder / "part"
    part.unlink(missing_ok=True)
    part.touch(mode=0o600)
    with (
        contextlib.closing(sqlite3.connect(database)) as source,
        contextlib.closing(sqlite3.connect(part)) as target,
    ):
        source.backup(target)
    part.rename(folder / f"db-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{version}.sqlite3")
    for old in sorted(folder.glob("db-*.sqlite3"))[:-MOST_COPIES]:
        old.unlink()


if __name__ == "__main__":
    copy(Path(sys.argv[1]), sys.argv[2])
