"""Web, workers and commands under an account of their own: what it reaches, what it does not, what is not followed."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from up import run_as
from up.__main__ import portal_account
from up.data_folder import DataFolder, DataFolderError
from up.programs import CHECKOUT, Hosts, programs
from up.run_as import RunAs, RunAsError

OTHER = pwd.getpwnam("nobody")
STATUS = "print(open('/proc/self/status').read())"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give programs another account")


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that every account gets through to, as a machine's data folder mostly is."""
    with TemporaryDirectory(prefix="nv-run-as-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def folder_of(path: Path) -> DataFolder:
    data = DataFolder(path / "data", default=path / "var")
    data.claim()
    return data


def handed_over(path: Path) -> tuple[DataFolder, RunAs]:
    data = folder_of(path)
    data.hand_over(OTHER.pw_uid, OTHER.pw_gid)
    return data, run_as.of(OTHER, data.portal)


def say(chosen: RunAs, code: str, *arguments: str, port: int | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        chosen.command([sys.executable, "-c", code, *arguments], port),
        env=chosen.environment({"PATH": os.environ["PATH"]}),
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )


def status(text: str) -> dict[str, str]:
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


# --- what a program may ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("port", "capabilities"), [(8000, 0), (80, 1 << 10)])
def test_a_program_has_no_right_of_roots_but_a_low_port(reachable: Path, port: int, capabilities: int) -> None:
    _, chosen = handed_over(reachable)
    result = status(say(chosen, STATUS, port=port).stdout)
    assert set(result["Uid"].split()) == {str(OTHER.pw_uid)}
    assert set(result["Gid"].split()) == {str(OTHER.pw_gid)}
    assert result["Groups"].split() == [str(OTHER.pw_gid)]
    assert result["NoNewPrivs"] == "1"
    for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(result[name], 16) == capabilities, name


@pytest.mark.slow
def test_it_writes_the_portals_folder_and_no_other(reachable: Path) -> None:
    data, chosen = handed_over(reachable)
    (data.path / "log" / "web.log").write_text("")
    write = "import sys; open(sys.argv[1], 'w')"
    assert say(chosen, write, str(data.portal / "db.sqlite3")).returncode == 0
    for name in ("hosts/mine", "run/up.lock", "log/web.log", "clouds.yaml", ".novella"):
        assert "PermissionError" in say(chosen, write, str(data.path / name)).stderr, name


@pytest.mark.slow
def test_a_folder_that_is_closed_shows_only_what_is_needed(tmp_path: Path) -> None:
    """The tests' own folder is closed, as is /root mostly."""
    tmp_path.chmod(0o700)
    (tmp_path / "secret").write_text("")
    data, chosen = handed_over(tmp_path)
    assert chosen.covers
    chosen.probe()
    listed = say(chosen, "import os, sys; print(os.listdir(sys.argv[1]), os.getcwd())", str(tmp_path))
    assert listed.stdout == f"['data'] {CHECKOUT}\n"
    for name in ("guest/image", "policy.yaml"):  # what root makes later
        (data.path / name).parent.mkdir(exist_ok=True)
        (data.path / name).write_text("read")
        assert say(chosen, "import sys; print(open(sys.argv[1]).read())", str(data.path / name)).stdout == "read\n"
    (data.portal / "mine").touch()
    assert say(chosen, "import os, sys; os.remove(sys.argv[1])", str(data.portal / "mine")).returncode == 0
    assert not (data.portal / "mine").exists()
    assert "Read-only" in say(chosen, "import sys; open(sys.argv[1], 'w')", str(tmp_path / "new")).stderr
    assert (tmp_path / "secret").exists()


def test_web_and_worker_run_as_the_account_and_the_agent_does_not(reachable: Path) -> None:
    data, chosen = handed_over(reachable)
    made = {each.name: each for each in programs(data, 80, Hosts(["here"], simulated=True), chosen)}
    for name in ("web", "worker"):
        assert f"--reuid={OTHER.pw_uid}" in made[name].command
        assert made[name].environment["HOME"] == str(data.portal)
    assert f"--reuid={OTHER.pw_uid}" not in made["agent"].command
    assert "--bounding-set=-all,+net_bind_service" in made["web"].command
    assert "--bounding-set=-all" in made["worker"].command


# --- whose the folder is --------------------------------------------------------------------------------------------


def test_a_folder_of_roots_changes_hands_once_and_links_lead_nowhere(reachable: Path) -> None:
    data = folder_of(reachable)
    theirs = reachable / "theirs"
    theirs.write_text("")
    (data.portal / "images").mkdir()
    (data.portal / "images" / "one").write_text("")
    (data.portal / "link").symlink_to(theirs)
    data.hand_over(OTHER.pw_uid, OTHER.pw_gid)
    for name in ("", "images", "images/one"):
        assert (data.portal / name).stat().st_uid == OTHER.pw_uid, name
    assert theirs.stat().st_uid == 0
    assert data.path.stat().st_uid == 0
    assert data.path.stat().st_mode & 0o777 == 0o711
    again = DataFolder(data.path, default=reachable / "var")
    again.claim()  # beside a cloud that runs
    assert again.path.stat().st_mode & 0o777 == 0o711
    data.database.write_text("put back")
    data.hand_over(OTHER.pw_uid, OTHER.pw_gid)
    assert data.database.stat().st_uid == OTHER.pw_uid


def test_what_an_account_has_named_does_not_become_the_next_ones(reachable: Path) -> None:
    data, _ = handed_over(reachable)
    theirs = reachable / "theirs"
    theirs.write_text("")
    (data.portal / "link").hardlink_to(theirs)
    (data.portal / "mine").write_text("")
    data.hand_over(OTHER.pw_uid, OTHER.pw_gid)
    assert theirs.stat().st_uid == 0
    os.chown(data.portal / "mine", OTHER.pw_uid, OTHER.pw_gid)
    data.hand_over(1, 1)
    assert (data.portal / "mine").stat().st_uid == 1
    assert theirs.stat().st_uid == 0


def test_what_an_older_version_kept_moves_into_the_portals_folder(reachable: Path) -> None:
    data = folder_of(reachable)
    for name in ("db.sqlite3", "db.sqlite3-wal", "images/one", "secrets/secret_key", "run/bootstrap.json"):
        (data.path / name).parent.mkdir(exist_ok=True)
        (data.path / name).write_text(name)
    data.bring_up_to_date()
    for name in ("db.sqlite3", "db.sqlite3-wal", "images/one", "secrets/secret_key", "run/bootstrap.json"):
        assert (data.portal / name).read_text() == name
        assert not (data.path / name).exists()
    (data.path / "db.sqlite3").write_text("of somebody else")
    data.bring_up_to_date()
    assert data.database.read_text() == "db.sqlite3"


def test_a_folder_that_cannot_be_moved_is_reported(reachable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = folder_of(reachable)
    (data.path / "images").mkdir()

    def refuse(*_: object) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(DataFolderError, match=r"images .* cannot be moved there: Device or resource busy"):
        data.bring_up_to_date()


# --- which account --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("setting", "name"), [(None, "novella"), ("", "novella"), ("cloud", "cloud"), ("root", "")])
def test_an_operator_names_another_account_or_none(
    monkeypatch: pytest.MonkeyPatch, setting: str | None, name: str
) -> None:
    monkeypatch.delenv("NOVELLA_USER", raising=False)
    if setting is not None:
        monkeypatch.setenv("NOVELLA_USER", setting)
    assert run_as.wanted() == name
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert run_as.wanted() == ""


@pytest.mark.slow
def test_an_account_that_is_of_no_use_is_reported_and_root_goes_on(
    reachable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = folder_of(reachable)
    images = reachable / "images"
    images.mkdir(mode=0o755)
    monkeypatch.setenv("NOVELLA_USER", OTHER.pw_name)
    monkeypatch.setenv("NOVELLA_IMAGE_DIR", str(images))
    lines: list[str] = []
    assert portal_account(data, lines.append).uid is None
    assert lines == [f"Web and workers run as root: {OTHER.pw_name} is of no use for them (it may not write {images})."]
    assert data.portal.stat().st_uid == 0
    os.chown(images, OTHER.pw_uid, OTHER.pw_gid)
    assert portal_account(data, lines.append).uid == OTHER.pw_uid
    assert len(lines) == 1
    assert data.portal.stat().st_uid == OTHER.pw_uid


def test_a_program_that_is_missing_is_reported(reachable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, chosen = handed_over(reachable)
    monkeypatch.setenv("PATH", str(reachable))
    with pytest.raises(RunAsError, match=r"setpriv|unshare"):
        chosen.probe()


# --- commands that root gives ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_command_of_roots_runs_as_whom_the_folder_belongs_to(reachable: Path) -> None:
    data, _ = handed_over(reachable)
    environment = {"PATH": os.environ["PATH"], "NOVELLA_DATA": str(data.path)}
    command = [sys.executable, str(CHECKOUT / "manage.py"), "migrate", "--plan", "--verbosity", "0"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made = [path for path in data.portal.rglob("*") if path.is_file()]
    assert len(made) > 2
    assert {path.stat().st_uid for path in made} == {OTHER.pw_uid}
