"""The resources of a machine that a cloud uses: memory, open files and threads of each service, rows of each table,
disk.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

from up.processes import children, command_line, descendants

SERVICES = {"manage.py web": "web", "qworker": "worker", "compute_agent": "agent"}
"""Part of the command line → name of the service."""
PARTS = ("portal/db.sqlite3", "portal/images", "portal/run", "hosts", "log", "run")
"""The measured parts of the data folder, each with all its content."""


def processes(supervisor: int) -> dict[str, list[int]]:
    """Return service → ids of its Python processes, without guests and the programs that the agent starts."""
    found = {"supervisor": [supervisor]}
    for child in children(supervisor):
        line = command_line(child)
        name = next((name for word, name in SERVICES.items() if word in line), "")
        if name:
            pids = [child, *descendants(child)]
            found.setdefault(name, []).extend(pid for pid in pids if "python" in command_line(pid).partition(" ")[0])
    return found


def pss_mib(pid: int) -> float:
    """Return the proportional memory (PSS) of a process in MiB; 0 if the process has ended."""
    try:
        found = re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    except OSError:
        return 0.0
    return int(found[1]) / 1024 if found else 0.0


def count_of(pid: int, folder: str) -> int:
    """Return the number of entries in ``/proc/PID/folder``; ``folder`` is ``fd`` or ``task``."""
    try:
        return sum(1 for _ in Path(f"/proc/{pid}/{folder}").iterdir())
    except OSError:
        return 0


def rows(database: Path) -> dict[str, int]:
    """Return table → number of rows, read while the cloud is running."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=10)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in names}  # noqa: S608


def disk_mib(folder: Path) -> dict[str, float]:
    """Return part of the data folder → disk usage in MiB; the database includes its write-ahead log."""
    return {part: sum(_blocks(path) for path in folder.glob(f"{part}*")) / 2048 for part in PARTS}


def _blocks(path: Path) -> int:
    """Return the number of 512-byte blocks of a file, or of everything below a folder. A file that disappears in the
    meantime counts as zero.
    """
    total = 0
    try:
        total += path.lstat().st_blocks
        if path.is_dir() and not path.is_symlink():
            total += sum(_blocks(each) for each in path.iterdir())
    except OSError:
        return total
    return total
