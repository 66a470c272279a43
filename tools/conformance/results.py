"""The results of a suite, compared with the known differences."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

KNOWN = Path(__file__).with_name("known.toml")
_FIXTURE = re.compile(r"^(setUpClass|tearDownClass) \((.+)\)$")

_TELLING = re.compile(r"Details: |[\w.]*(Error|Exception|exceptions\.\w+)\b")


class Verdict(StrEnum):
    """The possible verdicts of a test."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Result:
    """The result of a test, or of ``setUpClass (CLASS)`` or ``tearDownClass (CLASS)``. ``detail`` is the reason or the
    traceback.
    """

    test: str
    verdict: Verdict
    seconds: float = 0.0
    detail: str = ""

    @property
    def tear_down(self) -> bool:
        return self.test.startswith("tearDownClass")

    @property
    def service(self) -> str:
        """The API that the test is for, like ``compute``; ``scenario`` for tests of several APIs."""
        found = _FIXTURE.match(self.test)
        parts = (found[2] if found else self.test).split(".")
        if len(parts) < 3:
            return parts[0]
        if parts[1] == "serial_tests":
            parts = parts[1:]
        return "scenario" if parts[1] == "scenario" else parts[2]

    @property
    def last_line(self) -> str:
        """Return the most informative line: the answer's details, the exception, or the last one."""
        lines = [line.strip() for line in self.detail.splitlines() if line.strip()]
        return next((line for line in reversed(lines) if _TELLING.match(line)), lines[-1] if lines else "")


def plain(test: str) -> str:
    """Return a test's name without the ids and attributes at its end."""
    return test.partition("[")[0]


def complete(asked: Iterable[str], rows: Sequence[Result]) -> list[Result]:
    """Return one result for each requested test, and one for each failed tear-down of a class.

    If the set-up of a class fails or is skipped, the suite reports it once, and it applies to all tests of the class.
    """
    by_test = {plain(row.test): row for row in rows}
    found = []
    for test in map(plain, asked):
        row = by_test.get(test)
        if row is None:
            row = by_test.get(f"setUpClass ({test.rpartition('.')[0]})")
            detail = row.detail if row is not None else "the suite said nothing of it"
            verdict = row.verdict if row is not None and row.verdict is Verdict.SKIPPED else Verdict.FAILED
            row = Result(test, verdict, 0.0, detail)
        found.append(Result(test, row.verdict, row.seconds, row.detail))
    return found + [row for row in rows if row.tear_down and row.verdict is Verdict.FAILED]


@dataclass(frozen=True)
class Known:
    """A known difference, with the reason ``why``. ``test`` must match the beginning of a test's name, ``said`` a part
    of its detail.
    """

    why: str
    test: str = ""
    said: str = ""

    def fits(self, result: Result) -> bool:
        return re.match(self.test, result.test) is not None and re.search(self.said, result.detail) is not None


@dataclass(frozen=True)
class KnownDifferences:
    """Tests that fail and reasons for skipped tests, because this cloud does not have a feature."""

    fails: Sequence[Known] = ()
    skips: Sequence[Known] = ()


def known_differences(path: Path) -> KnownDifferences:
    """Read ``[[fails]]`` and ``[[skips]]``, each with ``why``, and ``test`` or ``said``.  Raises ValueError."""
    read = tomllib.loads(path.read_text())
    lists: dict[str, list[Known]] = {}
    for name in ("fails", "skips"):
        lists[name] = []
        for row in read.get(name, []):
            if not row.get("why") or not (row.get("test") or row.get("said")) or row.keys() - {"why", "test", "said"}:
                raise ValueError(f"{path.name}: a row of {name} needs why, and test or said: {row}")
            lists[name].append(Known(**row))
    return KnownDifferences(**lists)


@dataclass(frozen=True)
class Judged:
    """Results, classified by the known differences."""

    results: Sequence[Result]
    failures: Sequence[Result]
    """Unexpected failures, including tear-downs of classes."""
    differences: Sequence[tuple[Result, str]]
    """Known failures, with the reason."""
    passed_unexpectedly: Sequence[Result]
    skips: Mapping[str, Sequence[Result]]
    """Reason of known.toml → tests."""
    unexplained: Sequence[Result]
    """Skipped tests without a reason in known.toml."""

    def clean(self, *, every_skip: bool) -> bool:
        """Whether there are no unexpected results. With ``every_skip``, each skipped test must have a reason."""
        return not (self.failures or self.passed_unexpectedly or (every_skip and self.unexplained))


def judge(results: Sequence[Result], known: KnownDifferences) -> Judged:
    failures, differences, surprises, unexplained = [], [], [], []
    skips: dict[str, list[Result]] = {}
    for result in results:
        expected = next((each for each in known.fails if each.fits(result)), None)
        if result.verdict is Verdict.FAILED and expected is None:
            failures.append(result)
        elif result.verdict is Verdict.FAILED and expected is not None:
            differences.append((result, expected.why))
        elif result.verdict is Verdict.PASSED and any(
            each.test and not each.said and each.fits(result) for each in known.fails
        ):
            surprises.append(result)
        elif result.verdict is Verdict.SKIPPED:
            reason = next((each.why for each in known.skips if each.fits(result)), None)
            if reason is None:
                unexplained.append(result)
            else:
                skips.setdefault(reason, []).append(result)
    return Judged(results, failures, differences, surprises, skips, unexplained)


def write(path: Path, results: Sequence[Result], about: Mapping[str, str]) -> None:
    """Save results as JSON, so that they can be judged again or compared."""
    path.write_text(json.dumps({"about": dict(about), "results": [asdict(each) for each in results]}, indent=1) + "\n")


def read(path: Path) -> tuple[list[Result], dict[str, str]]:
    """Return the results and the description of their run."""
    kept = json.loads(path.read_text())
    return [Result(**row | {"verdict": Verdict(row["verdict"])}) for row in kept["results"]], kept["about"]
