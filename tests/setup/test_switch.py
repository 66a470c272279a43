"""Several hosts on one machine: what the switch makes, what it lets fail, and that nothing is left of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from compute_agent.network.kernel import namespace
from tests.host.lab import PATIENCE, Space, links, until
from tests.support.stale import sweep
from up.places import EXTERNAL, UNDERLAY
from up.programs import LIBEXEC
from up.switch import Switch, processes_in

pytestmark = pytest.mark.libvirt


@pytest.fixture
def switch() -> Iterator[Switch]:
    if os.geteuid() != 0:
        pytest.skip("needs root: network namespaces")
    switch = Switch(f"nvs{os.getpid()}")
    yield switch
    switch.remove()
    assert namespace.listed(switch.name) == []


def reaches(name: str, address: str, seconds: float = PATIENCE) -> bool:
    """Whether an address answers a ping; ``seconds``: how long to wait, short where no answer is expected."""
    output = Space(name).run("busybox", "ping", "-c", "1", "-W", str(int(seconds)), address, check=False)
    return "1 packets received" in output


def inside(name: str) -> subprocess.Popen[bytes]:
    """Start a process in a namespace that would stay for ever."""
    process = subprocess.Popen(["nsenter", f"--net={namespace.FOLDER / name}", "sleep", "infinity"])
    until(lambda: process.pid in processes_in([name]), "the process is inside")
    return process


def test_hosts_reach_each_other_by_the_underlay_and_nobody_else(switch: Switch) -> None:
    switch.make(3)
    assert [switch.underlay_address(number) for number in (1, 3)] == ["192.0.2.1", "192.0.2.3"]
    assert reaches(switch.machine(1), "192.0.2.3")
    assert not reaches(switch.world, "192.0.2.1", 1)
    for name in (switch.machine(1), switch.world):
        routes = Space(name).run("ip", "route", "show", "default")
        assert routes == ""  # no way to this machine's own network


def test_the_external_interfaces_lead_to_the_outside(switch: Switch) -> None:
    switch.make(2)
    machine = Space(switch.machine(2))
    assert links(machine) == {UNDERLAY, EXTERNAL}
    assert machine.run("ip", "-o", "-4", "address", "show", EXTERNAL) == ""
    machine.run("ip", "address", "add", "203.0.113.9/24", "dev", EXTERNAL)
    assert reaches(switch.machine(2), "203.0.113.1")
    assert reaches(switch.world, "203.0.113.9")


def test_made_again_everything_stays_and_what_went_comes_back(switch: Switch) -> None:
    switch.make(2)
    before = namespace.listed(switch.name)
    Space(switch.machine(1)).run("ip", "link", "delete", UNDERLAY)
    Space(switch.machine(2)).remove()
    kept = Space(switch.machine(1)).path.stat().st_ino
    switch.make(2)
    assert namespace.listed(switch.name) == before
    assert Space(switch.machine(1)).path.stat().st_ino == kept
    assert reaches(switch.machine(1), "192.0.2.2")


def test_a_power_failure_ends_all_of_one_host_and_nothing_of_another(switch: Switch) -> None:
    switch.make(10)
    names = [switch.machine(1), switch.guests(1), f"{switch.guests(1)}-r-1", switch.guests(10), switch.machine(10)]
    for name in names:
        namespace.ensure(name)
    gone = [inside(name) for name in names[:3]]
    spared = [inside(name) for name in names[3:]]
    assert switch.power_off(1) == sorted(process.pid for process in gone)
    assert [process.wait() for process in gone] == [-9, -9, -9]
    assert [process.poll() for process in spared] == [None, None]
    assert not {switch.guests(1), f"{switch.guests(1)}-r-1"} & set(namespace.listed(switch.name))
    assert reaches(switch.machine(10), "192.0.2.1")  # the cables are as they were
    switch.remove()
    assert [process.wait() for process in spared] == [-9, -9]


def test_a_cable_is_pulled_and_plugged_in(switch: Switch) -> None:
    switch.make(2)
    switch.cable(2, plugged=False)
    assert not reaches(switch.machine(1), "192.0.2.2", 1)
    switch.cable(2)
    until(lambda: reaches(switch.machine(1), "192.0.2.2", 1), "the host is back")


def test_the_command_line_makes_and_removes(switch: Switch) -> None:
    def command(*words: str) -> None:
        subprocess.run([sys.executable, str(LIBEXEC), "up.switch", *words], check=True, env={"PYTHONPATH": "."})

    command("make", switch.name, "2")
    machines = {switch.machine(1), switch.machine(2), switch.world, switch.middle}
    assert set(namespace.listed(switch.name)) == machines
    command("remove", switch.name)
    assert namespace.listed(switch.name) == []


def test_what_a_killed_test_run_has_left_is_swept_and_no_other(switch: Switch) -> None:
    run = subprocess.Popen(["sleep", "infinity"])  # until all is made: other workers sweep, too
    try:
        left = Switch(f"nvl{run.pid}")
        for each in (switch, left):
            each.make(1)
        process = inside(left.machine(1))
        mine = namespace.listed(switch.name)
    finally:
        run.kill()
        run.wait()
    assert {left.machine(1), left.middle, left.world} <= set(sweep())
    assert process.wait() == -9
    assert namespace.listed(left.name) == []
    assert namespace.listed(switch.name) == mine
