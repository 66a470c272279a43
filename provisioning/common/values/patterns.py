"""Regular expressions with RE2, whose time grows linearly with the length of the text, for every pattern.

Python's ``re``, which Django uses for SQLite, backtracks: a pattern of some thirty characters can block it, and every
thread of the process, for hours. PostgreSQL uses automata as well.
"""

import functools
import re

import re2

MOST_MEMORY = 4 << 20
"""Bytes of a pattern's automata; RE2 discards and rebuilds them when they exceed it."""
CACHE_SIZE = 1024
"""Number of compiled patterns in the cache."""
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_AS_IN_POSTGRESQL = {"w": r"[\p{L}\p{N}_]", "W": r"[^\p{L}\p{N}_]"}
"""Replacements for classes that RE2 limits to ASCII."""


def sqlite_regexp(pattern: str | None, text: object) -> bool | None:
    """SQLite's ``REGEXP``: whether the text contains the pattern, in PostgreSQL's interpretation; None when either is
    NULL.

    Raises re2.error for an invalid pattern.
    """
    if pattern is None or text is None:
        return None
    return as_in_postgresql(pattern).search(str(text)) is not None


def as_in_postgresql(pattern: str) -> "re2._Regexp[str]":
    """Compile a pattern in PostgreSQL's interpretation. Raises re2.error."""
    return compiled(_ESCAPED.sub(lambda escaped: _AS_IN_POSTGRESQL.get(escaped[1], escaped[0]), pattern))


@functools.lru_cache(CACHE_SIZE)
def compiled(pattern: str) -> "re2._Regexp[str]":
    """Compile a pattern; a dot matches every character.

    Raises re2.error for features that RE2 does not support: back references, lookaround, and patterns that exceed its
    memory.
    """
    options = re2.Options()
    options.max_mem = MOST_MEMORY
    options.log_errors = False
    options.dot_nl = True
    return re2.compile(pattern, options)
