"""Handling of untrusted text: from users, hosts, guests and other web servers."""

import unicodedata

_CONTROL = frozenset({"Cc", "Cs", "Zl", "Zp"})


def one_line(text: str, longest: int) -> str:
    """Return at most the first ``longest`` characters as one line; control characters become spaces, and trailing
    spaces are removed.
    """
    return "".join(character if character.isprintable() else " " for character in text[:longest]).rstrip()


def has_control_characters(text: str) -> bool:
    """Whether the text has control characters, line breaks or lone surrogates, which could forge lines in logs."""
    return not text.isprintable() and any(unicodedata.category(character) in _CONTROL for character in text)
