"""Runs the steps of a client one after the other, and checks the result of each."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LONGEST = 1_200.0
"""Maximum seconds of a step."""
LAST_LINES = 40


@dataclass(frozen=True)
class Step:
    """A command with its expected exit statuses. ``wrong`` returns an error message for a wrong output."""

    name: str
    command: Sequence[str]
    right: tuple[int, ...] = (0,)
    wrong: Callable[[str], str] = lambda _: ""


def run(steps: Sequence[Step], folder: Path, environment: Mapping[str, str], always: Sequence[Step] = ()) -> list[str]:
    """Run steps until one fails, then the steps ``always``, which clean up. Returns the errors."""
    found: list[str] = []
    for step in steps:
        found += _run(step, folder, environment)
        if found:
            break
    for step in always:
        found += _run(step, folder, environment)
    return found


def _run(step: Step, folder: Path, environment: Mapping[str, str]) -> list[str]:
    print(f"… {step.name}", file=sys.stderr, flush=True)
    try:
        done = subprocess.run(
            step.command, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LONGEST, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return [f"{step.name}: it took more than {LONGEST:.0f} s"]
    problem = step.wrong(done.stdout) if done.returncode in step.right else f"it ended with {done.returncode}"
    if not problem:
        return []
    return [f"{step.name}: {problem}", *(f"    {line}" for line in done.stdout.splitlines()[-LAST_LINES:])]
