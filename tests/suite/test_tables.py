"""A table that is asked within one test reports all its wrong rows, and none sees what another wrote."""

from __future__ import annotations

import inspect

import pytest

from provisioning.identity.models import Project
from tests.support.cast import People, make_project
from tests.support.tables import each_row, taken

SCHEMA = {"type": "object", "properties": {"size": {"type": "integer"}}, "additionalProperties": False}


def test_all_wrong_rows_are_reported() -> None:
    @each_row("number", [1, 2, 3])
    def odd(number: int) -> None:
        assert number % 2

    @each_row("first, second", [(1, 1), (1, 2), (2, 1)])
    def equal(first: int, second: int) -> None:
        assert first == second

    with pytest.raises(AssertionError, match=r"^1 of 3:\n\(2,\): AssertionError"):
        odd()
    with pytest.raises(AssertionError, match=r"^2 of 3:\n\(1, 2\)(?s:.*)\(2, 1\)"):
        equal()


def test_an_empty_table_is_a_fault() -> None:
    @each_row("number", [])
    def check(number: int) -> None: ...

    with pytest.raises(AssertionError, match="the table is empty"):
        check()


def test_the_names_of_the_row_are_no_fixtures() -> None:
    @each_row("second", [1])
    @each_row("first", [1])
    def check(people: People, first: int, second: int) -> None: ...

    assert list(inspect.signature(check).parameters) == ["people"]


@each_row("turn", [1, 2])
def test_each_row_finds_the_database_as_it_was(people: People, turn: int) -> None:
    assert not Project.objects.filter(name="row").exists()
    assert people.alice.project.name == "wonderland"
    make_project("row")
    people.alice.project.name = "changed"


def test_what_a_schema_takes_is_returned() -> None:
    assert taken(SCHEMA, [{"size": 1}, {"size": "1"}, {"colour": "red"}, {}, None]) == [{"size": 1}, {}]
