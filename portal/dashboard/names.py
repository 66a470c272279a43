"""Names of things within sentences."""

import unicodedata

_ISOLATE, _END = "\N{FIRST STRONG ISOLATE}", "\N{POP DIRECTIONAL ISOLATE}"
_TURNS = {"R", "AL", "RLE", "LRE", "RLO", "LRO", "PDF", "RLI", "LRI", "FSI", "PDI"}


def bdi(name: object) -> str:
    """Return a name that turns no text beside it: what ``<bdi>`` does, for sentences that are no HTML.

    Names without a character that has or sets the direction from right to left stay as they are.
    """
    text = str(name)
    if all(unicodedata.bidirectional(character) not in _TURNS for character in text):
        return text
    return f"{_ISOLATE}{_balanced(text)}{_END}"


def _balanced(text: str) -> str:
    """Leave out an end of an isolation that did not begin within the text: it would end the one around it."""
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
