"""Text from outside that is not trusted: hosts, guests, other people's web servers."""


def one_line(text: str, longest: int) -> str:
    """Return the text as one line, cut: control characters are blanks, and none of these at its end."""
    return "".join(character if character.isprintable() else " " for character in text[:longest]).rstrip()
