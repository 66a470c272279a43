"""How much one person, and one project, may ask for in a time; operators as much as they like.

Counted are launches (each server), writes, searches by pattern and dry runs; reading is not.  ``RATE_LIMITS`` says how
many of each one person may ask for at once, and in how many seconds all of these are free again; a project as a whole
has ``PROJECT_SHARE`` times as much.  The counts lie in a file that all web processes of a machine share, because each
counting for itself would allow as many times more as there are processes.
"""

import logging
import math
import os
import sqlite3
import threading
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from django.conf import settings

from provisioning.common.context import RequestContext
from provisioning.common.errors import TooManyRequestsError

LAUNCHES, WRITES, SEARCHES, DRY_RUNS = "launches", "writes", "searches", "dry_runs"
PROJECT_SHARE = 4
"""What one person asks for must not use up what the others of the project may."""
FILE = "rates.sqlite3"
PATIENCE = 0.5
"""Seconds that another process may hold the file."""
SWEEP_EVERY = 1000
"""Requests after which counts that are over are forgotten."""
_WORDS = {LAUNCHES: "servers", WRITES: "changes", SEARCHES: "searches", DRY_RUNS: "dry runs"}

logger = logging.getLogger(__name__)


def check(context: RequestContext, kind: str, many: int = 1) -> None:
    """Count ``many`` of a kind for the caller and the caller's project.

    Raises TooManyRequestsError, without counting, when either has asked for too many lately.
    """
    wait = seconds_to_wait(context, kind, many)
    if wait:
        raise refusal(kind, wait)


def seconds_to_wait(context: RequestContext, kind: str, many: int = 1) -> int:
    """Count as ``check``, and return 0; or return in how many seconds it may be asked for again."""
    number, seconds = settings.RATE_LIMITS.get(kind, (0, 1))
    if not number or context.is_admin or context.user_id is None:
        return 0
    per_one = seconds / number
    shares = {f"{kind} user {context.user_id}": per_one}
    if context.project_id is not None:
        shares[f"{kind} project {context.project_id}"] = per_one / PROJECT_SHARE
    wait = _counts.take({key: min(many, number) * each for key, each in shares.items()}, seconds)
    return math.ceil(wait)


def refusal(kind: str, wait: int) -> TooManyRequestsError:
    number, seconds = settings.RATE_LIMITS[kind]
    return TooManyRequestsError(
        f"This request was rate-limited: one person may ask for {number} {_WORDS[kind]} in {seconds} seconds, and one"
        f" project for {PROJECT_SHARE} times as many. Try again in {wait} {'second' if wait == 1 else 'seconds'}.",
        retry_after=wait,
    )


class Counts:
    """For each key the time at which nothing of it is used any more (the generic cell rate algorithm).

    The file is a hint and no record: when it cannot be used, everybody is let through.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._file: sqlite3.Connection | None = None
        self._path, self._pid, self._taken = Path(), 0, 0

    def take(self, costs: Mapping[str, float], window: float) -> float:
        """Add to each key so many seconds; all or none, so that none is more than ``window`` seconds from now.

        Returns 0, or how many seconds are too many.
        """
        with self._lock:
            try:
                return self._take(costs, window)
            except (sqlite3.Error, OSError):
                logger.warning("The counts of requests cannot be used: nobody is limited now.", exc_info=True)
                self._begin_anew()
                return 0.0

    def _take(self, costs: Mapping[str, float], window: float) -> float:
        file, now = self._open(), time.time()
        file.execute("BEGIN IMMEDIATE")
        try:
            ends = _ends(file, costs)
            # A clock that was set back must not lock anybody out.
            new = {key: min(max(ends.get(key, now), now), now + window) + cost for key, cost in costs.items()}
            wait = max(new.values()) - now - window
            if wait > 1e-6:
                return wait
            file.executemany("INSERT OR REPLACE INTO rates VALUES (?, ?)", new.items())
            self._taken += 1
            if self._taken % SWEEP_EVERY == 0:
                file.execute("DELETE FROM rates WHERE ends_at < ?", [now])
            return 0.0
        finally:
            file.execute("COMMIT")

    def _open(self) -> sqlite3.Connection:
        """Return this process's connection: a fork does not take it along."""
        path = Path(settings.RUN_DIR, FILE)
        if self._file is None or (path, os.getpid()) != (self._path, self._pid):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
            self._path, self._pid = path, os.getpid()
            self._file.execute("PRAGMA journal_mode = WAL")
            self._file.execute("PRAGMA synchronous = OFF")
            self._file.execute("CREATE TABLE IF NOT EXISTS rates (key TEXT PRIMARY KEY, ends_at REAL) WITHOUT ROWID")
        return self._file

    def _begin_anew(self) -> None:
        """Let go of the file; one that is damaged is removed."""
        file, self._file = self._file, None
        if file is None:
            return
        with suppress(sqlite3.Error):
            try:
                file.execute("PRAGMA quick_check(1)")
            except sqlite3.DatabaseError:
                for end in ("", "-wal", "-shm"):
                    Path(f"{self._path}{end}").unlink(missing_ok=True)
            file.close()


def _ends(file: sqlite3.Connection, keys: Collection[str]) -> dict[str, float]:
    marks = ", ".join("?" * len(keys))
    return dict(file.execute(f"SELECT key, ends_at FROM rates WHERE key IN ({marks})", list(keys)))  # noqa: S608


_counts = Counts()
