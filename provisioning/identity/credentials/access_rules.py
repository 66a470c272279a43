"""Matches requests with the access rules of an application credential, as keystonemiddleware does."""

import re
from collections.abc import Iterable
from functools import lru_cache

import re2

from provisioning.common.values.patterns import compiled

LONGEST_PATH = 1024
"""Maximum length of a path that can match; no resource has a longer path."""
_PARTS = re.compile(r"(?P<deep>\*\*+)|(?P<one>\*|\{[^}]*\})|(?P<text>[^*{]+|\{)", re.DOTALL)


def allows(rules: Iterable[tuple[str, str, str]], service: str, method: str, path: str) -> bool:
    """Return whether one of the rules (service type, method, path pattern) allows a request. ``path`` begins with the
    API version.

    In a pattern ``*`` and ``{name}`` match one or more characters without a slash, and ``**`` matches any text.
    """
    return any(
        pattern_service == service and verb == method and matches(pattern, path)
        for pattern_service, verb, pattern in rules
    )


def matches(pattern: str, path: str) -> bool:
    """Return whether the pattern matches the path, in linear time."""
    return len(path) <= LONGEST_PATH and compiled(_expression(pattern)).fullmatch(path) is not None


@lru_cache(maxsize=1024)
def _expression(pattern: str) -> str:
    """Return the pattern as a regular expression."""
    parts = []
    for match in _PARTS.finditer(pattern):
        if match["deep"]:
            parts.append(".*")
        elif match["one"]:
            parts.append("[^/]+")
        else:
            parts.append(re2.escape(match["text"]))
    return "".join(parts)
