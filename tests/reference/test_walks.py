"""docs/walks.md names functions that exist, and calls that they have."""

from __future__ import annotations

import importlib
import inspect
import re
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from provisioning.jobs.registry import Job

ROW = re.compile(r"\| *\d+ \| `([\w.]+):([\w.]+)` \|[^|]*\|([^|]*)\|")
NAMED = re.compile(r"`((?:portal|provisioning|compute_agent)(?:\.\w+)+):([\w.]+)`")
PAGE = (Path(settings.BASE_DIR) / "docs/walks.md").read_text()
ROWS = ROW.findall(PAGE)


def found(module: str, name: str) -> Any:
    """Return a function, method or class; of a job, the function. Raises AttributeError."""
    value = reduce(getattr, name.split("."), importlib.import_module(module))
    return value.run if isinstance(value, Job) else value


def test_every_numbered_row_is_read() -> None:
    assert len(ROWS) == len(re.findall(r"^\| *\d+ \|", PAGE, re.M)) > 40


def test_named_functions_exist() -> None:
    for module, name in NAMED.findall(PAGE):
        assert callable(found(module, name)), f"{module}:{name}"


@pytest.mark.parametrize(("module", "name", "results"), ROWS)
def test_functions_call_what_their_row_names(module: str, name: str, results: str) -> None:
    source = inspect.getsource(inspect.unwrap(found(module, name)))
    missing = [each for each in re.findall(r"`([\w.]+)`", results) if not re.search(rf"(?<![\w.]){each}[(,)]", source)]
    assert not missing, f"{module}:{name} no longer calls {', '.join(missing)}."
