"""Ending and collecting the host's helper processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from compute_agent.virt.processes.processes import is_ours, kill, read_pid

# A process that becomes the heir of a daemon and waits for it to vanish; prints the exit status of a child of its own.
HEIR = """
import os, subprocess, sys, time
from compute_agent.virt.processes.processes import Reaper
Reaper()
daemon = "import os, sys, time\\nif os.fork(): os._exit(0)\\nos.setsid()\\nif os.fork(): os._exit(0)\\n" \\
    "open(sys.argv[1], 'w').write(str(os.getpid()))\\ntime.sleep(0.2)"
subprocess.run([sys.executable, "-c", daemon, sys.argv[1]], check=True)
own = subprocess.Popen([sys.executable, "-c", "raise SystemExit(7)"])
deadline = time.monotonic() + 60
while not (os.path.exists(sys.argv[1]) and open(sys.argv[1]).read()):
    assert time.monotonic() < deadline
pid = int(open(sys.argv[1]).read())
while os.path.exists(f"/proc/{pid}"):
    assert time.monotonic() < deadline, "the daemon is still in the process table"
    time.sleep(0.01)
    own.poll()
print(own.wait())
"""


@pytest.mark.slow
def test_a_daemon_that_ends_is_collected_and_children_are_left_to_who_waits(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HEIR, str(tmp_path / "pid")], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, "7\n"), done.stderr


def test_only_processes_that_name_the_folder_are_ours(tmp_path: Path) -> None:
    code = "import time; time.sleep(30)"
    with subprocess.Popen([sys.executable, "-c", code, f"--file={tmp_path}/x"]) as child:
        while b"--file" not in Path(f"/proc/{child.pid}/cmdline").read_bytes():
            time.sleep(0.01)
        assert is_ours(child.pid, [tmp_path])
        assert not is_ours(child.pid, [tmp_path.with_name(tmp_path.name + "-other")])
        assert not is_ours(child.pid, [Path(str(tmp_path)[:-1])])
        assert kill(child.pid, signal.SIGTERM)
    assert not kill(child.pid)
    assert not is_ours(child.pid, [tmp_path])


def test_a_pid_file_may_hold_anything(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    assert read_pid(file) is None
    for text, pid in (("", None), ("x\n", None), (f"{os.getpid()}\n", os.getpid())):
        file.write_text(text)
        assert read_pid(file) == pid
