"""The units for systemd: they start what there is, and hold down what they start."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class

from compute_agent.start.options import parse

FOLDER = Path(__file__).parents[2] / "docs/systemd"
UNITS = {path.stem: path for path in FOLDER.glob("*.service")}
CLOSED = {"NoNewPrivileges": "yes", "ProtectSystem": "strict", "ProtectHome": "yes"}
NEEDED = {
    *("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETUID", "SETGID", "SETPCAP"),
    *("NET_ADMIN", "NET_BIND_SERVICE", "NET_RAW", "SYS_ADMIN", "SYS_RESOURCE"),
}
"""What the agent works with: bridges, taps and filters, mounts and namespaces, accounts of what it starts, limits."""


def settings(name: str) -> dict[str, list[str]]:
    """The settings of a unit, each with all its values."""
    result: dict[str, list[str]] = {}
    for line in UNITS[name].read_text().splitlines():
        if line and not line.startswith(("#", "[")):
            key, value = line.split("=", 1)
            result.setdefault(key, []).append(value)
    return result


def test_there_is_a_unit_for_each_role() -> None:
    assert set(UNITS) == {"novella-web", "novella-worker", "novella-agent"}


@pytest.mark.parametrize("name", ["novella-web", "novella-worker"])
def test_web_and_worker_are_nobody_of_weight(name: str) -> None:
    unit = settings(name)
    assert unit["User"] == ["novella"]
    assert unit["CapabilityBoundingSet"] == [""]
    assert {key: unit[key] for key in CLOSED} == {key: [value] for key, value in CLOSED.items()}
    assert unit["UMask"] == ["0077"]
    (line,) = unit["ExecStart"]
    _, script, command, *options = shlex.split(line)
    assert script == "manage.py"
    load_command_class(get_commands()[command], command).create_parser(script, command).parse_args(options)  # type: ignore[arg-type]


def test_the_agent_has_what_it_needs_and_no_more() -> None:
    unit = settings("novella-agent")
    named = {word.removeprefix("CAP_") for line in unit["CapabilityBoundingSet"] for word in line.split()}
    assert named == NEEDED
    assert unit["KillMode"] == ["process"], "guests go on"
    assert unit["NoNewPrivileges"] == ["yes"]
    assert not {"ProtectSystem", "ProtectHome", "PrivateTmp"} & unit.keys(), "networks' namespaces would end with it"
    (line,) = unit["ExecStart"]
    (host,) = parse(shlex.split(line)[1:], {}).hosts
    assert host.state_dir == Path("/var/lib/novella")
    assert host.netns is None
