"""Text from outside that is not trusted: people, hosts, guests, other people's web servers."""

import unicodedata

_CONTROL = frozenset({"Cc", "Cs", "Zl", "Zp"})


def one_line(text: str, longest: int) -> str:
    """Return the text as one line, cut: control characters are blanks, and none of these at its end."""
    return "".join(character if character.isprintable() else " " for character in text[:longest]).rstrip()


def has_control_characters(text: str) -> bool:
    """Whether it has control characters, line breaks or halves of surrogate pairs: they forge lines in logs."""
    return not text.isprintable() and any(unicodedata.category(character) in _CONTROL for character in text)
