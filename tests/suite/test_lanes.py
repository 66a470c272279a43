"""Which worker collects which file, and in which order files run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import lanes, ledger_file
from tests.support.ledger_file import Entry, Ledger

ROOT = ledger_file.ROOT
LEDGER: Ledger = {
    "session": {"collection": {"landing": Entry(4, 90.0, 9.0, 900.0)}},
    **{f"tests/{n}.py": {"test_one": {"quick": Entry(40, 1.0, 1.0, float(n))}} for n in range(100)},
    **{f"tests/long_{n}.py": {"test_one": {"landing": Entry(1, 9.0, 9.0, 40.0)}} for n in range(10)},
}


@pytest.fixture(autouse=True)
def _ledger(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(ledger_file, "read", lambda: LEDGER)
    lanes._owners.cache_clear()
    yield
    lanes._owners.cache_clear()


@pytest.mark.parametrize("workers", [2, 3])
def test_workers_divide_the_time_and_share_what_is_long_and_has_few_tests(workers: int) -> None:
    owners = lanes._owners("landing", workers, 0.2, None)
    shared = LEDGER.keys() - owners.keys() - {"session"}
    assert len(shared) > 10
    assert all(file.startswith("tests/long_") for file in sorted(shared)[-10:])
    total = sum(ledger_file.seconds_of_files().values()) - 900
    seconds = ledger_file.seconds_of_files()
    assert 0.15 * total < sum(seconds[file] for file in shared) <= 0.2 * total
    filled = [sum(seconds[file] for file, each in owners.items() if each == owner) for owner in range(workers)]
    assert max(filled) - min(filled) < 10


def test_a_tier_divides_the_time_of_its_own_tests() -> None:
    owners = lanes._owners("quick", 2, 0.0, None)
    filled = [sum(n for n in range(100) if owners[f"tests/{n}.py"] == owner) for owner in (0, 1)]
    assert abs(filled[0] - filled[1]) < 10


def collects(file: str, worker: int, workers: int, monkeypatch: pytest.MonkeyPatch, **options: Any) -> bool:
    monkeypatch.setenv("PYTEST_XDIST_WORKER", f"gw{worker}")
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", str(workers))
    given = {"loadgroup": True, "--lanes": False, "--tier": "landing", "--slice": None} | options
    config: Any = SimpleNamespace(rootpath=ROOT, getoption=lambda name, default=None: given.get(name, default))
    return lanes.pytest_ignore_collect(ROOT / file, config) is None


COMPUTES, WAITS = "tests/suite/test_lanes.py", "tests/host/test_boots.py"


@pytest.mark.parametrize(
    ("file", "workers", "options", "takers"),
    [
        (COMPUTES, 4, {"--lanes": True}, {0, 2, 4, 5}),
        (WAITS, 4, {"--lanes": True}, {1, 3, 4, 5}),
        (WAITS, 2, {}, {0, 1, 2, 3, 4, 5}),
        (COMPUTES, 4, {"loadgroup": False}, {0, 1, 2, 3, 4, 5}),
        (COMPUTES, 1, {"--lanes": True}, {0, 1, 2, 3, 4, 5}),
        (WAITS, 1, {"--lanes": True}, {0, 1, 2, 3, 4, 5}),
    ],
)
def test_a_file_that_the_ledger_lacks_is_collected_by_all_of_its_lane_and_by_replacements(
    file: str, workers: int, options: dict[str, Any], takers: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {each for each in range(6) if collects(file, each, workers, monkeypatch, **options)} == takers


@pytest.mark.parametrize("sliced", [None, (1, 2)])
def test_each_file_of_the_ledger_has_a_worker(sliced: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_file, "read", lambda: {f"tests/test_{n}.py": LEDGER["tests/7.py"] for n in range(9)})
    result = [
        [worker for worker in range(4) if collects(f"tests/test_{n}.py", worker, 4, monkeypatch, **{"--slice": sliced})]
        for n in range(9)
    ]
    assert all(len(each) == 1 for each in result)


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("def test_one(cloud: OneMachine): ...", "cloud"),
        ("def cloud(simulated: OneMachine) -> OneMachine: ...\ndef test_one(cloud: OneMachine): ...", "simulated"),
        ("def simulated(restoring: OneMachine): ...\ndef test_one(simulated: OneMachine): ...", "restoring"),
        ("def cloud() -> Iterator[OneMachine]: ...\ndef test_one(cloud: OneMachine): ...", "tests/e2e/test_one.py"),
        ("def test_one(): ...", "tests/e2e/test_one.py"),
    ],
)
def test_files_that_share_a_cloud_are_one_piece_of_work(text: str, piece: str, tmp_path: Path) -> None:
    file = tmp_path / "tests/e2e/test_one.py"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    assert lanes._piece("tests/e2e/test_one.py", tmp_path) == piece
