"""What one owner may have at a time is counted over all processes of a machine, and a killed one's is free again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from provisioning.common.machine.machine_shares import shares
from tests.jobs.conftest import ROOT, eventually

TAKE = """
import sys, django
django.setup()
from provisioning.common.machine.machine_shares import shares
print("taken" if shares.acquire({sys.argv[1]: int(sys.argv[2])}) else "none", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def owner() -> str:
    return f"uploads of {uuid.uuid4()}"


@pytest.fixture
def other_processes() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def take_elsewhere(stack: ExitStack, owner: str, most: int) -> tuple[subprocess.Popen[str], str]:
    """Take a share in a process that keeps it; returns the process and whether it got one."""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "portal.settings", "PYTHONPATH": str(ROOT)}
    process = stack.enter_context(
        subprocess.Popen(
            [sys.executable, "-c", TAKE, owner, str(most)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


@pytest.mark.slow
def test_processes_count_together_and_a_killed_one_counts_no_more(owner: str, other_processes: ExitStack) -> None:
    mine = shares.acquire({owner: 2})
    assert mine is not None
    process, taken = take_elsewhere(other_processes, owner, 2)
    assert taken == "taken"
    assert shares.acquire({owner: 2}) is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    again: list[list[int] | None] = []
    eventually(lambda: again.append(shares.acquire({owner: 2})) or again[-1], "the killed one's share")
    shares.release([*mine, *(again[-1] or [])])


def test_all_owners_or_none(owner: str) -> None:
    before = shares.held
    first = shares.acquire({owner: 1, f"{owner} other": 2})
    assert first is not None
    assert shares.acquire({f"{owner} other": 2, owner: 1}) is None
    second = shares.acquire({f"{owner} other": 2})
    assert second is not None
    shares.release(first)
    shares.release(second)
    assert shares.held == before


@pytest.mark.slow
@pytest.mark.deep
def test_a_process_that_has_shares_ends_without_a_word(owner: str) -> None:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "portal.settings", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", TAKE, owner, "1"]
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "taken\n", "")
