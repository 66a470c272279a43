"""Regular expressions by RE2: the time they take grows with the length of the text, whatever the pattern.

Python's ``re``, which Django gives to SQLite, tries one way after another: a pattern of some thirty characters keeps it
for hours, and with it every thread of the process.  PostgreSQL has automata of its own.
"""

import functools
import re

import re2

MOST_MEMORY = 4 << 20
"""Bytes of one pattern's automata; when they are used up RE2 begins them anew."""
KEPT = 1024
"""Patterns that stay compiled."""
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_AS_IN_POSTGRESQL = {"w": r"[\p{L}\p{N}_]", "W": r"[^\p{L}\p{N}_]"}
"""RE2's own know ASCII alone."""


def sqlite_regexp(pattern: str | None, text: object) -> bool | None:
    """SQLite's ``REGEXP``: say whether the pattern, as PostgreSQL reads it, is in the text; None when either is NULL.

    Raises re2.error for what is no pattern.
    """
    if pattern is None or text is None:
        return None
    return as_in_postgresql(pattern).search(str(text)) is not None


def as_in_postgresql(pattern: str) -> "re2._Regexp[str]":
    """Compile a pattern as PostgreSQL reads it; raises re2.error."""
    return compiled(_ESCAPED.sub(lambda escaped: _AS_IN_POSTGRESQL.get(escaped[1], escaped[0]), pattern))


@functools.lru_cache(KEPT)
def compiled(pattern: str) -> "re2._Regexp[str]":
    """Compile a pattern, in which a dot is any character.

    Raises re2.error for what RE2 does not take: back references, looking around, more than it has memory for.
    """
    options = re2.Options()
    options.max_mem = MOST_MEMORY
    options.log_errors = False
    options.dot_nl = True
    return re2.compile(pattern, options)
