"""Three tiers of tests: quick, landing (quick included) and deep (all); ``tests/conftest.py`` loads this as a plugin.

``--tier quick`` runs what needs no process, guest, browser or second database and costs no more than 0.3
processor-seconds a test; ``--tier landing`` all but what is marked ``deep``; without the option all tests run.
``--slice K/N`` runs the K-th of N parts of a tier, whole files, which take about equally long (tests/ledger.json).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.support import ledger_file
from tests.support.ledger_file import TIERS

NOT_QUICK = frozenset({"slow", "libvirt", "e2e", "compat", "ceph", "postgresql", "deep"})
"""Marks of tests that the quick tier leaves out."""
ON_GUESTS = "tests/host/"
"""The folder whose tests all need a real hypervisor."""
STARTING = "start_group"
"""The fixture that starts worker groups: its tests wait for processes."""
CHOSEN = "at_landing"
"""In a class that inherits a contract: the names of its tests that are not deep."""
TWICE = {"slow", "postgresql"}
"""Marks of tests that compute long and run on a second database: they are deep."""
OF_A_FILE = re.compile(r"^pytestmark = (?:\[[^\]]*\]|.*)", re.MULTILINE)
MARK = re.compile(r"pytest\.mark\.(\w+)")


def tier_of(marks: Iterable[str]) -> str:
    """Return the first tier that runs a test with these marks."""
    result = set(marks)
    if "deep" in result:
        return "deep"
    return "landing" if result & NOT_QUICK else "quick"


def runs(tier: str, marks: Iterable[str]) -> bool:
    """Whether a tier runs a test with these marks."""
    return TIERS.index(tier_of(marks)) <= TIERS.index(tier)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=TIERS, default="deep", help="which tests run")
    parser.addoption("--slice", metavar="K/N", type=_slice, help="run the K-th of N parts of the tier")


def _slice(text: str) -> tuple[int, int]:
    part, _, parts = text.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise ValueError(text)
    return int(part), int(parts)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out a file whose tests are all of a later tier: what it imports costs seconds."""
    if collection_path.suffix != ".py" or config.getoption("--tier") == "deep":
        return None
    marks = MARK.findall("\n".join(OF_A_FILE.findall(collection_path.read_text())))
    return True if not runs(config.getoption("--tier"), marks) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the tier and the slice, before ``-m`` is looked at."""
    marks = {item: _marks(item) for item in items}
    kept = [item for item in items if runs(config.getoption("--tier"), marks[item])]
    if config.getoption("--slice"):
        files = _part({item.nodeid.partition("::")[0] for item in kept}, *config.getoption("--slice"))
        kept = [item for item in kept if item.nodeid.partition("::")[0] in files]
    if len(kept) < len(items):
        left = set(kept)
        config.hook.pytest_deselected(items=[item for item in items if item not in left])
        items[:] = kept


def _marks(item: pytest.Item) -> set[str]:
    """Give a test the marks that follow from where it is and what it has, and return all its marks."""
    if item.nodeid.startswith(ON_GUESTS):
        item.add_marker("libvirt")
    if STARTING in getattr(item, "fixturenames", ()):
        item.add_marker("slow")
    kept = getattr(getattr(item, "cls", None), CHOSEN, None)
    if {mark.name for mark in item.iter_markers()} >= TWICE or (kept is not None and kept.isdisjoint(_names(item))):
        item.add_marker("deep")
    return {mark.name for mark in item.iter_markers()}


def _names(item: pytest.Item) -> set[str]:
    """Return a test's name with and without its parameters."""
    return {item.name, str(getattr(item, "originalname", item.name))}


def _part(files: set[str], part: int, parts: int) -> set[str]:
    """Return the files of one part: the longest first, each to the part that has least."""
    seconds = ledger_file.seconds_of_files()
    filled = [0.0] * parts
    chosen = set()
    for file in sorted(files, key=lambda file: (-seconds.get(file, 0.0), file)):
        least = filled.index(min(filled))
        filled[least] += seconds.get(file, 1.0)
        if least == part - 1:
            chosen.add(file)
    return chosen
