"""Run the small programs of the host, bounded in time, memory and processor."""

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from compute_agent.virt import progress
from compute_agent.virt.rights import Rights

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

PERCENT = re.compile(rb"\(([0-9.]+)/100%\)")
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

    def __init__(self, text: str, number: int | None = None) -> None:
        """Keep the exit code where there is one."""
        super().__init__(text)
        self.number = number


def run_program(
    *command: str, limits: Limits | None = None, stdin: bytes | None = None, rights: Rights | None = None
) -> bytes:
    """Run ``command`` and return its output; raises ProgramError.

    ``limits`` are set with prlimit(1), so that they hold before the program reads a byte of what it is given.
    ``rights``: None for the agent's own.
    """
    limits = limits or Limits()
    name, prefix = Path(command[0]).name, _prefix(limits, rights)
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
        raise ProgramError(f"{name} exited with {done.returncode}: {output}", done.returncode)
    return done.stdout


def _prefix(limits: Limits, rights: Rights | None) -> list[str]:
    """Return the words before those of a program."""
    words = ["prlimit", f"--as={limits.memory}", f"--cpu={limits.cpu_seconds}", "--core=0", "--"]
    return [*words, *(rights.command if rights is not None else ())]


def run_long(
    *command: str, limits: Limits, stopped: Callable[[], bool], total: int = 0, rights: Rights | None = None
) -> None:
    """Run ``command`` as ``run_program`` does, unless ``stopped`` returns True: then it is killed.

    What it reads and writes is told as progress.  ``total``: it prints how far it is with so many bytes, as
    ``qemu-img -p`` does.  Raises ProgramError.
    """
    name, prefix = Path(command[0]).name, _prefix(limits, rights)
    if shutil.which(command[0], path=SYSTEM_PATH) is None:
        raise ProgramError(f"{name} is not installed")
    deadline, watched = time.monotonic() + limits.seconds, progress.Watched()
    done = progress.Watched()
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(  # noqa: S603
            [*prefix, *command],
            stdin=subprocess.DEVNULL,
            stdout=said if total else subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={"PATH": SYSTEM_PATH, "LC_ALL": "C"},
        ) as process,
    ):
        while True:
            try:
                _, output = process.communicate(timeout=POLL)
            except subprocess.TimeoutExpired:
                written = [path for path in rights.places if path.is_file()] if rights is not None else ()
                # What a program of another account reads and writes only a process with CAP_SYS_PTRACE is told.
                watched.look((progress.moved_by_program(process.pid), progress.size_on_disk(*written)))
                if total:
                    done.look(_done(said.fileno(), total), total)
                if stopped() or time.monotonic() > deadline:
                    process.kill()
            else:
                break
    if process.returncode != 0:
        text = output.decode(errors="replace").strip()[-500:]
        raise ProgramError(f"{name} exited with {process.returncode}: {text}", process.returncode)


def _done(descriptor: int, total: int) -> int | None:
    """Return how many bytes of ``total`` a program says it has done; None when it has said nothing yet."""
    length = os.fstat(descriptor).st_size
    found = PERCENT.findall(os.pread(descriptor, 64, max(0, length - 64)))
    return int(float(found[-1]) * total / 100) if found else None
