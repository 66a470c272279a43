"""Which rows of a table run at landing, and who asks for them."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import pytest

from tests.support.landing import diagonal, first_of_each, in_turn, one_in, rounds

EXPECTED = {"nobody": 302, "revoked": 302, "reader": 403, "domain": 404, "operator": 200}
ALIKE = (("nobody", "revoked"), ("reader", "domain"))


def at_landing(rows: Any) -> list[tuple[Any, ...]]:
    return [row.values for row in rows if not row.marks]


def rows_of(mark: pytest.MarkDecorator) -> Any:
    return [row if hasattr(row, "values") else pytest.param(row) for row in mark.args[1]]


def test_those_who_are_alike_take_turns() -> None:
    requested = [in_turn(f"row {number}", EXPECTED, ALIKE) for number in range(40)]
    assert all(len(persons) == 4 for persons in requested), "one of the strangers, and all others: they differ"
    assert {"nobody", "revoked"} <= set(Counter(person for persons in requested for person in persons))
    assert in_turn("row", EXPECTED, ()) == list(EXPECTED)
    assert in_turn("row 1", EXPECTED, ALIKE) == in_turn("row 1", EXPECTED, ALIKE)


def test_both_sides_of_the_step_that_a_policy_makes_ask_for_each_row() -> None:
    alike, power = (("reader", "domain"), ("member", "operator")), ("reader", "member", "operator")
    expected = {"reader": 403, "member": 200, "operator": 200, "domain": 403}
    requested = [set(in_turn(f"row {number}", expected, alike, by_power=power)) for number in range(40)]
    assert all(persons >= {"reader", "member"} for persons in requested)
    assert any("domain" in persons for persons in requested)
    assert any("operator" in persons for persons in requested)


def test_one_of_those_outside_asks_for_each_row_and_a_step_of_the_policy_is_asked_for_anyway() -> None:
    outside = ("nobody", "revoked", "domain")
    requested = [set(in_turn(f"row {number}", EXPECTED, ALIKE, outside=outside)) for number in range(40)]
    assert all(len(persons & set(outside)) == 1 for persons in requested)
    assert set().union(*requested) == set(EXPECTED)
    steps = in_turn("row", EXPECTED, ALIKE, by_power=("domain", "reader", "operator"), outside=outside)
    assert {"domain", "reader", "operator"} <= set(steps)


def test_a_diagonal_has_every_value_at_landing_and_every_combination_in_deep() -> None:
    rows = rows_of(diagonal(first="abc", second=[1, 2]))
    assert [row.values for row in rows] == list(product("abc", [1, 2]))
    assert at_landing(rows) == [("a", 1), ("b", 2), ("c", 1)]


def test_some_values_and_few_rounds_run_at_landing() -> None:
    assert at_landing(rows_of(one_in(3, "number", range(7)))) == [(0,), (3,), (6,)]
    assert at_landing(rows_of(rounds(2, 9))) == [(2,)]
    assert at_landing(first_of_each([("a", 1), ("a", 2), ("b", 3)])) == [("a", 1), ("b", 3)]
