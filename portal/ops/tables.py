"""Tables on a terminal."""

from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Return aligned lines: numbers right-aligned, texts left-aligned."""
    texts = [head, *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in texts) for column in range(len(head))]
    numbers = [all(isinstance(row[column], int) for row in rows) for column in range(len(head))]
    return [
        "  ".join(
            text.rjust(width) if number else text.ljust(width)
            for text, width, number in zip(row, widths, numbers, strict=True)
        ).rstrip()
        for row in texts
    ]
