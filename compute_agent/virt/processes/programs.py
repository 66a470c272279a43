"""Run programs of the host with limits of time, memory and CPU time."""

import math
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from compute_agent.virt.processes import progress
from compute_agent.virt.processes.rights import Rights

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

PERCENT = re.compile(rb"\(([0-9.]+)/100%\)")
POLL = 0.2
"""Seconds between checks of a long-running program."""
ENDING_WITH_AGENT = ("setpriv", "--pdeathsig", "KILL", "--")
"""The kernel kills the program when the thread that has started it ends, and therefore when the agent is killed."""


@dataclass(frozen=True)
class Limits:
    """Limits of one run: wall-clock seconds, CPU seconds, bytes of address space."""

    seconds: float = 60.0
    cpu_seconds: int = 60
    memory: int = 2 << 30


class ProgramError(Exception):
    """A program failed, was stopped by its limits or does not exist. The text is for the operator."""

    def __init__(self, text: str, number: int | None = None) -> None:
        """``number``: the exit code, if any."""
        super().__init__(text)
        self.number = number


def run_program(
    *command: str, limits: Limits | None = None, stdin: bytes | None = None, rights: Rights | None = None
) -> bytes:
    """Run ``command`` and return its output. Raises ProgramError.

    ``limits`` are set with prlimit(1), so that they apply before the program reads any input. ``rights``: None for the
    agent's own rights.
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
    """Return the command line that precedes a program's own, to set its limits and rights."""
    words = ["prlimit", f"--as={limits.memory}", f"--cpu={limits.cpu_seconds}", "--core=0", "--"]
    return [*words, *(rights.command if rights is not None else ())]


def run_long(
    *command: str,
    limits: Limits,
    stopped: Callable[[], bool],
    total: int = 0,
    rights: Rights | None = None,
    most_still: float = math.inf,
) -> None:
    """Run ``command`` like ``run_program``, but kill it when ``stopped`` returns True, when it has made no progress for
    ``most_still`` seconds, or when the agent dies. It is not started if ``stopped`` returns True already.

    Progress is bytes read and written, and the percentage that the program prints. ``total``: the number of bytes of
    which it prints the percentage done, like ``qemu-img -p``. Raises ProgramError.
    """
    name, prefix = Path(command[0]).name, [*ENDING_WITH_AGENT, *_prefix(limits, rights)]
    if shutil.which(command[0], path=SYSTEM_PATH) is None:
        raise ProgramError(f"{name} is not installed")
    if stopped():
        raise ProgramError(f"{name} was stopped before it started")
    deadline, watched = time.monotonic() + limits.seconds, progress.Watched()
    still_until = time.monotonic() + most_still
    done = progress.Watched()
    with (
        tempfile.TemporaryFile() as output_file,
        subprocess.Popen(  # noqa: S603
            [*prefix, *command],
            stdin=subprocess.DEVNULL,
            stdout=output_file if total else subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={"PATH": SYSTEM_PATH, "LC_ALL": "C"},
        ) as process,
    ):
        while True:
            try:
                _, output = process.communicate(timeout=POLL)
            except subprocess.TimeoutExpired:
                written = [path for path in rights.places if path.is_file()] if rights is not None else ()
                # The I/O counters of another account's program require CAP_SYS_PTRACE.
                amounts = (progress.moved_by_program(process.pid), progress.size_on_disk(*written))
                looks = [watched.look(amounts)]
                if total:
                    looks.append(done.look(_done(output_file.fileno(), total), total))
                if any(looks):
                    still_until = time.monotonic() + most_still
                if stopped() or time.monotonic() > min(deadline, still_until):
                    process.kill()
            else:
                break
    if process.returncode != 0:
        text = output.decode(errors="replace").strip()[-500:]
        raise ProgramError(f"{name} exited with {process.returncode}: {text}", process.returncode)


def _done(descriptor: int, total: int) -> int | None:
    """Return the bytes that are done, from ``total`` and the program's last printed percentage; None before the program
    has printed a percentage.
    """
    length = os.fstat(descriptor).st_size
    percentages = PERCENT.findall(os.pread(descriptor, 64, max(0, length - 64)))
    return int(float(percentages[-1]) * total / 100) if percentages else None
