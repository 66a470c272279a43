"""What the services of bin/up are told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from up.data_folder import DataFolder
from up.programs import CHECKOUT, environment


def test_modules_of_the_operators_own_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme_placement.py").write_text("WORD = 'found'\n")
    (tmp_path / "portal.py").write_text("raise SystemExit('not this one')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    told = environment(DataFolder(tmp_path / "data", CHECKOUT / "var"), 8000)
    assert told["PYTHONPATH"].split(os.pathsep) == [str(CHECKOUT), str(tmp_path)]
    script = "import acme_placement, portal; print(acme_placement.WORD)"
    said = subprocess.run([sys.executable, "-c", script], env=told, cwd="/", capture_output=True, text=True, check=True)
    assert (said.stdout, said.stderr) == ("found\n", "")


def test_no_folder_is_added_where_none_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty part would be the folder that bin/up was called in."""
    for value in (None, ""):
        monkeypatch.setenv("PYTHONPATH", value or "")
        if value is None:
            monkeypatch.delenv("PYTHONPATH")
        assert environment(DataFolder(tmp_path, CHECKOUT / "var"), 8000)["PYTHONPATH"] == str(CHECKOUT)
