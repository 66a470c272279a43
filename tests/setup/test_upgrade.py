"""bin/up keeps the database as it was before another version's migrations."""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from up import prepare
from up.data_folder import DataFolder
from up.database_copy import MOST_COPIES
from up.prepare import Preparation, PreparationError, Progress
from up.programs import Hosts
from up.run_as import RunAs


class Upgrade(Preparation):
    """Migrations that write a row, or fail in the middle."""

    fails = False

    def _given(self, name: str, key: str, target: Path, command: list[str]) -> bool:
        return False

    def _call(self, command: list[str], run_as: RunAs | None = None) -> None:
        if "up.database_copy" in command:
            super()._call(command, run_as)
            return
        assert "migrate" in command
        with closing(sqlite3.connect(self.data.database)) as database:
            database.execute("CREATE TABLE IF NOT EXISTS migrated (n INTEGER)")
            database.execute("INSERT INTO migrated VALUES (1)")
            database.commit()
        if self.fails:
            raise PreparationError("no")


@pytest.fixture
def upgrade(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Upgrade:
    monkeypatch.delenv("NOVELLA_DATABASE_URL", raising=False)
    data = DataFolder(tmp_path / "data", default=tmp_path / "var")
    data.claim()
    return Upgrade(data, 8000, Hosts(["here"], simulated=True), Progress(0, 1))


def version(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(prepare, "fingerprint", lambda *_: name)


def copies(upgrade: Upgrade) -> list[Path]:
    return sorted((upgrade.data.portal / "backups").glob("*"))


def tables(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as database:
        return {name for (name,) in database.execute("SELECT name FROM sqlite_master")}


def test_a_new_cloud_has_nothing_to_keep(upgrade: Upgrade) -> None:
    upgrade.database()
    assert copies(upgrade) == []


def test_the_database_is_copied_before_it_is_migrated(upgrade: Upgrade, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what stands only in its write-ahead log, once, however often the migrations have to be begun."""
    monkeypatch.setattr(Upgrade, "fails", True)
    version(monkeypatch, "1234567890")
    with closing(sqlite3.connect(upgrade.data.database)) as in_use:
        in_use.execute("PRAGMA journal_mode = WAL")
        in_use.execute("CREATE TABLE before (n INTEGER)")
        in_use.commit()
        for _ in range(2):
            with pytest.raises(PreparationError):
                upgrade.database()
    (copy,) = copies(upgrade)
    assert tables(copy) == {"before"}
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600


@pytest.mark.slow
def test_a_few_copies_are_kept(upgrade: Upgrade, monkeypatch: pytest.MonkeyPatch) -> None:
    upgrade.database()
    for number in range(MOST_COPIES + 2):
        version(monkeypatch, f"{number}" * 10)
        upgrade.database()
    upgrade.database()  # of the same version
    assert len(copies(upgrade)) == MOST_COPIES
