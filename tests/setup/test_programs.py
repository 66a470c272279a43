"""What the services of bin/up are told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from up.data_folder import DataFolder
from up.places import Places
from up.programs import CHECKOUT, Hosts, environment, programs
from up.run_as import RunAs


def test_modules_of_the_operators_own_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme_placement.py").write_text("WORD = 'found'\n")
    (tmp_path / "portal.py").write_text("raise SystemExit('not this one')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    variables = environment(DataFolder(tmp_path / "data", CHECKOUT / "var"), 8000)
    assert variables["PYTHONPATH"].split(os.pathsep) == [str(CHECKOUT), str(tmp_path)]
    script = "import acme_placement, portal; print(acme_placement.WORD)"
    output = subprocess.run(
        [sys.executable, "-c", script], env=variables, cwd="/", capture_output=True, text=True, check=True
    )
    assert (output.stdout, output.stderr) == ("found\n", "")


def test_no_folder_is_added_where_none_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty part would be the folder that bin/up was called in."""
    for value in (None, ""):
        monkeypatch.setenv("PYTHONPATH", value or "")
        if value is None:
            monkeypatch.delenv("PYTHONPATH")
        assert environment(DataFolder(tmp_path, CHECKOUT / "var"), 8000)["PYTHONPATH"] == str(CHECKOUT)


def options_of(command: list[str]) -> dict[str, str]:
    """The words behind each option of an agent."""
    return dict(zip(command[3::2], command[4::2], strict=True))


def test_each_of_several_hosts_has_an_agent_with_places_of_its_own(tmp_path: Path) -> None:
    data = DataFolder(tmp_path / "data", CHECKOUT / "var")
    made = {each.name: each for each in programs(data, 8000, Hosts.of_this_machine(0, 3), RunAs())}
    assert list(made) == ["web", "worker", "agent-host-1", "agent-host-2", "agent-host-3"]
    options = [options_of(made[f"agent-host-{number}"].command) for number in (1, 2, 3)]
    places = Places(data.netns)
    assert options[1] == {
        "--portal": "http://127.0.0.1:8000",
        "--join-token-file": str(data.path / "run/join-tokens.json"),
        "--machine-id": "data-folder",
        "--host": "host-2",
        "--state-dir": str(data.path / "hosts/host-2"),
        "--netns": places.guests(2),
        "--machine-netns": places.machine(2),
        "--underlay-address": "192.0.2.2",
        "--physical-networks": "external:external0",
    }
    for option in ("--host", "--state-dir", "--netns", "--machine-netns", "--underlay-address"):
        assert len({each[option] for each in options}) == 3


def test_this_machine_as_the_one_host_is_notified_of_no_switch(tmp_path: Path) -> None:
    data = DataFolder(tmp_path / "data", CHECKOUT / "var")
    (agent,) = [each for each in programs(data, 8000, Hosts.of_this_machine(0), RunAs()) if each.name == "agent"]
    options = options_of(agent.command)
    assert options["--netns"] == data.netns
    assert not {"--machine-netns", "--underlay-address", "--physical-networks"} & set(options)
