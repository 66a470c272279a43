"""The benchmark says what it does; its figures are for people, so none is tested."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


def test_bench_explains_itself() -> None:
    said = subprocess.run(
        [sys.executable, str(CHECKOUT / "bin/libexec"), "bench", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert "--launches" in said
    assert "--real-launches" in said


def test_bench_refuses_what_it_does_not_know() -> None:
    done = subprocess.run(
        [sys.executable, str(CHECKOUT / "bin/libexec"), "bench", "--quick"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "--quick" in done.stderr


def code_in_strings() -> Iterator[tuple[str, str]]:
    """Each ``from … import …`` of ours inside a string that a program hands to ``manage.py shell``."""
    for path in (CHECKOUT / "bin/libexec").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from re.findall(r"from ((?:provisioning|portal)[\w.]*) import (\w+)", node.value)


def test_what_measurements_import_is_there() -> None:
    found = set(code_in_strings())
    assert ("provisioning.quotas.services.limits", "set_limit") in found
    for module, name in found:
        assert hasattr(importlib.import_module(module), name), f"{module} has no {name}"
