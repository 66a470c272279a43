"""The filters of lists: one declaration and one reader for all services."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from django.db.models import Q

from portal.api.frame import Filter, Filtering, number, schemas_of
from provisioning.common.errors import InvalidInputError

FILTERS = (
    Filter("size", "size_gb", number),
    Filter("state", until=(2, 4)),
    Filter("state", read=str.upper, since=(2, 5)),
    Filter("host", everybody=None),
    Filter("zone", everybody=(2, 3)),
    Filter("tag", "tags", every_value=True),
)
STRICT = Filtering(besides=("limit",), unknown="{first} of {names} is unknown")


def read(query: dict[str, Sequence[str]], filtering: Filtering = STRICT, **options: Any) -> list[tuple[str, Any]]:
    return [(each.lookup, value) for each, value in filtering.read(query.items(), FILTERS, **options)]


def test_the_last_value_counts_unless_all_do() -> None:
    query = {"size": ["1", "2"], "tag": ["a", "b"], "limit": ["x"]}
    assert read(query) == [("size_gb", 2), ("tags", ["a", "b"])]
    assert read(query, Filtering(besides=("limit",), every_value=True)) == [("size_gb", [1, 2]), ("tags", ["a", "b"])]


def test_the_first_of_several_unknown_filters_is_the_field_of_the_error() -> None:
    with pytest.raises(InvalidInputError) as raised:
        read({"size": ["1"], "z": ["1"], "b": ["1"]})
    assert (raised.value.field, str(raised.value)) == ("z", "z of b,z is unknown")
    assert read({"z": ["1"]}, strict=False) == read({"z": ["1"]}, Filtering()) == []
    undeclared = Filtering(undeclared=lambda name: Filter(name, "properties"))
    assert read({"z": ["1"]}, undeclared) == [("properties", "1")]


@pytest.mark.parametrize(("version", "value"), [((2, 4), "on"), ((2, 5), "ON")])
def test_a_later_declaration_replaces_an_earlier_one(version: tuple[int, int], value: str) -> None:
    assert read({"state": ["on"]}, version=version) == [("state", value)]


def test_filters_of_operators_are_ignored_for_others() -> None:
    query: dict[str, Sequence[str]] = {"host": ["a"], "zone": ["b"]}
    assert read(query, version=(2, 2)) == [("host", "a"), ("zone", "b")]
    assert read(query, version=(2, 2), operator=False) == []
    assert read(query, version=(2, 3), operator=False) == [("zone", "b")]


def test_a_nul_character_is_rejected_in_names_and_values() -> None:
    for query, field in (({"size": ["\0"]}, "size"), ({"a\0b": ["1"]}, "ab")):
        with pytest.raises(InvalidInputError) as raised:
            read(query)
        assert raised.value.field == field
    assert read({"tag": ["\0"]}, Filtering(nul="")) == [("tags", ["\0"])]


def test_a_filter_is_a_comparison_or_a_condition() -> None:
    assert Filter("size", "size_gb").where(2) == Q(size_gb=2)
    assert Filter("size", condition=lambda value: Q(size_gb__gt=value)).where(2) == Q(size_gb__gt=2)
    assert list(schemas_of(FILTERS, (2, 4))) == ["size", "state", "host", "zone", "tag"]
