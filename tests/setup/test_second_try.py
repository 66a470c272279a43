"""The few tests that fail and are run again by bin/test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import failed_once


@pytest.mark.parametrize(("failed", "again"), [(0, False), (1, True), (6, True), (7, False)])
def test_up_to_six_files_with_failures_are_tried_again(
    failed: int, again: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [f"tests/{number}.py" for number in range(failed)]
    names = [f"{file}::test_{number}" for file in files for number in range(9)]
    kept = tmp_path / "lastfailed"
    kept.write_text(json.dumps(dict.fromkeys(names, True)))
    monkeypatch.setattr(failed_once, "KEPT", kept)
    assert failed_once.main() == (0 if again else 1)
    assert capsys.readouterr().out.split() == names
    failed_once.main("--files")
    assert capsys.readouterr().out.split() == files


def test_nothing_is_tried_again_of_a_run_that_kept_no_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failed_once, "KEPT", tmp_path / "none")
    assert failed_once.main() == 1
