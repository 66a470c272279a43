"""docs/walks.md names functions that exist, the calls that they have, and every result that a reader opens."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from provisioning.jobs.registry import Job

ROW = re.compile(r"\| *\d+ \| `([\w.]+):([\w.]+)` \|[^|]*\|([^|]*)\|")
NAMED = re.compile(r"`((?:portal|provisioning|compute_agent)(?:\.\w+)+):([\w.]+)`")
CALLED = re.compile(r"`([\w.]+)`")
NAME = re.compile(r"[\w.]+")
SUM = re.compile(r"^Results: (\d+)$", re.M)
PACKAGES = {"portal", "provisioning", "compute_agent"}
PAGE = (Path(settings.BASE_DIR) / "docs/walks.md").read_text()
WALKS = {walk.partition("\n")[0]: walk for walk in re.split(r"^## ", PAGE, flags=re.M)[1:]}
ROWS = [(walk, *row) for walk, text in WALKS.items() for row in ROW.findall(text)]


def found(module: str, name: str) -> Any:
    """Return a function, method or class; of a job, the function. Raises AttributeError."""
    value = reduce(getattr, name.split("."), importlib.import_module(module))
    return value.run if isinstance(value, Job) else value


def ignored(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the calls whose results are not used: statements, errors that are raised, and context managers."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            yield node.value.value if isinstance(node.value, ast.Await) else node.value
        elif isinstance(node, ast.Raise) and node.exc is not None:
            yield node.exc
        elif isinstance(node, ast.withitem):
            yield node.context_expr


def is_opened(name: str, module: str, owner: Any, *, called: bool = True) -> bool:
    """Whether a name is a function of this project, or a prepared query that is called."""
    first, *rest = name.split(".")
    start = owner if first == "self" else getattr(importlib.import_module(module), first, None)
    try:
        value = reduce(getattr, rest, start)
    except AttributeError:
        return False
    if inspect.isclass(value) or not (called or inspect.isroutine(value)):
        return False
    origin = value if inspect.isroutine(value) else type(value)
    return str(getattr(origin, "__module__", "")).partition(".")[0] in PACKAGES


def results_of(module: str, name: str) -> set[str]:
    """Return the project's functions whose results a function uses, called there or passed to a call."""
    [function] = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(found(module, name))))).body
    unused = {id(node) for node in ignored(function)}
    owner = found(module, name.rpartition(".")[0]) if "." in name else None
    body = [node for statement in getattr(function, "body", ()) for node in ast.walk(statement)]
    calls = [node for node in body if isinstance(node, ast.Call)]
    opened = {ast.unparse(call.func) for call in calls if id(call) not in unused}
    passed = {ast.unparse(each) for call in calls for each in call.args if isinstance(each, ast.Name | ast.Attribute)}
    results = {name for name in opened if NAME.fullmatch(name) and is_opened(name, module, owner)}
    return results | {name for name in passed if NAME.fullmatch(name) and is_opened(name, module, owner, called=False)}


def test_every_numbered_row_is_read() -> None:
    assert len(ROWS) == len(re.findall(r"^\| *\d+ \|", PAGE, re.M)) > 40


def test_named_functions_exist() -> None:
    for module, name in NAMED.findall(PAGE):
        assert callable(found(module, name)), f"{module}:{name}"


@pytest.mark.parametrize(("walk", "module", "name", "listed"), ROWS)
def test_functions_call_what_their_row_names(walk: str, module: str, name: str, listed: str) -> None:
    source = inspect.getsource(inspect.unwrap(found(module, name)))
    missing = [each for each in CALLED.findall(listed) if not re.search(rf"(?<![\w.]){each}[(,)]", source)]
    assert not missing, f"{module}:{name} no longer calls {', '.join(missing)}."


@pytest.mark.parametrize(("walk", "module", "name", "listed"), ROWS)
def test_rows_name_every_result(walk: str, module: str, name: str, listed: str) -> None:
    continued = {row[2].rpartition(".")[2] for row in ROWS if row[0] == walk}
    opened = {each for each in results_of(module, name) if each.rpartition(".")[2] not in continued}
    assert not opened - set(CALLED.findall(listed)), f"Add them to the row of {module}:{name}."


@pytest.mark.parametrize("walk", WALKS)
def test_sums_are_current(walk: str) -> None:
    rows = [listed for name, _, _, listed in ROWS if name == walk]
    assert SUM.findall(WALKS[walk]) == [str(sum(len(CALLED.findall(listed)) for listed in rows))]
