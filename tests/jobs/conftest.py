"""Real worker groups on the tests' database."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.db import connection

from provisioning.jobs.models import WorkerBeat
from provisioning.jobs.queue.worker_groups import name_of_group, process_mark
from up.processes import descendants

ROOT = Path(__file__).resolve().parent.parent.parent
PATIENCE = 180.0
"""Seconds; less than ``settings.JOB_HELD``, after which a message comes back by itself."""


def eventually(check: Callable[[], object], what: str, within: float = PATIENCE) -> None:
    """Wait until the check is true; a failure says what was waited for."""
    end = time.monotonic() + within
    while not check():
        if time.monotonic() > end:
            pytest.fail(f"{what}: not within {within} s")
        time.sleep(0.01)


def kill_group(master: subprocess.Popen[bytes]) -> None:
    """SIGKILL the master of a worker group, and wait until the kernel has ended every process below it."""
    assert len(descendants(master.pid)) >= 5  # watchdog, sentinel, worker, monitor, pusher
    _kill(master)


def _kill(master: subprocess.Popen[bytes]) -> None:
    marks = {pid: process_mark(pid) for pid in descendants(master.pid)}
    master.kill()
    master.wait(PATIENCE)
    eventually(lambda: not any(process_mark(pid) == mark != "" for pid, mark in marks.items()), "no orphans")


def is_idle(pid: int) -> bool:
    """Whether a process waits for something."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


@dataclass
class Group:
    """One worker group and the words its jobs noted."""

    process: subprocess.Popen[bytes]
    output: Path

    def descendants(self) -> list[int]:
        """Pids of the group's processes below its master."""
        return descendants(self.process.pid)

    def kill(self) -> None:
        """SIGKILL the master; the kernel ends the rest."""
        kill_group(self.process)

    def ask_to_stop(self) -> None:
        """Send SIGTERM, and wait until the group says that it heeds it."""
        self.process.send_signal(signal.SIGTERM)
        eventually(lambda: "stopping cluster processes" in self.output.read_text(), "it stops")

    def stop(self) -> int:
        """Ask it to stop, and return its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


@pytest.fixture
def start_group(transactional_db: None, tmp_path: Path) -> Iterator[Callable[..., Group]]:
    """Start worker groups; what still runs at the end is killed."""
    groups: list[Group] = []

    def start(workers: int = 1, *, periodic: bool = False) -> Group:
        output = tmp_path / f"group-{len(groups)}.log"
        arguments = [str(connection.settings_dict["NAME"]), str(workers), *(["periodic"] if periodic else [])]
        with output.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.jobs.worker", *arguments],
                cwd=ROOT,
                env={**os.environ, "NOVELLA_ROLE": "worker", "DJANGO_SETTINGS_MODULE": "portal.settings"},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        groups.append(Group(process, output))
        name = name_of_group(process.pid)
        beat = WorkerBeat.objects.filter(name=name)
        eventually(lambda: beat.exists() or process.poll() is not None, "the group's first beat")
        assert process.poll() is None, output.read_text()
        return groups[-1]

    yield start
    for group in groups:
        if group.process.poll() is None:
            _kill(group.process)  # none of it writes into the database of the next test


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The file that jobs note their runs in."""
    return tmp_path / "runs"


def words(log: Path) -> list[str]:
    """What was noted so far, in order."""
    return [line.split()[0] for line in log.read_text().splitlines()] if log.exists() else []


def pids(log: Path) -> list[int]:
    """The processes that noted it."""
    return [int(line.split()[1]) for line in log.read_text().splitlines()] if log.exists() else []
