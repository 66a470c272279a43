"""Runs programs while the main thread, as a supervisor, collects the ends of all children."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

ENDED = "exit status "


class CommandError(Exception):
    """A program failed; the text is what it said."""


def finished(command: Sequence[str], environment: Mapping[str, str] | None = None, within: float = 120) -> str:
    """Run a program to its end, and return its output. Raises CommandError, subprocess.TimeoutExpired.

    A shell reports its exit status, which another thread may collect before this one waits for it.
    """
    words = ["sh", "-c", f'"$@"; echo "{ENDED}$?"', "sh", *command]
    done = subprocess.run(
        words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=within, check=False
    )
    said, _, status = done.stdout.rpartition(ENDED)
    if status.strip() != "0":
        raise CommandError(f"{' '.join(command[:3])} ended with {status.strip() or 'nothing'}: {said.strip()[-600:]}")
    return said.strip()
