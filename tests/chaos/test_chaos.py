"""Small chaos runs, from the command line as a person would."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.postgresql import PostgresqlError, programs

CHECKOUT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.deep, pytest.mark.e2e, pytest.mark.timeout(1800)]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name, since sockets are in folders below it; PostgreSQL's account gets there, too."""
    with tempfile.TemporaryDirectory(prefix="nv-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def run(folder: Path, *options: str, seconds: int) -> str:
    """Run it to its end, and return what it said: it is clean, and leaves nothing behind."""
    done = subprocess.run(
        [str(CHECKOUT / "bin/chaos"), *options],
        capture_output=True,
        text=True,
        env=os.environ | {"TMPDIR": str(folder)},
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(folder.iterdir()) == []
    return done.stdout


def test_a_small_run_is_clean_and_leaves_nothing(folder: Path) -> None:
    output = run(folder, "--operations", "40", "--seed", "11", "--hosts", "4", seconds=1500)
    assert "Clean: seed 11" in output
    assert "40 operations and 3 faults" in output


@pytest.mark.slow
def test_nothing_is_lost_when_a_copy_of_the_database_is_put_back(folder: Path) -> None:
    output = run(folder, "--restore", "--volumes", "--operations", "90", "--seed", "34", "--hosts", "4", seconds=1500)
    assert "Clean: seed 34" in output
    assert "90 operations and 8 faults" in output


@pytest.mark.slow
def test_nothing_is_lost_when_the_primary_of_postgresql_is_lost(folder: Path) -> None:
    try:
        programs()
    except PostgresqlError as error:
        pytest.skip(str(error))
    options = ["--failover", "--volumes", "--database", "postgresql", "--operations", "90", "--seed", "22"]
    output = run(folder, *options, "--hosts", "4", seconds=1500)
    assert "Clean: seed 22 on postgresql" in output
    assert "90 operations and 8 faults" in output
