"""The unmodified ``openstack`` program, loaded once: each run is a fork of a process that has imported it already.

Starting Python and importing every client takes a core longer than the command itself.  ``run`` is what the tests
call; ``python -m tests.support.openstack_program`` is the process, which ends when the tests do.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
GROUPS = ("openstack.", "cliff.formatter.")
"""The names of what the program loads at each start begin with these."""
PATIENCE = 240
"""Seconds that one run may take."""
_one_at_a_time = threading.Lock()
_programs: list[subprocess.Popen[str]] = []


def run(arguments: tuple[str, ...], environment: dict[str, str], text: str = "") -> subprocess.CompletedProcess[str]:
    """Run ``openstack`` with these arguments and environment, and with ``text`` on its standard input."""
    with tempfile.TemporaryDirectory(prefix="nv-openstack-") as name, _one_at_a_time:
        folder = Path(name)
        (folder / "in").write_text(text)
        program = _program()
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write(json.dumps([name, arguments, environment]) + "\n")
        program.stdin.flush()
        status = int(program.stdout.readline())
        out, err = ((folder / each).read_text() for each in ("out", "err"))
    assert status != -signal.SIGALRM, f"not within {PATIENCE} s: openstack {arguments} {text}\n{out}\n{err}"
    return subprocess.CompletedProcess(["openstack", *arguments], status, out, err)


def _program() -> subprocess.Popen[str]:
    if not _programs:
        command = [CHECKOUT / ".venv/bin/python", "-m", "tests.support.openstack_program"]
        program = subprocess.Popen(command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        _programs.append(program)
        atexit.register(_end, program)
    return _programs[0]


def _end(program: subprocess.Popen[str]) -> None:
    program.communicate()


def _serve() -> None:
    sys.argv = ["openstack"]  # the program's name is taken from here
    from cliff.command import Command  # noqa: PLC0415 - as the next
    from keystoneauth1.loading import get_available_plugin_loaders  # noqa: PLC0415 - as the next
    from openstackclient import shell  # noqa: PLC0415 - the tests import this module and not the clients

    known = entry_points()
    groups = [group for group in known.groups if group.startswith(GROUPS)]
    loaded = [entry.load() for group in groups for entry in known.select(group=group)]
    get_available_plugin_loaders()
    command: Any = next(each for each in loaded if isinstance(each, type) and issubclass(each, Command))
    command(None, None).get_parser("openstack")  # this looks up the distribution of every module
    for line in sys.stdin:
        child = os.fork()
        if not child:
            _run_here(shell.main, *json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _run_here(main: Any, folder: str, arguments: list[str], environment: dict[str, str]) -> None:
    """Be the program: its files, environment and arguments instead of this process's."""
    modes = {"in": os.O_RDONLY, "out": os.O_WRONLY | os.O_CREAT, "err": os.O_WRONLY | os.O_CREAT}
    for number, (name, mode) in enumerate(modes.items()):
        os.dup2(os.open(Path(folder) / name, mode, 0o600), number)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - a file of the parent's was buffered in the old one
    os.environ.clear()
    os.environ.update(environment)
    signal.alarm(PATIENCE)
    status: Any = 1
    try:
        status = main(arguments)
    except SystemExit as end:
        status = end.code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status if isinstance(status, int) else 0 if status is None else 1)


if __name__ == "__main__":
    _serve()
