"""Which requests the access rules of an application credential allow, as keystonemiddleware reads them."""

import re
from collections.abc import Iterable
from functools import lru_cache

LONGEST_PATH = 1024
"""Characters; no resource has a longer one."""
_PARTS = re.compile(r"(?P<deep>\*\*+)|(?P<one>\*|\{[^}]*\})|(?P<text>[^*{]+|\{)", re.DOTALL)
_ONE, _DEEP = object(), object()
_Pattern = tuple[object, ...]


def allows(rules: Iterable[tuple[str, str, str]], service: str, method: str, path: str) -> bool:
    """Whether one of the rules (service type, method, path pattern) has this request; ``path`` begins at the version.

    In a pattern ``*`` and ``{name}`` stand for one or more characters without a slash, ``**`` for any text.
    """
    return any(wanted == service and verb == method and matches(pattern, path) for wanted, verb, pattern in rules)


def matches(pattern: str, path: str) -> bool:
    """Whether the pattern has the path.

    All places where the pattern may stand are followed at once, so that no pattern takes longer than its length times
    the path's.
    """
    if len(path) > LONGEST_PATH:
        return False
    parts = _parts(pattern)
    places = _opened({0}, parts)
    for character in path:
        reached = set()
        for place in places:
            part = parts[place] if place < len(parts) else None
            if part is _DEEP:
                reached.add(place)
            elif part is _ONE and character != "/":
                reached |= {place, place + 1}
            elif part == character:
                reached.add(place + 1)
        places = _opened(reached, parts)
        if not places:
            return False
    return len(parts) in places


def _opened(places: set[int], parts: _Pattern) -> set[int]:
    """Add the places that are reached without a character: those behind ``**``."""
    found = set(places)
    for place in places:
        following = place
        while following < len(parts) and parts[following] is _DEEP:
            following += 1
            found.add(following)
    return found


@lru_cache(maxsize=1024)
def _parts(pattern: str) -> _Pattern:
    parts: list[object] = []
    for found in _PARTS.finditer(pattern):
        if found["deep"]:
            parts.append(_DEEP)
        elif found["one"]:
            parts.append(_ONE)
        else:
            parts.extend(found["text"])
    return tuple(parts)
