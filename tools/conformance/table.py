"""The table of a run, for the terminal and for a page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.bench.cloud import BenchError
from tools.conformance.results import Judged, Result, Verdict

HEADS = ("", "tests", "passed", "failed", "known differences", "skipped", "tear-downs failed")


def rows(judged: Judged) -> list[tuple[str, ...]]:
    """Return a row of texts for each service and one for all services, in the order of ``HEADS``."""
    services = sorted({result.service for result in judged.results})
    return [_row(judged, service, service) for service in services] + [_row(judged, "all", "")]


def _row(judged: Judged, label: str, service: str) -> tuple[str, ...]:
    def some(results: Sequence[Result]) -> list[Result]:
        return [each for each in results if not service or each.service == service]

    tests = [each for each in some(judged.results) if not each.tear_down]
    counts = Counter(each.verdict for each in tests)
    failures = some(judged.failures)
    torn = sum(each.tear_down for each in failures)
    known = len(some([each for each, _ in judged.differences]))
    numbers = (len(tests), counts[Verdict.PASSED], len(failures) - torn, known, counts[Verdict.SKIPPED], torn)
    return (label, *(f"{number:,}" for number in numbers))


def text(judged: Judged) -> list[str]:
    """Return the lines for a terminal: the table, followed by lists of failures and other unexpected results."""
    cells = [HEADS, *rows(judged)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(HEADS))]
    lines = [
        "  ".join(
            cell.rjust(width) if at else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]
    for heading, results in (
        ("Failed", judged.failures),
        ("Passed although known.toml says that they fail", judged.passed_unexpectedly),
        ("Skipped without a reason in known.toml", judged.unexplained),
    ):
        if results:
            lines += ["", f"{heading}:", *(f"  {each.test}  {each.last_line[:160]}".rstrip() for each in results)]
    return lines


def markdown(judged: Judged, about: Mapping[str, str]) -> list[str]:
    """Return the lines for a page: the table, failures, known differences, and reasons for skipped tests with their
    numbers.
    """
    lines = [", ".join(f"{name} {value}" for name, value in about.items()) + ".", ""]
    lines += [_line(HEADS), _line(["---", *["--:"] * (len(HEADS) - 1)]), *(_line(row) for row in rows(judged))]
    if judged.failures:
        lines += ["", "Failed:", "", *sorted(f"- `{each.test}`" for each in judged.failures)]
    if judged.differences:
        lines += ["", "Known differences:", "", *sorted(f"- `{each.test}`: {why}" for each, why in judged.differences)]
    if judged.skips:
        lines += ["", "Skipped:", "", _line(["reason", "tests"]), _line(["---", "--:"])]
        lines += [_line([why, str(len(tests))]) for why, tests in sorted(judged.skips.items())]
    if judged.unexplained:
        lines += ["", "Skipped without a reason:", "", *sorted(f"- `{each.test}`" for each in judged.unexplained)]
    return lines


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def write_page(page: Path, name: str, lines: Sequence[str]) -> None:
    """Replace the lines between the comments ``NAME begins`` and ``NAME ends`` of a page. Raises BenchError."""
    whole = page.read_text()
    begins, ends = f"<!-- {name} begins -->", f"<!-- {name} ends -->"
    pattern = re.compile(f"{re.escape(begins)}\n.*?{re.escape(ends)}", re.DOTALL)
    if not pattern.search(whole):
        raise BenchError(f"{page}: there is no place for {name}")
    new = "\n".join([begins, *lines, ends])
    page.write_text(pattern.sub(lambda _: new, whole))
