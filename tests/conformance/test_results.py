"""What bin/conformance makes of a suite's results: counts, known differences, skips, tables and pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tables import each_row
from tools.bench.cloud import BenchError
from tools.conformance import results, table
from tools.conformance.results import Known, KnownDifferences, Result, Verdict

API = "tempest.api.volume.test_volumes.VolumesTest"
KNOWN = KnownDifferences(
    fails=[Known("meant so", test=f"{API}.test_known")], skips=[Known("left out", said="not enabled")]
)


def passed(name: str) -> Result:
    return Result(f"{API}.{name}", Verdict.PASSED)


def failed(name: str, detail: str = "Traceback\n  of it\nError: no") -> Result:
    return Result(f"{API}.{name}", Verdict.FAILED, 1.0, detail)


def skipped(name: str, reason: str) -> Result:
    return Result(f"{API}.{name}", Verdict.SKIPPED, 0.0, reason)


@each_row(
    "rows, clean, strict, cells",
    [
        ([passed("test_a")], True, True, ("1", "1", "0", "0", "0", "0")),
        ([passed("test_a"), failed("test_b")], False, False, ("2", "1", "1", "0", "0", "0")),
        ([failed("test_known")], True, True, ("1", "0", "0", "1", "0", "0")),
        ([passed("test_known")], False, False, ("1", "1", "0", "0", "0", "0")),
        ([skipped("test_c", "it is not enabled")], True, True, ("1", "0", "0", "0", "1", "0")),
        ([skipped("test_c", "for no reason")], True, False, ("1", "0", "0", "0", "1", "0")),
        (
            [passed("test_a"), Result(f"tearDownClass ({API})", Verdict.FAILED)],
            False,
            False,
            ("1", "1", "0", "0", "0", "1"),
        ),
    ],
)
def test_what_is_clean(rows: list[Result], clean: bool, strict: bool, cells: tuple[str, ...]) -> None:
    judged = results.judge(rows, KNOWN)
    assert judged.clean(every_skip=False) is clean
    assert judged.clean(every_skip=True) is strict
    assert table.rows(judged) == [("volume", *cells), ("all", *cells)]


def test_a_class_that_is_not_set_up_speaks_for_its_tests() -> None:
    other = API.replace("VolumesTest", "SkippedTest")
    rows = [
        Result(f"{API}.test_a", Verdict.PASSED, 2.0),
        Result(f"setUpClass ({other})", Verdict.SKIPPED, 0.0, "not enabled"),
        Result("setUpClass (tempest.api.image.test_x.Broken)", Verdict.FAILED, 0.0, "Conflict"),
        Result(f"tearDownClass ({API})", Verdict.FAILED, 0.0, "Conflict"),
        Result(f"tearDownClass ({other})", Verdict.PASSED),
    ]
    requested = [
        f"{API}.test_a[id-1,smoke]",
        f"{other}.test_b[id-2]",
        "tempest.api.image.test_x.Broken.test_c[id-3]",
        f"{API}.test_lost",
    ]
    result = results.complete(requested, rows)
    assert [(each.verdict, each.detail) for each in result] == [
        (Verdict.PASSED, ""),
        (Verdict.SKIPPED, "not enabled"),
        (Verdict.FAILED, "Conflict"),
        (Verdict.FAILED, "the suite said nothing of it"),
        (Verdict.FAILED, "Conflict"),
    ]


@each_row(
    "test, service",
    [
        (f"{API}.test_a", "volume"),
        (f"tearDownClass ({API})", "volume"),
        ("tempest.serial_tests.api.compute.test_x.T.test_a", "compute"),
        ("tempest.scenario.test_minimum_basic.T.test_a", "scenario"),
        ("tempest.serial_tests.scenario.test_x.T.test_a", "scenario"),
        ("other", "other"),
    ],
)
def test_services(test: str, service: str) -> None:
    assert Result(test, Verdict.PASSED).service == service


def test_results_are_kept_and_read_again(tmp_path: Path) -> None:
    rows = [passed("test_a"), failed("test_b"), skipped("test_c", "not enabled")]
    results.write(tmp_path / "results.json", rows, {"Date": "2026-11-29"})
    assert results.read(tmp_path / "results.json") == (rows, {"Date": "2026-11-29"})


@each_row(
    "text",
    [
        '[[fails]]\ntest = "tempest.x"',
        '[[skips]]\nwhy = "so"',
        '[[skips]]\nwhy = "so"\nreason = "of the wrong name"',
    ],
)
def test_each_difference_has_its_reason(text: str, tmp_path: Path) -> None:
    (tmp_path / "known.toml").write_text(text)
    with pytest.raises(ValueError, match="needs why"):
        results.known_differences(tmp_path / "known.toml")


def test_the_known_differences_can_be_read() -> None:
    known = results.known_differences(results.KNOWN)
    assert any(each.fits(skipped("test_a", "Change password not available.")) for each in known.skips)


def test_the_terminal_is_notified_of_what_to_look_at() -> None:
    judged = results.judge([failed("test_b"), passed("test_known"), skipped("test_c", "for no reason")], KNOWN)
    text = "\n".join(table.text(judged))
    assert f"{API}.test_b  Error: no" in text
    assert "Passed although known.toml says" in text
    assert f"{API}.test_c  for no reason" in text


def test_a_page_gets_the_table_of_one_list(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Page\n\n<!-- core begins -->\nold\n<!-- core ends -->\n<!-- full begins -->\nkept\n<!-- full ends -->\n"
    )
    judged = results.judge([failed("test_known"), skipped("test_c", "not enabled"), failed("test_b")], KNOWN)
    table.write_page(page, "core", table.markdown(judged, {"Date": "2026-11-29", "tempest": "47"}))
    text = page.read_text()
    assert "Date 2026-11-29, tempest 47." in text
    assert "| volume | 3 | 0 | 1 | 1 | 1 | 0 |" in text
    assert f"- `{API}.test_known`: meant so" in text
    assert "| left out | 1 |" in text
    assert "old" not in text
    assert "kept" in text
    with pytest.raises(BenchError, match="smoke"):
        table.write_page(page, "smoke", [])
