"""In which order the tests run and on which worker; ``tests/conftest.py`` loads this module as a plugin.

With ``--dist loadgroup`` the workers divide the files among them before they collect any, by how long these take
(tests/ledger.json): collecting a file costs each worker that does it.  Files with few and long tests are collected by
all and run last, so that no worker waits long for another.  With ``--lanes`` every other worker takes the files whose
tests wait for guests, browsers, clients and Ceph, the rest divide those that compute: so a guest that boots leaves its
core to a test that computes.  Files that take longest come first, a file at a time.  Files that share a cloud of the
session are one piece of work, so that it is started once.
"""

from __future__ import annotations

import functools
import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadGroupScheduling
from xdist.workermanage import WorkerController

from tests.support import ledger_file
from tests.support.ledger_file import TIERS

SHARED = 0.2
"""Of the time of files that are divided: how much all workers collect."""
COLLECTED_IN = 0.001
"""Seconds that one test of a file takes to collect."""
WAITING = re.compile(r"mark\.(libvirt|e2e|compat|ceph)\b")
FOLDERS = ("tests/host/", "tests/e2e/")
"""Of tests that all wait."""
END_TO_END = "tests/e2e/"
CLOUDS = {name: re.compile(rf"\b{name}: OneMachine") for name in ("restoring", "simulated", "cloud")}
"""By the fixture of the session, a file's first one counts: one that it calls ``cloud`` may be another."""
SESSION = pytest.StashKey[pytest.Session]()
OWN = re.compile(r"^def (?:_?cloud|simulated)\(.*\) -> Iterator\[OneMachine\]", re.MULTILINE)
"""A file that starts a cloud for itself."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--lanes", action="store_true", help="let every other worker run what waits (with -n)")


def pytest_sessionstart(session: pytest.Session) -> None:
    session.config.stash[SESSION] = session


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the files of other workers to them; one that replaces a worker that died takes all files."""
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = range(int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "0")))
    divided = config.getoption("loadgroup", False) and number in workers and len(workers) > 1
    if not divided or not collection_path.name.startswith("test_"):
        return None
    lanes = bool(config.getoption("--lanes"))
    if lanes and _waits(collection_path, config.rootpath):
        return None if number % 2 else True
    takers = workers[::2] if lanes else workers
    shared = 0.0 if config.getoption("--slice") else SHARED  # each worker finds the slice of what it has collected
    owners = _owners(config.getoption("--tier"), len(takers), shared, config.rootpath if lanes else None)
    owner = owners.get(str(collection_path.relative_to(config.rootpath)))
    return None if number in takers and owner in {None, takers.index(number)} else True


@functools.cache
def _waits(path: Path, root: Path) -> bool:
    """Whether the tests of a file wait for something that runs elsewhere."""
    return str(path.relative_to(root)).startswith(FOLDERS) or bool(WAITING.search(path.read_text()))


@functools.cache
def _owners(tier: str, workers: int, shared: float, computing_in: Path | None) -> dict[str, int]:
    """Return which worker collects each file that the ledger has; those that all of them collect are left out.

    ``computing_in`` is the folder of the checkout when files that wait are no part of the division.
    """
    seconds: dict[str, float] = {}
    items: dict[str, int] = {}
    for file, functions in ledger_file.read().items():
        if file == ledger_file.SESSION:
            continue
        if computing_in and (not (computing_in / file).is_file() or _waits(computing_in / file, computing_in)):
            continue
        entries = [
            entry
            for tiers in functions.values()
            for name, entry in tiers.items()
            if TIERS.index(name) <= TIERS.index(tier)
        ]
        seconds[file] = sum(entry.seconds for entry in entries)
        items[file] = sum(entry.items for entry in entries)
    left = shared * sum(seconds.values())
    most = left / 10
    filled = [0.0] * workers
    owners = {}
    for file in sorted(seconds, key=lambda file: -seconds[file] / max(items[file], 1)):
        if 0 < seconds[file] <= min(most, left):
            left -= seconds[file]
            del items[file]
    for file in sorted(items, key=lambda file: (-seconds[file], file)):
        owners[file] = least = filled.index(min(filled))
        filled[least] += seconds[file] + COLLECTED_IN * items[file]
    return owners


@functools.cache
def _piece(file: str, root: Path) -> str:
    """Return the piece of work that a file belongs to: the file itself, or the cloud of the session that it uses."""
    text = (root / file).read_text() if file.startswith(END_TO_END) else ""
    if OWN.search(text):
        return file
    return next((name for name, pattern in CLOUDS.items() if pattern.search(text)), file)


class Lanes(LoadGroupScheduling):
    """Gives a worker the longest piece of work that is left of those that it has collected, its own ones first."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        self._places: dict[WorkerController, dict[str, int]] = {}
        self._pieces: dict[WorkerController, set[str]] = {}

    def _split_scope(self, nodeid: str) -> str:
        return _piece(nodeid.partition("::")[0], self.config.rootpath)

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        self.registered_collections[node] = list(collection)
        self._places[node] = {nodeid: place for place, nodeid in enumerate(collection)}
        self._pieces[node] = {self._split_scope(nodeid) for nodeid in collection}

    def schedule(self) -> None:
        if self.collection is None:
            self.collection = list(dict.fromkeys(each for of in self.registered_collections.values() for each in of))
            self.config.stash[SESSION].testscollected = len(self.collection)  # of which the progress shows a part
            seconds = ledger_file.seconds_of_files()
            long: dict[str, float] = {}
            pieces: dict[str, dict[str, bool]] = {}
            for nodeid in self.collection:
                pieces.setdefault(self._split_scope(nodeid), {})[nodeid] = False
            for file in {nodeid.partition("::")[0] for nodeid in self.collection}:
                piece = self._split_scope(file)
                long[piece] = long.get(piece, 0.0) + seconds.get(file, 0.0)
            holders = Counter(piece for of in self._pieces.values() for piece in of)
            for piece in sorted(pieces, key=lambda piece: (holders[piece], -long[piece])):
                self.workqueue[piece] = pieces[piece]
        for node in [*self.nodes, *self.nodes]:  # each begins with two pieces: a worker needs to know the next test
            self._reschedule(node)

    def _reschedule(self, node: WorkerController) -> None:
        if node.shutting_down or self._pending_of(self.assigned_work[node]) > 2:
            return
        piece = next((each for each in self.workqueue if each in self._pieces[node]), None)
        if piece is None:
            node.shutdown()
            return
        work = self.assigned_work[node][piece] = self.workqueue.pop(piece)
        node.send_runtest_some([self._places[node][nodeid] for nodeid, done in work.items() if not done])

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Forget a piece whose tests are all done: all that a worker has is counted again after every test."""
        super().mark_test_complete(node, item_index, duration)
        piece = self._split_scope(self.registered_collections[node][item_index])
        if all(self.assigned_work[node][piece].values()):
            del self.assigned_work[node][piece]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Lanes | None:
    return Lanes(config, log) if config.getvalue("dist") == "loadgroup" else None
