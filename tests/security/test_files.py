"""Nobody else on the machine reads what the data folder holds: password hashes, user data, images, secrets."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from up.data_folder import DataFolder

CHECKOUT = Path(__file__).resolve().parents[2]
COMMAND = (
    "import django; django.setup(); from django.db import connection; connection.cursor().execute('CREATE TABLE t (x)')"
)


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_folder_that_was_there_is_closed(tmp_path: Path) -> None:
    for name, default in (("given", "other"), ("var", "var")):
        (tmp_path / name).mkdir(mode=0o755)
        DataFolder(tmp_path / name, tmp_path / default).claim()
        assert mode(tmp_path / name) == 0o700


@pytest.mark.slow
@pytest.mark.deep
def test_a_command_makes_folder_and_database_for_its_owner(tmp_path: Path) -> None:
    data = tmp_path / "data"
    environment = {"PATH": os.environ["PATH"], "NOVELLA_DATA": str(data), "DJANGO_SETTINGS_MODULE": "portal.settings"}
    subprocess.run([sys.executable, "-c", COMMAND], env=environment, cwd=CHECKOUT, check=True)
    assert mode(data) == 0o700
    files = [path for path in data.rglob("*") if path.is_file()]
    assert len(files) > 2
    assert [path for path in files if mode(path) & 0o077] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["db.sqlite3", "secrets"])
def test_no_new_keys_are_made_beside_those_of_an_older_version(tmp_path: Path, name: str) -> None:
    data = tmp_path / "data"
    (data / name).mkdir(parents=True)
    environment = {"PATH": os.environ["PATH"], "NOVELLA_DATA": str(data), "DJANGO_SETTINGS_MODULE": "portal.settings"}
    done = subprocess.run(
        [sys.executable, "-c", COMMAND], env=environment, cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert f"move {name} into {data / 'portal'}" in done.stderr
    assert not (data / "portal").exists()
