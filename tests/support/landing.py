"""Which rows of a table of the same kind run at landing; the others are deep."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import pytest


def first_of_each(
    rows: Iterable[tuple[Any, ...]], kind: Callable[[tuple[Any, ...]], Hashable] = lambda row: row[0]
) -> list[Any]:
    """Mark all rows but the first of each kind as deep; by default the kind is the first column."""
    seen, marked = set[Hashable](), list[Any]()
    for row in rows:
        marked.append(pytest.param(*row, marks=[pytest.mark.deep] if kind(row) in seen else []))
        seen.add(kind(row))
    return marked
