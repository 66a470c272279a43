"""Run the small programs of the host, bounded in time, memory and processor."""

import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from compute_agent.virt import progress

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

POLL = 0.2
"""Seconds between two checks of a program that runs long."""


@dataclass(frozen=True)
class Limits:
    """What one run may use: seconds of clock, seconds of processor, bytes of address space."""

    seconds: float = 60.0
    cpu_seconds: int = 60
    memory: int = 2 << 30


class ProgramError(Exception):
    """A program failed, was stopped by its limits or does not exist; the text is for the operator."""


def run_program(*command: str, limits: Limits | None = None, stdin: bytes | None = None) -> bytes:
    """Run ``command`` and return its output; raises ProgramError.

    ``limits`` are set with prlimit(1), so that they hold before the program reads a byte of what it is given.
    """
    limits = limits or Limits()
    name = Path(command[0]).name
    prefix = ["prlimit", f"--as={limits.memory}", f"--cpu={limits.cpu_seconds}", "--core=0", "--"]
    environment = {"PATH": SYSTEM_PATH, "LC_ALL": "C"}
    if shutil.which(command[0], path=SYSTEM_PATH) is None:
        raise ProgramError(f"{name} is not installed")
    try:
        done = subprocess.run(  # noqa: S603
            [*prefix, *command], input=stdin, capture_output=True, env=environment, timeout=limits.seconds, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProgramError(f"{name}: {error}") from error
    if done.returncode != 0:
        output = (done.stderr or done.stdout).decode(errors="replace").strip()[-500:]
        raise ProgramError(f"{name} exited with {done.returncode}: {output}")
    return done.stdout


def run_long(*command: str, limits: Limits, stopped: Callable[[], bool]) -> None:
    """Run ``command`` as ``run_program`` does, unless ``stopped`` returns True: then it is killed.

    What it reads and writes is told as progress.  Raises ProgramError.
    """
    name = Path(command[0]).name
    prefix = ["prlimit", f"--as={limits.memory}", f"--cpu={limits.cpu_seconds}", "--core=0", "--"]
    if shutil.which(command[0], path=SYSTEM_PATH) is None:
        raise ProgramError(f"{name} is not installed")
    deadline, watched = time.monotonic() + limits.seconds, progress.Watched()
    with subprocess.Popen(  # noqa: S603
        [*prefix, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={"PATH": SYSTEM_PATH, "LC_ALL": "C"},
    ) as process:
        while True:
            try:
                _, output = process.communicate(timeout=POLL)
            except subprocess.TimeoutExpired:
                watched.look(progress.moved_by_program(process.pid))
                if stopped() or time.monotonic() > deadline:
                    process.kill()
            else:
                break
    if process.returncode != 0:
        text = output.decode(errors="replace").strip()[-500:]
        raise ProgramError(f"{name} exited with {process.returncode}: {text}")
