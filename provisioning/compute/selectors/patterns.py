"""Regular expressions from callers, limited so that a pattern cannot overload the database.

Nova passes such filters to its database. Here a plain word matches as a substring, regardless of case; a pattern may
have anchors, dots, sets, alternatives and groups, and two repetitions, but not of groups. PostgreSQL and RE2, which
SQLite uses here, do not backtrack: the time grows with the lengths of pattern and text.
"""

import re

import re2
from django.db.models import Q

from provisioning.common.errors import InvalidInputError
from provisioning.common.values.patterns import as_in_postgresql

LONGEST = 255
"""Maximum number of characters of a pattern, as of a name."""
MOST_REPETITIONS = 2

_PLAIN = re.compile(r"(\^?)([^\\^$.|?*+()\[\]{}]*)(\$?)")
_PIECE = re.compile(
    r"""
    \\[dDwWsS] | \\[^0-9a-zA-Z]              # a kind of character, or one taken literally
    | \[\^?\]?(?:[^\]\[\\]|\\[^0-9a-zA-Z])*\]   # a set
    | (?P<repeat>[*+?]|\{\d{1,2}(?:,\d{0,2})?\})
    | (?P<group>\((?!\?)|\))
    | (?P<edge>[\^$|])
    | [^\\\[\](){}*+?^$|]
    """,
    re.VERBOSE,
)


def matching(column: str, pattern: str, field: str) -> Q:
    """Match rows whose column contains the pattern. Raises InvalidInputError (``field``) for a disallowed pattern."""
    plain = _PLAIN.fullmatch(pattern)
    if plain is None:
        return Q(**{f"{column}__iregex": checked(pattern, field)})
    begins, text, ends = plain.groups()
    lookup = {(True, True): "iexact", (True, False): "istartswith", (False, True): "iendswith"}.get(
        (bool(begins), bool(ends)), "icontains"
    )
    return Q(**{f"{column}__{lookup}": text})


def checked(pattern: str, field: str) -> str:
    """Return an equivalent pattern for all databases. Raises InvalidInputError (``field``) for a disallowed pattern."""
    if "\0" in pattern or len(pattern) > LONGEST:
        raise _invalid(pattern, field)
    text = re.sub(r"(?<!\\)\.\*\$?$", "", re.sub(r"^\^?\.\*", "", pattern)) if "|" not in pattern else pattern
    at, repetitions, before = 0, 0, "edge"
    while at < len(text):
        piece = _PIECE.match(text, at)
        if piece is None:
            raise _invalid(pattern, field)
        if piece["repeat"]:
            repetitions += 1
            if before != "one" or repetitions > MOST_REPETITIONS:
                raise _invalid(pattern, field)
        before = piece.lastgroup or "one"
        at = piece.end()
    try:
        as_in_postgresql(f"(?i){text}")
    except re2.error as error:
        raise _invalid(pattern, field) from error
    return text


def _invalid(pattern: str, field: str) -> InvalidInputError:
    return InvalidInputError(
        f"Invalid input for query parameters {field}. Value: {pattern[:64]}. It is not a supported pattern:"
        f" at most {LONGEST} characters and {MOST_REPETITIONS} repetitions, none of a group.",
        field=field,
    )
