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
from provisioning.jobs.worker_groups import name_of_group

ROOT = Path(__file__).resolve().parent.parent.parent
PATIENCE = 180.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with real worker groups wait for them more than they work."""
    for item in items:
        if "start_group" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


def eventually(check: Callable[[], object], what: str, within: float = PATIENCE) -> None:
    """Wait until the check is true; a failure says what was waited for."""
    end = time.monotonic() + within
    while not check():
        if time.monotonic() > end:
            pytest.fail(f"{what}: not within {within} s")
        time.sleep(0.01)


@dataclass
class Group:
    """One worker group and the words its jobs noted."""

    process: subprocess.Popen[bytes]
    output: Path

    def descendants(self) -> list[int]:
        """Pids of the group's processes below its master."""
        found: list[int] = []
        left = [self.process.pid]
        while left:
            children = Path(f"/proc/{left[0]}/task/{left[0]}/children")
            more = [int(pid) for pid in children.read_text().split()] if children.exists() else []
            found += more
            left = [*left[1:], *more]
        return found

    def kill(self) -> None:
        """SIGKILL the master; the kernel ends the rest."""
        self.process.kill()
        self.process.wait(PATIENCE)

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
            group.kill()


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
