"""The mutants of ``tools.mutants``: which ones are made, and that a function takes the code of one."""

from __future__ import annotations

import ast
import functools
import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tools.mutants import forks
from tools.mutants.targets import TARGETS

SOURCE = '''"""A module."""
import functools

def room(most: int | None, used: int) -> bool:
    """Say whether there is room for 1 more."""
    return most is None or used + 1 <= most

def other(used: int) -> int:
    return used - 1

class Meter:
    @staticmethod
    def double(value):
        return value * 2

    @property
    def limit(self):
        return 10

    @classmethod
    @functools.wraps(other)
    def wrapped(cls):
        return 3

@functools.cache
def kept():
    return 5
'''


@pytest.fixture(scope="module")
def making() -> Any:
    """Cosmic Ray is loaded by the tests that need it alone."""
    return importlib.import_module("tools.mutants.making")


@functools.cache
def changes(making: Any, source: str, most: int = 100) -> dict[str, str]:
    return {mutant.key: mutant.after for mutant in making.mutants(source, ["room"], most)}


@pytest.mark.slow
def test_every_target_names_functions_and_tests_that_are_there(making: Any, checkout: Path) -> None:
    assert len(TARGETS) >= 12
    for target in TARGETS.values():
        assert making._spans(ast.parse((checkout / target.path).read_text()), target.functions)
        assert [test for test in target.tests if not (checkout / test).exists()] == [], target.name


def test_only_bodies_of_chosen_functions_are_changed(making: Any) -> None:
    result = changes(making, SOURCE)
    assert "return most is None and used + 1 <= most" in result.values()
    assert "return most is not None or used + 1 <= most" in result.values()
    assert len(result) == len({*result.values()}) == 5
    assert all(change.startswith("return ") and change.endswith("most") for change in result.values())
    with pytest.raises(LookupError, match="nowhere"):
        making.mutants(SOURCE, ["nowhere"], 1)


def test_the_same_mutants_are_made_again_after_changes_elsewhere(making: Any) -> None:
    longer = SOURCE.replace("def room", "def new(a: int) -> int:\n    return a + 2 - 1\n\ndef room")
    assert list(changes(making, longer, 4).items()) == list(changes(making, SOURCE).items())[:4]
    assert changes(making, SOURCE.replace("used + 1", "used + 2")) != changes(making, SOURCE)


@pytest.mark.parametrize(
    ("name", "old", "new", "call", "before", "after"),
    [
        ("room", "+ 1 <=", "+ 2 <=", "room(1, 0)", True, False),
        ("Meter.double", "* 2", "* 3", "Meter.double(1)", 2, 3),
        ("Meter.limit", "10", "11", "Meter().limit", 10, 11),
        ("kept", "5", "6", "kept()", 5, 6),
    ],
)
def test_a_function_in_use_takes_the_code_of_a_mutant(
    monkeypatch: pytest.MonkeyPatch, name: str, old: str, new: str, call: str, before: object, after: object
) -> None:
    module = ModuleType("mutated")
    exec(compile(SOURCE, "mutated.py", "exec"), vars(module))  # noqa: S102
    monkeypatch.setitem(sys.modules, "mutated", module)
    held = dict(vars(module))  # as another module's ``from mutated import …`` holds it
    assert eval(call, held) == before  # noqa: S307
    if isinstance(held.get(name), functools._lru_cache_wrapper):
        held[name].cache_clear()
    forks.put_in("mutated", name, SOURCE.replace(old, new), "mutated.py")
    assert eval(call, held) == after  # noqa: S307


def test_a_function_that_cannot_be_reached_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("mutated")
    exec(compile(SOURCE, "mutated.py", "exec"), vars(module))  # noqa: S102
    monkeypatch.setitem(sys.modules, "mutated", module)
    with pytest.raises(TypeError, match=r"Meter\.wrapped"):
        forks.put_in("mutated", "Meter.wrapped", SOURCE, "mutated.py")
