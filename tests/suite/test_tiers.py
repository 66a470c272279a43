"""Which tests a tier runs, how they are divided, and what the ledger of the suite says and refuses."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support import ledger_file, tiers
from tests.support.ledger_file import BUDGETS, CALIBRATED, CALIBRATION, Entry, Ledger

ROOT = ledger_file.ROOT
FILES = ["a", "b", "c", "d", "new"]


@pytest.mark.parametrize(
    ("marks", "tier"),
    [
        ([], "quick"),
        (["django_db", "both_databases"], "quick"),
        *(([mark], "landing") for mark in sorted(tiers.NOT_QUICK - {"deep"})),
        (["libvirt", "deep"], "deep"),
    ],
)
def test_a_test_belongs_to_the_first_tier_that_runs_it(marks: list[str], tier: str) -> None:
    assert tiers.tier_of(marks) == tier
    assert [each for each in tiers.TIERS if tiers.runs(each, marks)] == list(tiers.TIERS[tiers.TIERS.index(tier) :])


@pytest.mark.parametrize("parts", [1, 2, 3, 5, 8])
def test_slices_have_each_file_once_and_are_equally_long(parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    long = {"a": 50.0, "b": 30.0, "c": 20.0, "d": 10.0}
    monkeypatch.setattr(ledger_file, "seconds_of_files", lambda: long)
    result = [tiers._part(set(FILES), part, parts) for part in range(1, parts + 1)]
    assert sorted(file for files in result for file in files) == FILES
    assert max(sum(long.get(file, 1.0) for file in files) for files in result) <= max(50.0, 111 / parts + 10)


@pytest.mark.parametrize("text", ["0/3", "4/3", "2", "a/b", "-1/2", "1/"])
def test_a_slice_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        tiers._slice(text)


def row(name: str, tier: str, cost: float, *, session: bool = False) -> dict[str, Any]:
    return {"id": name, "tier": tier, "cost": cost, "seconds": 2 * cost} | ({"session": True} if session else {})


def test_a_run_replaces_what_the_ledger_has_of_its_functions() -> None:
    before: Ledger = {
        "tests/a.py": {"test_one": {"quick": Entry(3, 9.0, 9.0, 9.0)}, "test_two": {"deep": Entry(1, 7.0, 7.0, 7.0)}},
        "session": {"collection": {"deep": Entry(4, 90.0, 25.0, 30.0)}},
    }
    rows = [
        row("tests/a.py::test_one[x]", "quick", 0.1),
        row("tests/a.py::test_one[a::b]", "quick", 0.25),
        row("tests/a.py::test_one[postgresql]", "landing", 1.0),
        row("tests/a.py::TestThese::test_one", "landing", 2.0),
        row("collection", "landing", 20.0, session=True),
        row("collection", "landing", 22.0, session=True),
    ]
    assert ledger_file.taken_over(before, rows) == {
        "tests/a.py": {
            "TestThese::test_one": {"landing": Entry(1, 2.0, 2.0, 4.0)},
            "test_one": {"quick": Entry(2, 0.35, 0.25, 0.7), "landing": Entry(1, 1.0, 1.0, 2.0)},
            "test_two": {"deep": Entry(1, 7.0, 7.0, 7.0)},
        },
        "session": {"collection": {"deep": Entry(4, 90.0, 25.0, 30.0), "landing": Entry(2, 42.0, 22.0, 84.0)}},
    }


def test_costs_are_those_of_the_processor_that_the_budgets_are_set_for() -> None:
    slow = [row(CALIBRATION, "landing", times * CALIBRATED, session=True) for times in (1.5, 2.5)]
    rows = [row("tests/a.py::test_one", "quick", 0.5), *slow]
    result = ledger_file.taken_over({}, rows)
    assert result["tests/a.py"] == {"test_one": {"quick": Entry(1, 0.25, 0.25, 1.0)}}


def test_what_a_whole_run_did_not_run_has_left_its_tier() -> None:
    entry = Entry(1, 1.0, 1.0, 1.0)
    before: Ledger = {"tests/a.py": {"test_one": {"landing": entry, "deep": entry}, "test_two": {"quick": entry}}}
    rows = [row("tests/a.py::test_three", "quick", 1.0), row("controller", "landing", 1.0, session=True)]
    assert ledger_file.taken_over(before, rows)["tests/a.py"].keys() == {"test_one", "test_two", "test_three"}
    rows[-1]["whole"] = True
    left = ledger_file.taken_over(before, rows)["tests/a.py"]
    assert {name: list(tiers) for name, tiers in left.items()} == {"test_one": ["deep"], "test_three": ["quick"]}


def test_functions_that_are_gone_leave_the_ledger(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def test_kept(): ...\nasync def test_too(): ...\nclass TestThese(Contract): ...\n")
    entry = {"quick": Entry(1, 0.0, 0.0, 0.0)}
    functions = dict.fromkeys(("test_kept", "test_too", "test_gone", "TestThese::test_x", "TestGone::test_x"), entry)
    session = {"collection": entry}
    result = ledger_file.known({"a.py": functions, "gone.py": functions, "session": session}, tmp_path)
    assert result == {
        "a.py": dict.fromkeys(("test_kept", "test_too", "TestThese::test_x"), entry),
        "session": session,
    }


def test_a_tier_over_its_budget_and_a_dear_test_without_a_mark_are_named() -> None:
    quick, landing = BUDGETS["quick"], BUDGETS["landing"]
    fits: Ledger = {
        "tests/a.py": {
            "test_many": {"quick": Entry(900, quick - 20, 0.3, 1.0), "deep": Entry(1, 9999.0, 9999.0, 1.0)},
            "test_long": {"landing": Entry(1, landing - quick - 40, 900.0, 1.0)},
        },
        "session": {"collection": {"quick": Entry(2, 20.0, 10.0, 1.0), "landing": Entry(4, 60.0, 10.0, 1.0)}},
    }
    assert list(ledger_file.wrong(fits)) == []
    over = {**fits, "tests/b.py": {"test_dear": {"quick": Entry(50, quick * 0.2, 0.31, 1.0)}}}
    first, second = ledger_file.wrong(over)
    assert first.startswith(f"the quick tier costs {quick * 1.2:,.0f} ")
    assert second.startswith("tests/b.py::test_dear costs 0.31 ")


TESTS = {
    "test_computes.py": "def test_computes(): assert True\n",
    "test_waits.py": (
        "import pytest\npytestmark = [\n    pytest.mark.e2e,\n    pytest.mark.filterwarnings('default')]\n"
        "def test_waits(): assert True\n"
    ),
    "test_deep.py": "import pytest\npytestmark = pytest.mark.deep\ndef test_deep(): assert True\n",
}


@pytest.mark.slow  # three runs of pytest with workers
@pytest.mark.parametrize(
    ("arguments", "run"),
    [
        pytest.param(["--tier", "quick"], {"test_computes"}, marks=pytest.mark.deep),
        (["--tier", "landing", "-n", "4", "--dist", "loadgroup", "--lanes"], {"test_computes", "test_waits"}),
        pytest.param(
            ["-n", "2", "--dist", "loadgroup"], {"test_computes", "test_waits", "test_deep"}, marks=pytest.mark.deep
        ),
    ],
    ids=["quick", "landing in lanes", "deep"],
)
def test_every_test_of_a_tier_runs_once_on_whichever_worker(
    tmp_path: Path, arguments: Sequence[str], run: set[str]
) -> None:
    for name, text in TESTS.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    e2e\n    deep\n")
    names = ["xdist", *(f"tests.support.{name}" for name in ("tiers", "lanes", "ledger"))]
    plugins = [word for name in names for word in ("-p", name)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugins, *arguments, "--ledger=rows"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    result = [json.loads(line) for line in (tmp_path / "rows").read_text().splitlines()]
    assert sorted(each["id"].rpartition("::")[2] for each in result if not each.get("session")) == sorted(run)
    assert f"{len(run)} tests, " in done.stdout
