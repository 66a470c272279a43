"""Programs that read tenants' data: their account, their system calls, and the files that they reach."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from compute_agent.contract.volume import VolumeSource
from compute_agent.images.cache import ImageCache
from compute_agent.virt.driver import never
from compute_agent.virt.processes import processes, programs, progress
from compute_agent.virt.processes.programs import Limits, ProgramError, run_long, run_program
from compute_agent.virt.processes.rights import Rights, lent
from compute_agent.volumes.copies import copying
from compute_agent.volumes.services import Outside, Volumes
from tests.agent.volumes.conftest import MIB, Pool
from tests.agent.volumes.test_confined_daemon import NOBODY, hidden, pool  # noqa: F401 - fixtures
from tests.agent.volumes.test_drivers import KEY
from tests.agent.volumes.test_lying_images import Portal, qcow2

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account")
SPY = """#!/bin/sh
[ "$1" = convert ] || exec /usr/bin/qemu-img "$@"
for last; do :; done
while read -r line; do echo "$line"; done </proc/self/status >"${last#*?socket=}"
"""
"""Writes what the kernel says of it to the last file that it is given."""


@pytest.fixture
def spy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program that tells of itself in the place of ``qemu-img``."""
    tmp_path.chmod(0o755)
    for folder in tmp_path.parents[:3]:
        folder.chmod(0o755)
    (tmp_path / "qemu-img").write_text(SPY)
    (tmp_path / "qemu-img").chmod(0o755)
    monkeypatch.setattr(programs, "SYSTEM_PATH", f"{tmp_path}:{programs.SYSTEM_PATH}")


def status_of(path: Path) -> dict[str, str]:
    rows = (line.partition(":") for line in path.read_text().splitlines())
    return {name: " ".join(value.split()) for name, _, value in rows}


def check_powerless(path: Path) -> None:
    about = status_of(path)
    assert about["Uid"].split() == [str(NOBODY.uid)] * 4
    assert about["Gid"].split() == [str(NOBODY.gid)] * 4
    assert {about[name].strip("0") for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {""}
    assert (about["NoNewPrivs"], about["Seccomp"]) == ("1", "2")
    assert path.stat().st_uid == 0, "the file is root's again"


def test_the_format_of_an_upload_is_read_without_rights(spy: None, hidden: Path, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "disk").write_bytes(bytes(512))
    portal = Portal()
    cache = ImageCache(hidden / "images", portal, tmp_path / "guests", NOBODY)
    check_powerless(cache.get(portal.offer(tmp_path / "disk", "raw"), "someone").path)


@pytest.mark.slow
def test_volumes_are_copied_without_rights(spy: None, hidden: Path) -> None:  # noqa: F811
    files = {name: hidden / name for name in ("source", "target", "image", "overlay")}
    for path in files.values():
        path.touch(mode=0o600)
    target = copying.local("x", files["target"])
    copying.to_file(copying.local("x", files["source"]), files["target"], "qcow2", 1, never, NOBODY)
    check_powerless(files["target"])
    copying.file_over(files["source"], target, never, NOBODY)
    check_powerless(files["target"])
    copying.over(files["image"], files["overlay"], 1, target, never, NOBODY)
    check_powerless(files["target"])


@pytest.mark.slow
@pytest.mark.parametrize("key", ["", pytest.param(KEY, marks=pytest.mark.deep)], ids=["plain", "encrypted"])
def test_copies_of_an_account_are_whole(pool: Pool, hidden: Path, key: str) -> None:  # noqa: F811
    portal, guests = Portal(), hidden / "guests"
    cache = ImageCache(hidden / "images", portal, guests, NOBODY)
    volumes = Volumes([pool.driver], pool.daemons, Outside(cache, staging=hidden / "staging"))
    (hidden / "uploads").mkdir()
    volume = pool.spec(1)
    volumes.create(volume, VolumeSource(image=portal.offer(qcow2(hidden / "uploads", "8M"), "qcow2")), never)
    for each in (pool.make(key=key), volume):
        pool.write(each, 7, 2 * MIB)
        volumes.snapshot(each, "s")
        copy = hidden / f"{each.id}.copy"
        volumes.copy_out(each, "s", copy, "raw", never)
        with copy.open("rb") as file:
            file.seek(2 * MIB)
            assert file.read(MIB) == bytes([7]) * MIB
        assert 2 * MIB in [extent.offset for extent in pool.driver.changes(each, "s") if not extent.zero]
    volumes.delete_snapshot(volume, "s", never)
    image = portal.offer(qcow2(hidden / "uploads", "4M"), "qcow2", "another")
    volumes.reimage(volume, image, volume.id, never)
    assert pool.reads(volume, 0, 2 * MIB)


@pytest.mark.slow
def test_files_are_lent_for_the_time_of_a_run(hidden: Path) -> None:  # noqa: F811
    secret, mine = hidden / "secret", hidden / "mine"
    for path in (secret, mine):
        path.write_text(path.name)
        path.chmod(0o600)
    with lent(NOBODY, mine) as rights:
        assert run_program("cat", str(mine), rights=rights) == b"mine"
        with pytest.raises(ProgramError):
            run_program("cat", str(secret), rights=rights)
    assert mine.stat().st_uid == 0
    with lent(NOBODY, mine, read=[secret]) as rights:
        assert run_program("cat", str(secret), rights=rights) == b"secret"


def test_a_socket_is_reached_below_a_closed_folder(hidden: Path) -> None:  # noqa: F811
    path = hidden / "socket"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        path.chmod(0o600)
        listening.listen()
        script = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
        with lent(NOBODY, path) as rights:
            run_program("/usr/bin/python3", "-c", script, str(path), rights=rights)


def test_root_without_an_account_keeps_its_files_and_no_power() -> None:
    output = run_program("cat", "/proc/self/status", rights=Rights()).decode()
    about = {name: value.strip() for name, _, value in (line.partition(":") for line in output.splitlines())}
    assert int(about["CapEff"], 16) == int(about["CapBnd"], 16) == 1 << 1
    assert about["Seccomp"] == "2"


def test_what_is_stopped_ends(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    script = "import sys, time; open(sys.argv[1], 'w'); time.sleep(60)"
    with pytest.raises(ProgramError):
        run_long(
            "/usr/bin/python3", "-c", script, str(begun), limits=Limits(), stopped=begun.exists, rights=Rights()
        )  # fmt: skip


def test_a_stopped_program_is_not_started(tmp_path: Path) -> None:
    with pytest.raises(ProgramError):
        run_long("touch", str(tmp_path / "begun"), limits=Limits(), stopped=lambda: True)
    assert not (tmp_path / "begun").exists()


def test_a_program_that_does_nothing_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "POLL", 0.01)
    with pytest.raises(ProgramError):
        run_long("sleep", "600", limits=Limits(seconds=600), stopped=bool, rights=Rights(), most_still=0.01)


def test_a_program_that_prints_its_progress_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel counts no bytes that a program receives from a socket, and zeros are not written."""
    polls = itertools.count()
    monkeypatch.setattr(programs, "POLL", 0.001)
    monkeypatch.setattr(programs, "time", SimpleNamespace(monotonic=itertools.count().__next__))
    monkeypatch.setattr(programs, "_done", lambda *_: next(polls))
    monkeypatch.setattr(progress, "moved_by_program", lambda _: None)
    limits = Limits(seconds=10_000)
    with pytest.raises(ProgramError):
        run_long(
            "sleep", "600", limits=limits, stopped=lambda: next(polls) > 100, total=100, rights=Rights(), most_still=10
        )  # fmt: skip
    assert next(polls) > 100


def test_a_long_program_ends_with_the_agent(tmp_path: Path) -> None:
    """A program that an earlier agent has started must not write to a disk that the next one gives to a guest."""
    os.mkfifo(tmp_path / "begun")
    program = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
    agent = f"""
from compute_agent.virt.processes.programs import Limits, run_long
from compute_agent.virt.processes.rights import Rights
words = ("/usr/bin/python3", "-c", {program!r}, {str(tmp_path / "begun")!r})
run_long(*words, limits=Limits(seconds=600), stopped=bool, rights=Rights())
"""
    with subprocess.Popen([sys.executable, "-c", agent]) as running:
        pid = int((tmp_path / "begun").read_text())
        running.send_signal(signal.SIGKILL)
    assert processes.ended(pid, 60)
