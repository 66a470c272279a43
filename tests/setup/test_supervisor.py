"""The supervisor with stand-in programs: what must hold for web, workers and agent holds for any program."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from up import service
from up.data_folder import DataFolder
from up.supervisor import Supervisor

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
PATIENCE = 120.0


def until(question: Callable[[], Any], what: str) -> Any:
    """Ask until the answer is true; fail after PATIENCE seconds."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if answer := question():
            return answer
        time.sleep(0.02)
    raise AssertionError(f"waited {PATIENCE:.0f} s for {what}")


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@dataclass
class Stage:
    """A folder for stand-ins and the supervisor that runs them."""

    folder: Path
    process: subprocess.Popen[str] | None = None
    started: list[int] = field(default_factory=list)

    def run(self, *programs: dict[str, Any]) -> None:
        plan = self.folder / "programs.json"
        plan.write_text(json.dumps(programs))
        self.process = subprocess.Popen(
            [sys.executable, HERE / "supervise.py", self.folder / "data", plan],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def script(self, name: str, text: str) -> list[str]:
        """A stand-in program in shell; ``$D`` is the folder it may write to."""
        path = self.folder / f"{name}.sh"
        path.write_text(f"D={self.folder}\n{text}")
        return ["sh", str(path)]

    def pid(self, name: str, *, other_than: int = 0) -> int:
        """The number in a file that a stand-in wrote."""

        def read() -> int:
            path = self.folder / name
            text = path.read_text().strip() if path.exists() else ""
            return int(text) if text and int(text) != other_than else 0

        pid: int = until(read, f"{name} of a new process")
        self.started.append(pid)
        return pid

    @property
    def supervisor(self) -> subprocess.Popen[str]:
        assert self.process is not None
        return self.process

    def stop(self) -> str:
        self.supervisor.send_signal(signal.SIGTERM)
        output, _ = self.supervisor.communicate(timeout=PATIENCE)
        return output


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    if stage.process is not None and stage.process.poll() is None:
        stage.process.kill()
    if stage.process is not None:
        stage.process.wait()
        assert stage.process.stdout is not None
        stage.process.stdout.close()
    for pid in stage.started:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)


LASTING = "echo $$ >$D/pid.new; mv $D/pid.new $D/pid; exec sleep 600\n"


def test_a_service_that_dies_is_started_again(stage: Stage) -> None:
    stage.run({"name": "web", "command": stage.script("web", LASTING)})
    first = stage.pid("pid")
    os.kill(first, signal.SIGKILL)
    second = stage.pid("pid", other_than=first)
    assert alive(second)
    assert "web ended (signal SIGKILL); starting it again in 0.5 s." in stage.stop()


def test_the_pause_grows_while_a_service_keeps_ending(stage: Stage) -> None:
    stage.run({"name": "web", "command": stage.script("web", "echo . >>$D/runs; exit 3\n")})
    until(lambda: (stage.folder / "runs").exists() and (stage.folder / "runs").read_text().count(".") == 3, "3 starts")
    output = stage.stop()
    assert "exit status 3" in output
    assert "in 0.5 s." in output
    assert "in 1 s." in output


def test_the_group_of_a_dead_service_is_gone_before_the_next_start(stage: Stage) -> None:
    text = "sleep 600 & echo $! >$D/child.$$; echo $$ >$D/pid.new; mv $D/pid.new $D/pid; wait\n"
    stage.run({"name": "worker", "command": stage.script("worker", text)})
    first = stage.pid("pid")
    child = stage.pid(f"child.{first}")
    os.kill(first, signal.SIGKILL)
    stage.pid("pid", other_than=first)
    assert not alive(child)


def test_a_guest_outlives_its_agent_and_the_supervisor(stage: Stage) -> None:
    """QEMU makes a session of its own: nothing that ends the agent's group may end it."""
    text = "[ -e $D/guest ] || { setsid sleep 600 </dev/null >/dev/null 2>&1 & echo $! >$D/guest; }\n" + LASTING
    stage.run({"name": "agent", "command": stage.script("agent", text)})
    guest = stage.pid("guest")
    until(lambda: os.getsid(guest) == guest, "a session of the guest's own")
    agent = stage.pid("pid")
    os.kill(agent, signal.SIGKILL)
    stage.pid("pid", other_than=agent)
    assert alive(guest)
    stage.stop()
    assert alive(guest)


def test_ends_of_adopted_orphans_are_taken(stage: Stage) -> None:
    text = "[ -e $D/guest ] || { (setsid sleep 600 </dev/null >/dev/null 2>&1 & echo $! >$D/guest); }\n" + LASTING
    stage.run({"name": "agent", "command": stage.script("agent", text)})
    guest = stage.pid("guest")
    stage.pid("pid")
    os.kill(guest, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{guest}").exists(), "the zombie to be gone")


def test_a_child_that_another_thread_has_waited_for_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a program that is run beside ends between the supervisor's look and its wait."""
    child = subprocess.Popen(["true"])
    child.wait()
    ended = iter([SimpleNamespace(si_pid=child.pid), None])
    monkeypatch.setattr(os, "waitid", lambda *_: next(ended))
    Supervisor(DataFolder(tmp_path, default=tmp_path), [], print).step(0)
    assert next(ended, "all") == "all"


def test_a_service_that_does_not_stop_is_ended_in_its_time(stage: Stage) -> None:
    deaf = "trap '' TERM\necho $$ >$D/pid\nwhile :; do sleep 1; done\n"
    stage.run({"name": "worker", "command": stage.script("worker", deaf), "stop_within": 0.3})
    pid = stage.pid("pid")
    began = time.monotonic()
    output = stage.stop()
    assert "worker did not stop in time and is ended." in output
    assert not alive(pid)
    assert time.monotonic() - began < PATIENCE / 2


def test_a_service_that_ends_as_it_is_asked_to_stop_is_not_waited_for(tmp_path: Path) -> None:
    """Whoever asks leaves its end to be taken with those of all other children."""
    web = service.Service(service.Program("web", ["true"], {}), service.Log(tmp_path / "log"), lambda *_: None)
    web.start()
    assert web.process is not None
    pid = web.process.pid
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    web.ask_to_stop()
    assert os.waitpid(pid, os.WNOHANG) == (pid, 0)
    web.ended(0)
    assert not web.running
    web.log.close()


def test_a_second_signal_ends_the_services_at_once(stage: Stage) -> None:
    deaf = "trap 'touch $D/asked' TERM\necho $$ >$D/pid\nwhile :; do sleep 0.05; done\n"
    stage.run({"name": "worker", "command": stage.script("worker", deaf), "stop_within": 600})
    pid = stage.pid("pid")
    stage.supervisor.send_signal(signal.SIGINT)
    until((stage.folder / "asked").exists, "the request to stop")
    stage.stop()
    assert not alive(pid)


def polite(stage: Stage, name: str, reason: str = "sleep 0.2") -> dict[str, Any]:
    """A program that writes down when it is asked to stop, and goes after ``reason``."""
    command = stage.script(
        name,
        f"trap 'echo {name} asked >>$D/order; {reason}; echo {name} gone >>$D/order; exit' TERM\n"
        f"echo $$ >$D/{name}\nwhile :; do sleep 0.05; done\n",
    )
    return {"name": name, "command": command, "stop_within": PATIENCE}


def stopped(stage: Stage, *programs: dict[str, Any]) -> list[str]:
    stage.run(*programs)
    for program in programs:
        stage.pid(program["name"])
    stage.stop()
    return (stage.folder / "order").read_text().splitlines()


def test_services_stop_one_after_the_other(stage: Stage) -> None:
    order = stopped(stage, polite(stage, "web"), polite(stage, "agent"))
    assert order == ["agent asked", "agent gone", "web asked", "web gone"]


def test_the_agents_of_several_hosts_stop_together(stage: Stage) -> None:
    names = ["agent-1", "agent-2", "agent"]  # the plan's last name is the first to be asked for
    both = "until [ $(grep -c asked $D/order) = 3 ]; do sleep 0.05; done"
    order = stopped(stage, *(polite(stage, name, both) for name in names))
    assert sorted(order[:3]) == ["agent asked", "agent-1 asked", "agent-2 asked"]
    assert sorted(order[3:]) == ["agent gone", "agent-1 gone", "agent-2 gone"]


def test_services_go_with_a_killed_supervisor(stage: Stage) -> None:
    stage.run({"name": "web", "command": stage.script("web", LASTING)})
    pid = stage.pid("pid")
    stage.supervisor.kill()
    until(lambda: not alive(pid), "the service to follow")


def test_what_a_killed_supervisor_left_is_ended_by_the_next(stage: Stage) -> None:
    deaf = "trap '' TERM\necho $$ >$D/pid.new; mv $D/pid.new $D/pid\nwhile :; do sleep 0.2; done\n"
    plan = {"name": "web", "command": stage.script("web", deaf), "stop_within": 0.3}
    stage.run(plan)
    first = stage.pid("pid")
    until(lambda: f"{first}" in (stage.folder / "data/run/services.json").read_text(), "the record")
    stage.supervisor.kill()
    stage.supervisor.communicate()
    assert alive(first)
    stage.run(plan)
    stage.pid("pid", other_than=first)
    assert not alive(first)


def test_a_second_supervisor_on_the_same_folder_is_refused(stage: Stage) -> None:
    stage.run({"name": "web", "command": stage.script("web", LASTING)})
    first = stage.pid("pid")
    other = Stage(stage.folder)
    other.run({"name": "web", "command": ["true"]})
    output, _ = other.supervisor.communicate(timeout=PATIENCE)
    assert other.supervisor.returncode != 0
    assert f"Novella is already running on {stage.folder / 'data'}" in output
    assert alive(first)


def test_output_is_kept_and_what_matters_is_shown(stage: Stage) -> None:
    text = "echo all is well; echo ERROR the disk is full >&2; printf 'no end of line'; touch $D/said; exec sleep 600\n"
    stage.run({"name": "web", "command": stage.script("web", text)})
    log = stage.folder / "data/log/web.log"
    until((stage.folder / "said").exists, "all of the output")
    until(lambda: log.exists() and "disk is full" in log.read_text(), "the log")
    output = stage.stop()
    assert log.read_text() == "all is well\nERROR the disk is full\nno end of line\n"
    assert "web | ERROR the disk is full" in output
    assert "all is well" not in output


def test_a_long_log_is_moved_aside(tmp_path: Path) -> None:
    log = service.Log(tmp_path / "web.log")
    line = b"x" * 999_999 + b"\n"
    for _ in range(17):
        log.write(line)
    log.close()
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert kept == ["web.log", "web.log.1", "web.log.2", "web.log.3"]
    assert all(path.stat().st_size <= service.LOG_BYTES for path in tmp_path.iterdir())


def test_the_last_line_of_a_service_is_kept(tmp_path: Path) -> None:
    lines: list[str] = []
    program = service.Program("one", [sys.executable, "-c", "print('first'); print('Error: no such rule')"], {})
    log = service.Log(tmp_path / "one.log")
    one = service.Service(program, log, lambda _, line: lines.append(line))
    one.start()
    assert one.process is not None
    one.ended(os.waitpid(one.process.pid, 0)[1])
    log.close()
    assert (one.last_line, lines) == ("Error: no such rule", [])
