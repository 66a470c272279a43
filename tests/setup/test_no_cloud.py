"""A command that finds no cloud says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.deep
def test_a_command_without_a_cloud_says_where_it_looked(tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("NOVELLA")}
    done = subprocess.run(
        [sys.executable, str(CHECKOUT / "manage.py"), "doctor"],
        capture_output=True,
        text=True,
        env={**environment, "NOVELLA_DATA": str(tmp_path), "DJANGO_SETTINGS_MODULE": "portal.settings"},
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"There is no cloud in {tmp_path}: run bin/up first")
    assert "Traceback" not in done.stderr
