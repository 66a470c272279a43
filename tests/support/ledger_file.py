"""The committed ledger ``tests/ledger.json``: for each test function and tier the tests, their cost and their time.

``python -m tests.support.ledger_file update FILE…`` takes over the rows that runs have written with ``--ledger=FILE``;
``… check`` fails when a tier passes its budget or a test without a mark costs too much; ``… show`` prints the tiers.
Costs are processor-seconds of the processor that the budgets are set for: those that a run measured are multiplied by
what its calibrations took there and in the run.  Times are seconds.
"""

from __future__ import annotations

import ast
import functools
import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PATH = ROOT / "tests" / "ledger.json"
TIERS = ("quick", "landing", "deep")
SESSION = "session"
"""In the place of a file: what the start, the collection and the fixtures of a whole run cost, by its tier."""
CALIBRATION = "calibration"
"""Name of the rows of a session whose cost is that of a calculation that is always the same."""
CALIBRATED = 0.0105
"""Processor-seconds that it takes on the processor that the budgets are set for."""
BUDGETS = {"quick": 240.0, "landing": 1440.0}
"""Processor-seconds of a run of each tier."""
OVER = 1.1
"""How far a tier may be above its budget: a cost that is measured again differs by so much."""
DEAREST = 0.3
"""Processor-seconds that a test without a mark may cost."""


class Entry(NamedTuple):
    """The tests of one function in one tier."""

    items: int
    cost: float
    dearest: float
    seconds: float


Ledger = dict[str, dict[str, dict[str, Entry]]]
"""By file, function (``Class::function`` for methods) and tier."""


@functools.cache
def read() -> Ledger:
    """Return the committed ledger; an empty one when there is none."""
    if not PATH.exists():
        return {}
    rows = json.loads(PATH.read_text())
    return {
        file: {name: {tier: Entry(*entry) for tier, entry in tiers.items()} for name, tiers in functions.items()}
        for file, functions in rows.items()
    }


def seconds_of_files() -> dict[str, float]:
    """Return how long the tests of each file take."""
    return {
        file: sum(entry.seconds for tiers in functions.values() for entry in tiers.values())
        for file, functions in read().items()
    }


def costs(ledger: Ledger) -> dict[str, float]:
    """Return what each tier costs, those before it included, and the start of a run of it."""
    own: dict[str, float] = defaultdict(float)
    for file, functions in ledger.items():
        for tiers in functions.values():
            for tier, entry in tiers.items() if file != SESSION else ():
                own[tier] += entry.cost
    start = {tier: sum(entry.cost for entry in _of(ledger, SESSION, tier)) for tier in TIERS}
    quick, landing = own["quick"], own["quick"] + own["landing"]
    return {
        "quick": quick + start["quick"],
        "landing": landing + start["landing"],
        "deep": landing + own["deep"] + start["deep"],
    }


def _of(ledger: Ledger, file: str, tier: str) -> Iterator[Entry]:
    return (tiers[tier] for tiers in ledger.get(file, {}).values() if tier in tiers)


def taken_over(ledger: Ledger, rows: Iterable[dict[str, Any]]) -> Ledger:
    """Return the ledger with the rows of one run: they replace what it has of their functions in the tiers of the run.

    A row: the test's ``id``, the ``tier`` it belongs to (of a row of the session: that of the run), ``cost`` and
    ``seconds``; the last one of a run says with ``whole`` whether all tests of its tier ran: what has no row then has
    left the tier.
    """
    result: dict[tuple[str, str], dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    run, whole = "quick", False
    for row in rows:
        file, _, name = row["id"].partition("::")
        place = (SESSION, row["id"]) if row.get(SESSION) else (file, name.partition("[")[0])
        result[place][row["tier"]].append(row)
        run = max(run, row["tier"], key=TIERS.index)
        whole = whole or row.get("whole", False)
    ran = TIERS[: TIERS.index(run) + 1]
    calibrations = [float(row["cost"]) for row in result.get((SESSION, CALIBRATION), {}).get(run, [])]
    speed = CALIBRATED / statistics.median(calibrations) if calibrations else 1.0
    new: Ledger = defaultdict(dict)
    for file, functions in ledger.items():
        for name, tiers in functions.items():
            replaced = () if file == SESSION else ran if whole or (file, name) in result else ()
            new[file][name] = {tier: entry for tier, entry in tiers.items() if tier not in replaced}
    for (file, name), of_tiers in result.items():
        entries = {tier: _entry(each, speed) for tier, each in of_tiers.items()}
        new[file][name] = {**new[file].get(name, {}), **entries}
    left = {file: {name: tiers for name, tiers in sorted(of.items()) if tiers} for file, of in sorted(new.items())}
    return {file: functions for file, functions in left.items() if functions}


def _entry(rows: Sequence[dict[str, Any]], speed: float) -> Entry:
    spent = [speed * float(row["cost"]) for row in rows]
    seconds = sum(float(row["seconds"]) for row in rows)
    return Entry(len(rows), round(sum(spent), 2), round(max(spent), 2), round(seconds, 1))


def known(ledger: Ledger, root: Path = ROOT) -> Ledger:
    """Return the ledger without the functions and classes that are gone."""
    left = {}
    for file, functions in ledger.items():
        there = _defined(root / file)
        left[file] = {name: of for name, of in functions.items() if file == SESSION or name.partition("::")[0] in there}
    return {file: functions for file, functions in left.items() if functions}


def _defined(path: Path) -> set[str]:
    """Return the names of a file's functions and classes."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return (
        {node.name for node in ast.parse(path.read_text()).body if isinstance(node, kinds)} if path.exists() else set()
    )


def wrong(ledger: Ledger) -> Iterator[str]:
    """Yield what passes a budget."""
    spent = costs(ledger)
    for tier, budget in BUDGETS.items():
        if spent[tier] > budget * OVER:
            yield f"the {tier} tier costs {spent[tier]:,.0f} processor-seconds, and {budget:,.0f} are asked"
    for file, functions in ledger.items():
        for name, tiers in functions.items() if file != SESSION else ():
            if "quick" in tiers and tiers["quick"].dearest > DEAREST:
                yield f"{file}::{name} costs {tiers['quick'].dearest} processor-seconds: mark it slow, or make it cheap"


def write(ledger: Ledger) -> None:
    """Write one line for each function."""
    files = []
    for file, functions in ledger.items():
        lines = [f"  {json.dumps(name)}: {json.dumps(tiers)}" for name, tiers in functions.items()]
        files.append(f"{json.dumps(file)}: {{\n" + ",\n".join(lines) + "\n}")
    PATH.write_text("{\n" + ",\n".join(files) + "\n}\n")


def show(ledger: Ledger) -> str:
    """Return a line for each tier: what a run of it costs."""
    return "\n".join(f"{tier:8}{cost:8,.0f} processor-seconds" for tier, cost in costs(ledger).items())


def main(command: str, *files: str) -> int:
    """Update, check or show the ledger."""
    ledger = read()
    if command == "update":
        rows = [json.loads(line) for file in files for line in Path(file).read_text().splitlines()]
        write(known(taken_over(ledger, rows)))
        read.cache_clear()
        ledger = read()
    result = list(wrong(ledger)) if command == "check" else []
    print("\n".join(result) if command == "check" else show(ledger))
    return 1 if result else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
