"""Which range the floating IPs of a new cloud come from."""

from __future__ import annotations

import ipaddress
import json
import subprocess
from pathlib import Path

import pytest

from up import outside
from up.outside import Outside, free_range
from up.places import Places
from up.programs import Hosts

PLACES = Places("novella-0")
THIS_MACHINE = Hosts(["kelvin"], simulated=False)


@pytest.mark.parametrize(
    ("used", "chosen"),
    [
        ([], "172.24.4.0/24"),
        (["10.0.0.0/8", "192.168.1.0/24"], "172.24.4.0/24"),
        (["172.24.4.7/32"], "172.24.5.0/24"),
        (["172.24.0.0/21"], "172.16.0.0/24"),
        (["172.16.0.0/16", "172.24.0.0/16"], "172.17.0.0/24"),
        (["172.16.0.0/12"], "172.24.4.0/24"),
    ],
)
def test_the_range_is_one_that_nobody_near_uses(used: list[str], chosen: str) -> None:
    assert str(free_range(map(ipaddress.ip_network, used))) == chosen


def test_networks_around_are_those_of_the_routes(monkeypatch: pytest.MonkeyPatch) -> None:
    routes = [{"dst": "default"}, {"dst": "172.24.4.0/24"}, {"dst": "172.24.5.9"}]
    calls: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        calls.append(command)
        return subprocess.CompletedProcess(command, 0, json.dumps(routes))

    monkeypatch.setattr(outside.subprocess, "run", run)
    monkeypatch.setenv("NOVELLA_AGENT_MACHINE_NETNS", "")
    assert Outside.of(THIS_MACHINE, PLACES) == Outside("machine", ("172.24.6.1/24",))
    monkeypatch.setenv("NOVELLA_AGENT_MACHINE_NETNS", "elsewhere")
    Outside.of(THIS_MACHINE, PLACES)
    assert calls == [["ip", "-j", "route", "show"], ["ip", "-j", "-n", "elsewhere", "route", "show"]]


def test_an_operators_range_is_taken_as_it_is() -> None:
    result = Outside.of(THIS_MACHINE, PLACES, ipaddress.ip_network("192.168.1.128/25"))
    assert result == Outside("machine", ("192.168.1.129/25",))
    assert result.options() == ["--external-network", "machine", "--external-range", "192.168.1.129/25"]


def test_several_hosts_lead_to_the_world_at_their_switch() -> None:
    result = Outside.of(Hosts.of_this_machine(0, 2), PLACES)
    assert result == Outside("external", PLACES.outside)
    world = [ipaddress.ip_interface(text).network for text in result.gateways]
    assert world == [ipaddress.ip_network("203.0.113.0/24"), ipaddress.ip_network("2001:db8:113::/64")]


def test_simulated_hosts_look_at_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Outside.of(Hosts.of_this_machine(2), PLACES) == Outside("machine", ("172.24.4.1/24",))
