"""bin/up refuses what it cannot do, in a sentence, before it installs or changes anything."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from up import clean, health
from up.data_folder import DataFolder, DataFolderError

Up = Callable[..., subprocess.CompletedProcess[str]]


def test_help_names_every_option(up: Up) -> None:
    done = up("--help")
    assert done.returncode == 0
    for option in (
        *("--data", "--port", "--simulate", "--hosts", "--external-interface", "--external-range", "--clean", "--help"),
    ):
        assert option in done.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--fast"], "there is no option --fast."),
        (["here"], '"here" is not understood'),
        (["--port"], "--port needs a value."),
        (["--port", "web"], '--port takes a whole number from 1 to 65535, not "web".'),
        (["--port=0"], '--port takes a whole number from 1 to 65535, not "0".'),
        (["--port", "65536"], "--port takes a whole number"),
        (["--port", "99999999999999999999"], "--port takes a whole number"),
        (["--simulate", "0"], '--simulate takes a whole number from 1 to 50, not "0".'),
        (["--simulate", "-1"], "--simulate takes a whole number"),
        (["--hosts", "51"], '--hosts takes a whole number from 1 to 50, not "51".'),
        (["--hosts", "2", "--simulate", "2"], "--simulate and --hosts each say how many hosts there are"),
        (["--clean", "--hosts", "2"], "--clean can be combined with --data only."),
        (["--external-interface", "nvx0"], 'this machine has no network interface "nvx0".'),
        (["--external-range", "lan"], "--external-range takes an IPv4 network such as 192.168.1.128/25"),
        (["--external-range", "192.168.1.128/30"], "/29 at the smallest"),
        (["--external-range", "192.168.1.129/25"], "--external-range takes an IPv4 network"),
        (["--clean", "--external-range", "10.0.0.0/8"], "--clean can be combined with --data only."),
        (["--data", ""], "--data needs the name of a folder."),
        (["--clean", "--port", "9000"], "--clean can be combined with --data only."),
    ],
)
def test_a_wrong_option_is_named(up: Up, tmp_path: Path, arguments: list[str], sentence: str) -> None:
    done = up(*arguments)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert 'Try "bin/up --help".' in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_folder_that_somebody_else_made_is_refused(up: Up, tmp_path: Path) -> None:
    theirs = tmp_path / "photos"
    theirs.mkdir()
    (theirs / "cat.jpg").write_text("meow")
    done = up("--data", str(theirs))
    assert done.returncode == 1
    assert "is not empty and was not created by bin/up" in done.stderr
    assert [path.name for path in theirs.iterdir()] == ["cat.jpg"]


@pytest.mark.slow
def test_clean_leaves_a_folder_that_somebody_else_made(up: Up, tmp_path: Path) -> None:
    theirs = tmp_path / "photos"
    theirs.mkdir()
    (theirs / "cat.jpg").write_text("meow")
    done = up("--clean", "--data", str(theirs))
    assert done.returncode == 1
    assert "was not created by bin/up; it is left unchanged." in done.stderr
    assert (theirs / "cat.jpg").exists()


@pytest.mark.slow
def test_clean_of_nothing_is_done(up: Up, tmp_path: Path) -> None:
    done = up("--clean", "--data", str(tmp_path / "never"))
    assert done.returncode == 0
    assert "Nothing to remove" in done.stdout
    assert not (tmp_path / "never").exists()


def test_clean_removes_the_folder(up: Up, tmp_path: Path) -> None:
    ours = tmp_path / "data"
    DataFolder(ours, default=tmp_path / "var").claim()
    (ours / "images").mkdir()
    (ours / "images" / "disk").write_text("bits")
    done = up("--clean", "--data", str(ours))
    assert done.returncode == 0, done.stderr
    assert f"Removed {ours} and everything that belongs to it." in done.stdout
    assert not ours.exists()


def test_clean_does_not_follow_links_out_of_the_folder(up: Up, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    ours = tmp_path / "data"
    DataFolder(ours, default=tmp_path / "var").claim()
    (ours / "images").symlink_to(outside)
    assert up("--clean", "--data", str(ours)).returncode == 0
    assert (outside / "kept").exists()


def test_mounts_inside_a_folder_are_seen() -> None:
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    lasting = [point for point in points if point.startswith(("/dev/", "/proc/", "/sys/"))]  # other tests mount, too
    inner = max(lasting, key=lambda point: point.count("/"))
    assert inner in clean.mounts_below(Path(inner).parent)
    assert clean.mounts_below(Path("/no/such/folder")) == []


@pytest.mark.slow
def test_a_port_in_use_is_named(up: Up, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = up("--data", str(tmp_path / "data"), "--port", str(port))
    assert done.returncode == 1
    assert f"port {port} is in use by another program; choose another one with --port." in done.stderr


@pytest.mark.slow
def test_a_second_bin_up_on_the_same_folder_is_refused(up: Up, tmp_path: Path) -> None:
    ours = DataFolder(tmp_path / "data", default=tmp_path / "var")
    ours.claim()
    ours.acquire()
    done = up("--data", str(ours.path))
    ours.release()
    assert done.returncode == 1
    assert f"Novella is already running on {ours.path} (process {os.getpid()})." in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_lock_that_nobody_holds_keeps_nobody_out(tmp_path: Path) -> None:
    ours = DataFolder(tmp_path / "data", default=tmp_path / "var")
    ours.claim()
    (ours.path / "run" / "up.lock").write_text("1\n")
    ours.acquire()
    assert ours.owner() == os.getpid()
    with (ours.path / "run" / "up.lock").open() as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    ours.release()


def test_the_checkouts_own_folder_needs_no_marker(tmp_path: Path) -> None:
    default = tmp_path / "var"
    default.mkdir()
    (default / "secrets").mkdir()  # a command of manage.py was here first
    DataFolder(default, default).claim()
    with pytest.raises(DataFolderError):
        DataFolder(default.parent, default).claim()


def test_what_is_kept_is_for_its_owner_only(tmp_path: Path) -> None:
    ours = DataFolder(tmp_path / "data", default=tmp_path / "var")
    ours.claim()
    ours.write_json("run/join-tokens.json", {"sim-1": "secret"})
    assert ours.path.stat().st_mode & 0o777 == 0o700
    assert (ours.path / "run" / "join-tokens.json").stat().st_mode & 0o777 == 0o600


def test_a_free_port_is_never_one_that_the_kernel_gives_away() -> None:
    """Between the choice and the listening, an outgoing connection of anybody's could have it."""
    first, last = map(int, health.GIVEN_BY_KERNEL.read_text().split())
    result = [health.free_port() for _ in range(40)]
    assert not [port for port in result if first <= port <= last]
    for port in result:
        health.require_free_port(port)
