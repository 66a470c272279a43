"""In which order the tests run and on which worker: a file on one worker, those that wait beside those that compute.

``tests/conftest.py`` loads this module as a plugin; it works with ``-n 4 --dist loadgroup``.  Half of the workers go
through the files from the first on and meet the other half, which begins with the last, in the middle: so the long
ones are begun early on both sides, and a guest that boots leaves its core to a test that computes.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadGroupScheduling
from xdist.workermanage import WorkerController

FIRST = ("libvirt", "e2e", "compat", "ceph")
"""Marks of tests that wait for guests, browsers, clients and Ceph, those that take longest first."""
LAST = ("postgresql", "slow")
"""Marks of tests that compute long, those that take longest last."""


def _rank(marks: set[str]) -> int:
    """The place of a file whose tests have these marks; those without any are between the others."""
    for place, mark in enumerate(FIRST, -len(FIRST)):
        if mark in marks:
            return place
    return max((place for place, mark in enumerate(LAST, 1) if mark in marks), default=0)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order whole files."""
    marks: dict[Path, set[str]] = {}
    for item in items:
        marks.setdefault(item.path, set()).update(mark.name for mark in item.iter_markers())
    ranks = {path: _rank(found) for path, found in marks.items()}
    items.sort(key=lambda item: ranks[item.path])


class Lanes(LoadGroupScheduling):
    """Gives a worker a whole file, every other worker from the end of the list."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0]

    def _assign_work_unit(self, node: WorkerController) -> None:
        if int(node.gateway.id.removeprefix("gw")) % 2:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Forget a file whose tests are all done: all that a worker has is counted again after every test."""
        super().mark_test_complete(node, item_index, duration)
        scope = self._split_scope(self.registered_collections[node][item_index])
        if all(self.assigned_work[node][scope].values()):
            del self.assigned_work[node][scope]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Lanes | None:
    if config.getvalue("dist") != "loadgroup":
        return None
    config.option.loadscopereorder = False
    return Lanes(config, log)
