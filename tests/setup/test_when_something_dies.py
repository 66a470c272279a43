"""The page docs/when-something-dies.md has its form, and the tests, settings and pages that it names exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.support.one_machine import CHECKOUT

PAGE = CHECKOUT / "docs/when-something-dies.md"
SECTIONS = re.findall(r"^## (.+)$\n\n((?:^\|.*$\n?)+)", PAGE.read_text(), re.MULTILINE)
ROWS = ["Effect", "Loss", "Recovery", "Operator action", "Tests"]
WANTED = ["worker process", "worker group", "web", "supervisor", "agent", "host", "guest", "database", "disk is full"]
NAMED = sorted({name for _, table in SECTIONS for name in re.findall(r"`(tests/[^`]+)`", table)})


def names_in(path: Path) -> set[str]:
    """Return the names of the tests and test classes in a module."""
    result = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            result.add(node.name)
    return {name for name in result if name.lower().startswith("test")}


def test_every_death_has_an_answer_to_every_question() -> None:
    assert len(SECTIONS) >= 13
    for title, table in SECTIONS:
        assert re.findall(r"^\| ([A-Z][^|]*?) \| .{2}", table, re.MULTILINE) == ROWS, title
        assert "`tests/" in table, f"no test proves what is said of: {title}"
    titles = " ".join(title.lower() for title, _ in SECTIONS)
    assert [word for word in [*WANTED, "queue", "wake-up", "browser"] if word not in titles] == []


@pytest.mark.parametrize("named", NAMED)
def test_each_named_test_is_there(named: str) -> None:
    path, _, name = named.partition("::")
    assert (CHECKOUT / path).is_file(), f"there is no {path}"
    assert name in names_in(CHECKOUT / path), f"{path} has no {name}"


def test_each_named_setting_is_in_the_guide() -> None:
    guide = (CHECKOUT / "docs/settings.md").read_text()
    missing = {name for name in re.findall(r"`(NOVELLA_\w+)`", PAGE.read_text()) if f"| `{name}` |" not in guide}
    assert missing == set()


def test_each_link_leads_somewhere() -> None:
    for target, anchor in re.findall(r"\]\(([a-z-]+\.md)(?:#([a-z-]+))?\)", PAGE.read_text()):
        text = (PAGE.parent / target).read_text()
        heads = {head.lower().replace(" ", "-") for head in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}
        assert not anchor or anchor in heads, f"{target} has no #{anchor}"


@pytest.mark.parametrize("page", ["README.md", "docs/operator-guide.md", "docs/architecture.md"])
def test_it_is_found_from_other_pages(page: str) -> None:
    assert "when-something-dies.md" in (CHECKOUT / page).read_text()
