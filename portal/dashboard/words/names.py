"""Names of resources within sentences."""

import unicodedata

_ISOLATE, _END = "\N{FIRST STRONG ISOLATE}", "\N{POP DIRECTIONAL ISOLATE}"
_TURNS = {"R", "AL", "RLE", "LRE", "RLO", "LRO", "PDF", "RLI", "LRI", "FSI", "PDI"}


def bdi(name: object) -> str:
    """Return a name isolated from the text direction around it, like ``<bdi>``, for texts without HTML.

    Names without right-to-left or direction control characters are unchanged.
    """
    text = str(name)
    if all(unicodedata.bidirectional(character) not in _TURNS for character in text):
        return text
    return f"{_ISOLATE}{_balanced(text)}{_END}"


def _balanced(text: str) -> str:
    """Remove unmatched ends of isolates, which would end the surrounding isolate."""
    kept, depth = [], 0
    for character in text:
        kind = unicodedata.bidirectional(character)
        depth += kind in {"RLI", "LRI", "FSI"}
        if kind == "PDI":
            if not depth:
                continue
            depth -= 1
        kept.append(character)
    return "".join(kept) + _END * depth
