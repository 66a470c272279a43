"""bin/up makes database, static files and guest image once for a checkout; each new data folder gets copies."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from up import data_folder, kept, prepare
from up.data_folder import DataFolder
from up.prepare import GUEST_IMAGE, Preparation, PreparationError, Progress
from up.programs import Hosts
from up.run_as import RunAs

pytestmark = pytest.mark.slow


class Counted(Preparation):
    """Programs that take no time, and a record of those that were asked for."""

    asked: list[str] = []
    fails = ""

    def _call(self, command: list[str], run_as: RunAs | None = None) -> None:
        if {"up.kept", "up.database_copy"} & set(command):
            super()._call(command, run_as)
            return
        what = next(word for word in ("migrate", "collectstatic", "tools.guest_image") if word in command)
        self.asked.append(what)
        if what == self.fails:
            raise PreparationError("no")
        portal = next((Path(word.partition("=")[2]) for word in command if "NOVELLA_DATA=" in word), self.data.path)
        (portal / "portal").mkdir(exist_ok=True)
        if what == "migrate":
            with closing(sqlite3.connect(portal / "portal/db.sqlite3")) as database:
                database.execute("CREATE TABLE migrated (n INTEGER)")
        elif what == "collectstatic":
            (portal / "portal/static/css").mkdir(parents=True)
            (portal / "portal/static/css/a.css").write_text("a")
        else:
            (self.data.path / "guest").mkdir()
            (self.data.path / GUEST_IMAGE).write_text("image")


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Counted]:
    monkeypatch.delenv("NOVELLA_DATABASE_URL", raising=False)
    monkeypatch.setattr(kept, "FOLDER", tmp_path / "kept")
    monkeypatch.setattr(Counted, "asked", [])

    def make(name: str) -> Counted:
        data = DataFolder(tmp_path / name, default=tmp_path / "var")
        data.claim()
        return Counted(data, 8000, Hosts(["here"], simulated=False), Progress(0, 3))

    return make


def prepared(cloud: Counted) -> None:
    cloud.guest_image()
    cloud.database()
    cloud.static_files()


def contents(cloud: Counted) -> tuple[str, str, str]:
    with closing(sqlite3.connect(cloud.data.database)) as database:
        (table,) = database.execute("SELECT name FROM sqlite_master").fetchone()
    return table, (cloud.data.portal / "static/css/a.css").read_text(), (cloud.data.path / GUEST_IMAGE).read_text()


def test_the_second_cloud_gets_copies(cloud: Callable[[str], Counted]) -> None:
    one, two = cloud("one"), cloud("two")
    prepared(one)
    assert Counted.asked == ["tools.guest_image", "migrate", "collectstatic"]
    prepared(two)
    prepared(two)
    assert Counted.asked == ["tools.guest_image", "migrate", "collectstatic"]
    assert contents(one) == contents(two) == ("migrated", "a", "image")
    assert stat.S_IMODE(two.data.database.stat().st_mode) == 0o600
    assert [path.name for path in two.data.portal.iterdir() if path.name.startswith(".")] == []


def test_a_cloud_that_is_there_keeps_its_own_database(cloud: Callable[[str], Counted], tmp_path: Path) -> None:
    prepared(cloud("one"))
    two = cloud("two")
    with closing(sqlite3.connect(two.data.database)) as database:
        database.execute("CREATE TABLE own (n INTEGER)")
    two.database()
    assert Counted.asked[-1] == "migrate"
    with closing(sqlite3.connect(two.data.database)) as database:
        assert {name for (name,) in database.execute("SELECT name FROM sqlite_master")} == {"own", "migrated"}


def test_other_migrations_and_package_lists_are_not_served_by_what_was_kept(
    cloud: Callable[[str], Counted], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared(cloud("one"))
    lists = tmp_path / "lists"
    lists.mkdir()
    (lists / "Packages").write_text("newer")
    monkeypatch.setattr(prepare, "PACKAGE_LISTS", lists)
    real = data_folder.fingerprint
    monkeypatch.setattr(prepare, "fingerprint", lambda paths, *extra: real(paths, *extra, "of another version"))
    prepared(cloud("two"))
    assert Counted.asked == ["tools.guest_image", "migrate", "collectstatic"] * 2


def test_a_checkout_that_cannot_be_written_keeps_nothing(
    cloud: Callable[[str], Counted], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(kept, "FOLDER", tmp_path / "file" / "kept")
    one = cloud("one")
    prepared(one)
    assert contents(one) == ("migrated", "a", "image")


def test_a_failure_is_reported_and_nothing_of_it_is_kept(
    cloud: Callable[[str], Counted], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Counted, "fails", "migrate")
    with pytest.raises(PreparationError):
        cloud("one").database()
    assert list((tmp_path / "kept").iterdir()) == []
    assert not cloud("one").data.database.exists()


def test_a_few_versions_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "FOLDER", tmp_path)

    def make(folder: Path) -> Path:
        (folder / "made").mkdir()
        return folder / "made"

    for number in range(kept.MOST_VERSIONS + 2):
        os.utime(kept.make("static", f"{number}", make), (number, number))
    assert {path.name for path in tmp_path.iterdir()} == {
        f"static-{number + 2}" for number in range(kept.MOST_VERSIONS)
    }


def test_a_copy_is_whole_or_absent(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        kept.copy(tmp_path / "absent", tmp_path / "target")
    assert list(tmp_path.iterdir()) == []


def test_no_link_in_the_way_is_followed(tmp_path: Path) -> None:
    """The portal's account owns the folder: what it puts in the way is replaced, not written through."""
    (tmp_path / "kept").write_text("new")
    (tmp_path / "precious").write_text("old")
    (tmp_path / "target").symlink_to("precious")
    kept.copy(tmp_path / "kept", tmp_path / "target")
    assert (tmp_path / "precious").read_text() == "old"
    assert (tmp_path / "target").read_text() == "new"
