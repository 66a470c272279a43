"""Generates docs/settings.md from the settings that each part of the portal declares."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from provisioning.common.environment import DECLARED

CHECKOUT = Path(__file__).resolve().parents[2]
PARTS = (
    "provisioning/common", "portal/settings/web", "portal/settings/data",
    "provisioning/identity", "provisioning/compute",
    "provisioning/cpus", "provisioning/drains", "provisioning/launches", "provisioning/scheduler", "provisioning/hosts",
    "provisioning/network", "provisioning/images", "provisioning/catalogue", "provisioning/volumes",
    "provisioning/jobs", "provisioning/measures", "provisioning/notifications", "provisioning/doctor",
)  # fmt: skip
"""In the order of the page."""
HEAD = """# Settings

<!-- Edit the docstrings in the settings of each part, and generate this page: WRITE_PAGES=1 pytest tests/reference -->

Settings of web, workers and commands come from the environment, are read once and validated; an invalid one stops the
start with a message. `bin/up` sets `NOVELLA_DATA`, `NOVELLA_PORT` and `NOVELLA_ROLE` itself. All processes need the
same settings. The settings of the agent are in the [operator guide](operator-guide.md#the-agent).
"""


def page() -> str:
    return HEAD + "".join(_part(part) for part in PARTS)


def _part(part: str) -> str:
    base = CHECKOUT / part
    path = next(each for each in (base / "settings.py", base / "__init__.py", base.with_suffix(".py")) if each.exists())
    tree = ast.parse(path.read_text())
    title = str(ast.get_docstring(tree)).rstrip(".")
    rows = "".join(_row(name, about) for name, about in _documented(tree))
    return f"\n## {title}\n\n| setting | default | values | |\n|---|---|---|---|\n{rows}"


def _documented(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the name of each setting, and the docstring below it."""
    for statement, after in zip(tree.body, [*tree.body[1:], ast.Pass()], strict=True):
        constants = (each.value for each in ast.walk(statement) if isinstance(each, ast.Constant))
        name = next((each for each in constants if each in DECLARED), None)
        if isinstance(statement, ast.Assign | ast.Expr) and name and _text(after):
            yield name, _text(after)


def _text(statement: ast.stmt) -> str:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return " ".join(str(statement.value.value).split())
    return ""


def _row(name: str, about: str) -> str:
    default, values = DECLARED[name]
    return f"| `{name}` | {default} | {values} | {about.replace('``', '`')} |\n"


def described(text: str) -> list[str]:
    return re.findall(r"^\| `(NOVELLA_\w+)` \|", text, re.MULTILINE)
