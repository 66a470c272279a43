"""In which order the tests run, and which of them share a worker: the longest first, a file on one worker.

``tests/conftest.py`` loads this module as a plugin; it works with ``-n 2 --dist loadgroup``.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadGroupScheduling

FIRST = ("libvirt", "e2e", "compat", "postgresql", "slow")
"""Marks of tests that wait for guests, browsers and processes, those that take longest first."""


def _rank(item: pytest.Item) -> int:
    """The place of a test in the order of the whole; one worker is busy with the one real cloud from the beginning."""
    if item.get_closest_marker("xdist_group"):
        return 0
    marks = [item.get_closest_marker(name) is not None for name in FIRST]
    return 1 + marks.index(True) if any(marks) else 1 + len(FIRST)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order whole files: each comes where the longest of its tests belongs."""
    ranks: dict[Path, int] = {}
    for item in items:
        ranks[item.path] = min(_rank(item), ranks.get(item.path, len(FIRST) + 1))
    items.sort(key=lambda item: ranks[item.path])


class Lanes(LoadGroupScheduling):
    """Gives a worker a group of tests, or a whole file."""

    def _split_scope(self, nodeid: str) -> str:
        return super()._split_scope(nodeid).partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Lanes | None:
    if config.getvalue("dist") != "loadgroup":
        return None
    config.option.loadscopereorder = False
    return Lanes(config, log)
