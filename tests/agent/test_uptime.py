"""For how long a host has run, and what its processor can, as the agent says it."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from compute_agent.servers.audit import resource_audit
from compute_agent.virt.machine import uptime
from tests.agent.watched_driver import WatchedDriver

CLIENTS = re.compile(r"\s*(.+)\sup\s+(.+),\s+(.+)\susers?,\s+load average:\s(.+)")
"""How the standard command line takes the line apart."""
NOON = time.strptime("12:00:05", "%H:%M:%S")


@pytest.mark.parametrize(
    ("seconds", "lasted"),
    [
        (30, "0 min"),
        (59 * 60, "59 min"),
        (3600 * 3 + 37 * 60, "3:37"),
        (86_400 + 60, "1 day, 1 min"),
        (93 * 86_400 + 18 * 3600 + 25 * 60 + 59.9, "93 days, 18:25"),
    ],
)
def test_the_line_is_that_of_uptime(seconds: float, lasted: str) -> None:
    line = uptime.uptime_line(NOON, seconds, (0.2, 0.125, 10))
    match = CLIENTS.fullmatch(line)
    assert match is not None
    assert match.groups() == ("12:00:05", lasted, "0", "0.20, 0.12, 10.00")


def test_the_machine_tells_its_own() -> None:
    assert CLIENTS.fullmatch(uptime.machine_uptime())


def test_a_kernel_that_does_not_tell_is_no_trouble(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(uptime, "UPTIME", tmp_path / "nothing")
    assert uptime.machine_uptime() == ""
    (tmp_path / "nothing").write_text("")
    assert uptime.machine_uptime() == ""


def test_an_audit_of_the_fake_driver_tells_uptime_and_topology() -> None:
    driver = WatchedDriver(vcpus=6)
    driver.init_host()
    audit = resource_audit(driver, host="h1", host_ip="", cached_images=[])
    assert CLIENTS.fullmatch(audit.uptime)
    assert [audit.cpu_info[name] for name in ("sockets", "cores", "threads")] == ["6", "1", "1"]
    assert "fake" in audit.cpu_info["features"].split(",")
