"""Which rows of a table of the same kind run at landing, and for whom; the others are deep."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
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


def rounds(few: int, many: int) -> pytest.MarkDecorator:
    """Give a test of races its argument ``rounds``: few at landing, many in the deep tier."""
    return pytest.mark.parametrize("rounds", [few, pytest.param(many, marks=pytest.mark.deep)], ids=["few", "many"])


def in_turn(
    row: str,
    expected: Mapping[str, Hashable],
    alike: Iterable[Collection[str]],
    *,
    by_power: Sequence[str] = (),
    outside: Sequence[str] = (),
) -> list[str]:
    """Return the persons who ask for a row of a table at landing.

    ``expected``: the answer that each person gets.  Of those who are ``alike`` and get the same answer one asks, which
    of them differs from row to row.  ``by_power``: persons from the least powerful on; where two neighbours get
    different answers, both ask, for between them lies what a policy demands.
    ``outside``: persons of whom one asks, another one from row to row, besides those of ``by_power``.
    """
    chosen = set(expected) - {person for group in alike for person in group}
    for pair in itertools.pairwise(by_power):
        if expected[pair[0]] != expected[pair[1]]:
            chosen.update(pair)
    for group in alike:
        same: dict[Hashable, list[str]] = {}
        for person in group:
            same.setdefault(expected[person], []).append(person)
        chosen |= {persons[_turn(row) % len(persons)] for persons in same.values()}
    if outside:
        chosen = chosen - (set(outside) - set(by_power)) | {outside[_turn(row) % len(outside)]}
    return [person for person in expected if person in chosen]


def _turn(row: str) -> int:
    return zlib.crc32(row.encode()) >> 8


def diagonal(**columns: Sequence[Any]) -> pytest.MarkDecorator:
    """Give arguments all combinations of their values; at landing as few of them as have every value."""
    sizes = [len(values) for values in columns.values()]
    kept = {tuple(number % size for size in sizes) for number in range(max(sizes))}
    rows = [
        pytest.param(
            *(values[at] for values, at in zip(columns.values(), places, strict=True)),
            marks=[] if places in kept else [pytest.mark.deep],
        )
        for places in itertools.product(*map(range, sizes))
    ]
    return pytest.mark.parametrize(tuple(columns), rows)


def one_in(share: int, argument: str, values: Iterable[Any]) -> pytest.MarkDecorator:
    """Give an argument its values, every so many of them at landing: for values that all go the same way."""
    rows = [pytest.param(each, marks=[pytest.mark.deep] if at % share else []) for at, each in enumerate(values)]
    return pytest.mark.parametrize(argument, rows)
