"""Processes of a cloud that stop, or are killed, all of them or one after the other, in the middle of launches.

What was in flight goes on by itself and not by deadlines, which are an hour here.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.support.one_machine import CHECKOUT, ENVIRONMENT, PATIENCE, OneMachine, wait_for
from up.processes import children

COUNT = 10
HOUR = "3600"
NO_DEADLINES = {
    "NOVELLA_CAST_TIMEOUT": HOUR,
    "NOVELLA_BUILD_TIMEOUT": HOUR,
    "NOVELLA_DELETE_TIMEOUT": HOUR,
    "NOVELLA_HOST_DOWN_AFTER": HOUR,  # a host whose agent is held gets launches however long they take to come
    "NOVELLA_AUDIT_INTERVAL": "5",
}
pytestmark = [pytest.mark.deep, pytest.mark.compat]
FAULTS = "SELECT message, details FROM compute_instancefault"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneMachine]:
    """One running cloud for all tests here; each leaves it running and empty."""
    cloud = OneMachine(tmp_path_factory.mktemp("killed") / "data", simulate=3, settings=NO_DEADLINES)
    cloud.up()
    cloud.openstack("quota", "set", "--instances", "50", "--cores", "50", "--ram", "50000", "admin", cloud="admin")
    yield cloud
    cloud.end()


def query(cloud: OneMachine, statement: str) -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(f"file:{cloud.data / 'portal/db.sqlite3'}?mode=ro", uri=True, timeout=10)) as database:
        return database.execute(statement).fetchall()


def states(cloud: OneMachine) -> Counter[tuple[str, ...]]:
    return Counter(
        query(cloud, "SELECT vm_state, coalesce(task_state, '') FROM compute_instance WHERE vm_state <> 'deleted'")
    )


def family(pid: int) -> list[int]:
    """A process and everything below it."""
    return [pid, *(each for child in children(pid) for each in family(child))]


def kill_everything(cloud: OneMachine) -> None:
    """Supervisor, web, worker group and agent, by their numbers, the supervisor first: it must start nothing again."""
    run = cloud.runs[-1]
    pids = family(run.process.pid)
    assert len(pids) >= 6, pids
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    run.process.communicate(timeout=PATIENCE)
    wait_for("all processes are gone", lambda: not any(Path(f"/proc/{pid}/exe").exists() for pid in pids))


def looked_at(cloud: OneMachine, code: str) -> None:
    """Run a look at the records of the cloud in a process of its own."""
    environment = ENVIRONMENT | {"NOVELLA_DATA": str(cloud.data), "DJANGO_SETTINGS_MODULE": "portal.settings"}
    script = f"import django; django.setup(); {code}"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=CHECKOUT, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr


def guests(cloud: OneMachine) -> int:
    """How many guests the hypervisors have now, by the last audits."""
    return int(query(cloud, "SELECT coalesce(sum(running_vms), 0) FROM hosts_host")[0][0])


def launch(cloud: OneMachine, count: int) -> subprocess.Popen[bytes]:
    """Ask for servers as a person does; returns when they are accepted, or some of them further."""
    before = sum(states(cloud).values())
    number = str(count)
    process = subprocess.Popen(
        [
            *(CHECKOUT / ".venv/bin/openstack", "--os-cloud", "admin", "server", "create", "--min", number),
            *("--max", number, "--image", "novella-guest", "--flavor", "m1.nano", "--network", "demo-net", "many"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=ENVIRONMENT | {"OS_CLIENT_CONFIG_FILE": str(cloud.data / "clouds.yaml")},
    )
    wait_for("the launches are accepted", lambda: sum(states(cloud).values()) > before)
    return process


def all_end(cloud: OneMachine, count: int) -> None:
    """Every server is at rest, the sums are right, hosts and records agree; then all are deleted."""
    wait_for("no server is on its way any more", lambda: not any(task for _, task in states(cloud)))
    assert sum(states(cloud).values()) == count
    assert states(cloud)["active", ""] == count, (states(cloud), query(cloud, FAULTS))
    looked_at(cloud, "from tests.support import invariants; invariants.check()")
    wait_for("guests are what the records say", lambda: guests(cloud) == count)
    servers = cloud.openstack("server", "list", "-f", "value", "-c", "ID", cloud="admin").split()
    assert len(servers) == count
    cloud.openstack("server", "delete", "--wait", *servers, cloud="admin")
    wait_for("no guest is left", lambda: guests(cloud) == 0)
    looked_at(cloud, "from tests.support import invariants; invariants.check_empty()")


@pytest.mark.parametrize("held", ["qworker", "compute_agent"])
def test_everything_killed_in_the_middle_of_launches(cloud: OneMachine, held: str) -> None:
    """A program that is stopped holds all launches where they are: in the queue, or with their hosts."""
    for pid in family(cloud.runs[-1].service(held)):
        os.kill(pid, signal.SIGSTOP)
    client = launch(cloud, COUNT)
    on_hosts = COUNT if held == "compute_agent" else 0
    wait_for("the launches are where they are held", lambda: states(cloud)["building", "spawning"] == on_hosts)
    kill_everything(cloud)
    assert all(task for _, task in states(cloud)), "they were done before they could be killed"
    client.wait(PATIENCE)
    cloud.up()
    all_end(cloud, COUNT)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_each_process_in_turn_in_the_middle_of_launches(cloud: OneMachine, how: signal.Signals) -> None:
    """A worker group, an agent and a portal process end while others go on: what they had in hand is handed over."""
    run = cloud.runs[-1]
    for word in ("qworker", "compute_agent", "manage.py web"):
        client = launch(cloud, 5)
        ended = run.service(word)
        os.kill(ended, how)
        run.read_until(r"starting it again")
        wait_for(f"{word} is back", lambda word=word, ended=ended: _started(cloud, word) not in {0, ended})
        client.wait(PATIENCE)
    all_end(cloud, 15)


def _started(cloud: OneMachine, word: str) -> int:
    try:
        return cloud.runs[-1].service(word)
    except StopIteration:
        return 0
