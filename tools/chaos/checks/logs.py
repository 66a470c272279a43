"""Counts the exceptions in a run's logs that are not explained by faults."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

_LAST_LINE = re.compile(r"^(?:[\w]+\.)*\w*(?:Error|Exception)\b.*")
_EXPECTED = re.compile(
    r"^(django\.db\.utils\.|sqlite3\.|psycopg(_pool)?(\.errors)?\.)\w+|^ConnectionResetError|^BrokenPipeError"
)
"""Exceptions that an outage of the database explains, or the end of the process at the other end of a connection."""
_CHANGING = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|0x[0-9a-f]+|\d{2,}")
LONGEST = 200


def unexpected(folder: Path) -> Counter[str]:
    """Count the last lines of tracebacks; ids and numbers in them are replaced."""
    found: Counter[str] = Counter()
    for path in sorted(folder.glob("*.log*")):
        with path.open(errors="replace") as lines:
            for line in lines:
                if _LAST_LINE.match(line) and not _EXPECTED.match(line):
                    found[f"{path.name.partition('.')[0]}: {_CHANGING.sub('…', line.strip())[:LONGEST]}"] += 1
    return found
