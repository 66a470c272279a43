"""Runs programs while the main thread, as their supervisor, collects the exit statuses of all child processes."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

ENDED = "exit status "


class CommandError(Exception):
    """A program failed. The message contains the end of its output."""


def finished(command: Sequence[str], environment: Mapping[str, str] | None = None, within: float = 120) -> str:
    """Run a program to its end, and return its output. Raises CommandError, subprocess.TimeoutExpired.

    A shell appends the program's exit status to the output, because the main thread may collect the status before this
    thread can.
    """
    words = ["sh", "-c", f'"$@"; echo "{ENDED}$?"', "sh", *command]
    done = subprocess.run(
        words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=within, check=False
    )
    output, _, status = done.stdout.rpartition(ENDED)
    if status.strip() != "0":
        raise CommandError(f"{' '.join(command[:3])} ended with {status.strip() or 'nothing'}: {output.strip()[-600:]}")
    return output.strip()
