"""bin/up ended by a signal before its services run: nothing goes on, and nothing is left in the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.one_machine import ENVIRONMENT, PATIENCE, wait_for
from up import kept
from up.data_folder import DataFolder
from up.health import free_port
from up.prepare import GUEST_IMAGE, Preparation, Progress
from up.processes import children, command_line
from up.programs import CHECKOUT, Hosts

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_log_of_the_shell_half_is_taken_away(tmp_path: Path, number: int, status: int) -> None:
    environment = {**ENVIRONMENT, "ROOT": str(CHECKOUT), "PROGRAM": "bin/up", "STEPS": "1", "TMPDIR": str(tmp_path)}
    script = f". {CHECKOUT}/bin/libexec/environment.sh; quietly sleep 30 || fail 'went on'"
    shell = subprocess.Popen(["sh", "-c", script], env=environment, start_new_session=True)
    wait_for("its work", lambda: any(command_line(child).startswith("sleep 30") for child in children(shell.pid)))
    assert any(tmp_path.glob("novella-setup.*"))
    os.killpg(shell.pid, number)
    assert shell.wait(timeout=PATIENCE) == status
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_preparing_ends_what_was_begun(tmp_path: Path, number: int) -> None:
    up = subprocess.Popen(
        [
            *(sys.executable, CHECKOUT / "bin/libexec", "up", "--data", tmp_path / "data"),
            *("--port", str(free_port()), "--simulate", "1"),
        ],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    (child,) = wait_for("the first program", lambda: children(up.pid))
    up.send_signal(number)
    output, _ = up.communicate(timeout=PATIENCE)
    assert up.returncode == 130
    assert "bin/up: stopped before the services started." in output
    assert "Traceback" not in output
    wait_for("its end, though a slow init may still keep its entry", lambda: not command_line(child))


def test_a_signal_while_a_program_is_being_started_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[subprocess.Popen[str]] = []

    class Interrupted(subprocess.Popen[str]):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            begun.append(self)
            super().__init__(*args, **kwargs)
            os.kill(os.getpid(), signal.SIGTERM)

    data = DataFolder(tmp_path / "data", default=tmp_path / "var")
    data.claim()
    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            Preparation(data, 8000, Hosts(["here"], simulated=False), Progress(0, 1))._call(["sleep", "60"])
        assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGTERM, before)
    assert [each.returncode for each in begun] == [-signal.SIGKILL]


def fake_image(data: DataFolder, calls: list[Any], command: list[str]) -> None:
    calls.append(command)
    (data.path / GUEST_IMAGE).touch(mode=0o600)


def test_what_a_killed_build_left_is_taken_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = DataFolder(tmp_path / "data", default=tmp_path / "var")
    data.claim()
    left = data.path / "guest" / ".guest-abc"
    (left / "tree").mkdir(parents=True)
    calls: list[Any] = []
    monkeypatch.setattr(kept, "FOLDER", tmp_path / "kept")
    monkeypatch.setattr(Preparation, "_call", lambda self, command, run_as: fake_image(data, calls, command))
    Preparation(data, 8000, Hosts(["here"], simulated=False), Progress(0, 1)).guest_image()
    assert calls
    assert not left.exists()
    assert (data.path / GUEST_IMAGE).stat().st_mode & 0o777 == 0o644  # who seeds the cloud reads it
