"""Samples of a host: rates of counters, what the kernel and libvirt show, and simulated guests."""

from __future__ import annotations

import time
import uuid
from pathlib import Path

import pytest

from compute_agent.contract.samples import GUEST_SERIES, HOST_SERIES, MOST_GUESTS
from compute_agent.servers.usage import Sampler
from compute_agent.virt.driver import HostUsage, Values
from compute_agent.virt.fake.driver import FakeDriver
from compute_agent.virt.fake.state import FakeGuest
from compute_agent.virt.machine.machine_usage import machine_usage
from compute_agent.virt.passing_on import PassingOn

HOST = (None,) * len(HOST_SERIES)


class Counting(PassingOn):
    """A driver whose usage a test sets."""

    def __init__(self) -> None:
        super().__init__(FakeDriver())
        self.now = 0.0
        self.guests: dict[str, Values] = {}

    def usage(self) -> HostUsage:
        return HostUsage(HOST, dict(self.guests))


def counters(cpu: float | None = 0.0, memory: float | None = 0.0, disk_read: float | None = 0.0) -> Values:
    return (cpu, memory, disk_read, *(None,) * (len(GUEST_SERIES) - 3))


def rates(driver: Counting, sampler: Sampler, seconds: float, values: Values) -> list[float | None]:
    driver.now += seconds
    driver.guests = {"a": values}
    return sampler.samples().guests[0].values[:3]


def test_counters_become_rates() -> None:
    driver = Counting()
    sampler = Sampler(driver, lambda: driver.now)
    assert rates(driver, sampler, 10, counters(100, 512, 5000)) == [None, 512, None]
    assert rates(driver, sampler, 10, counters(105, 600, 25_000)) == [0.5, 600, 2000]
    assert rates(driver, sampler, 20, counters(105, 600, 25_000)) == [0, 600, 0]


def test_a_counter_that_goes_back_was_restarted() -> None:
    driver = Counting()
    sampler = Sampler(driver, lambda: driver.now)
    rates(driver, sampler, 10, counters(100, 512, 5000))
    assert rates(driver, sampler, 10, counters(3, 512, 6000)) == [None, 512, 100]
    assert rates(driver, sampler, 10, counters(4, 512, None)) == [0.1, 512, None]


def test_a_frame_is_bounded() -> None:
    driver = Counting()
    driver.guests = {str(number): counters() for number in range(MOST_GUESTS + 7)}
    assert len(Sampler(driver).samples().guests) == MOST_GUESTS


def test_simulated_guests_are_busy_and_stay_within_their_size() -> None:
    driver, now = FakeDriver(vcpus=8), time.time()
    driver.init_host()
    for number in range(3):
        fake = FakeGuest(str(uuid.UUID(int=number)), 1, "h", 2, 512, 3, "", "", power=1, boots=[(now - 900, 0.0)])
        driver._state.guests[fake.uuid] = fake
    first, second = driver.usage(), driver.usage()
    for before, after in zip(first.guests.values(), second.guests.values(), strict=True):
        assert len(after) == len(GUEST_SERIES)
        assert all((a or 0) >= (b or 0) for a, b in zip(after, before, strict=True) if after.index(a) != 1)
        assert 0 < (after[0] or 0) < 2 * (time.time() - now + 900)
        assert 0 < (after[1] or 0) <= 512
    assert len(second.host) == len(HOST_SERIES)
    assert (second.host[0] or 0) > (first.host[0] or 0)
    driver.stop(str(uuid.UUID(int=0)), 0)
    assert len(driver.usage().guests) == 2


def test_a_simulated_host_uses_no_more_than_it_has_when_guests_arrive_and_restart() -> None:
    driver, now = FakeDriver(vcpus=2, memory_mb=4096), time.time()
    driver.init_host()
    sampler = Sampler(driver, time.time)
    guests = [
        FakeGuest(str(uuid.UUID(int=number)), 1, "h", 2, 2048, 3, "", "", power=1, boots=[(now - 90_000, 0.0)])
        for number in range(6)
    ]
    for more in (guests[:1], guests):
        sampler.samples()
        driver._state.guests.update({each.uuid: each for each in more})
        cpu, memory = sampler.samples().host[:2]
        assert cpu is not None
        assert 0 <= cpu <= 2
        assert 512 < (memory or 0) <= 4096
    driver.reboot(guests[0].uuid, hard=True, timeout=0)
    assert (sampler.samples().host[0] or -1) >= 0


def test_the_kernel_shows_what_a_machine_uses(tmp_path: Path) -> None:
    proc, sys = tmp_path / "proc", tmp_path / "sys"
    (proc / "1/net").mkdir(parents=True)
    (proc / "stat").write_text("cpu  1000 0 500 9000 700 0 100 0 400 0\ncpu0 1 2 3\n")
    (proc / "meminfo").write_text("MemTotal: 2048000 kB\nMemFree: 1 kB\nMemAvailable: 1024000 kB\n")
    (proc / "loadavg").write_text("1.25 0.5 0.1 1/100 7\n")
    interfaces = ["eth0: 1000 10 0 0 0 0 0 0 2000 20 0 0 0 0 0 0", "  tap1: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0"]
    (proc / "1/net/dev").write_text("Inter-| x\n face | y\n" + "\n".join([*interfaces, "  lo: 5 5 0 0 0 0 0 0 5 5"]))
    result = dict(zip(HOST_SERIES, machine_usage(tmp_path, proc=proc, sys=sys), strict=True))
    assert result["cpu"] == pytest.approx(16.0), "1600 ticks of a hundredth; guests are in them already"
    assert (result["memory"], result["load"]) == (1000.0, 1.25)
    assert (result["network_in"], result["network_out"]) == (1000, 2000)
    assert (result["packets_in"], result["packets_out"]) == (10, 20)
    assert result["disk"] is not None
    assert result["disk_read"] is None, "the kernel shows no such device"


def test_what_the_kernel_does_not_show_is_unknown(tmp_path: Path) -> None:
    nothing = tmp_path / "nothing"
    assert machine_usage(nothing, proc=nothing, sys=nothing) == HOST
