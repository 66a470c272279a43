"""Every ``openstack`` command of the Networking API is used by the tests, or belongs to an extension not offered."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tests.e2e.network_extensions import NOT_OFFERED

HERE = Path(__file__).parent
GROUP = "openstack.network.v2"


def every_command() -> set[str]:
    """The client's commands, ``floating ip port forwarding list``."""
    return {
        each.name.replace("_", " ")
        for each in distribution("python-openstackclient").entry_points
        if each.group.startswith(GROUP)
    }


def lines_used() -> Iterator[str]:
    """The beginnings of all lines that the tests give to the command line."""
    for node in ast.walk(ast.parse((HERE / "test_network_clients.py").read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"batch", "refused"}:
            for line in node.args[1:]:
                start = line.values[0] if isinstance(line, ast.JoinedStr) else line
                assert isinstance(start, ast.Constant), ast.unparse(line)
                yield str(start.value)


@pytest.mark.slow
def test_every_command_is_used() -> None:
    commands = every_command()
    used = {longest for line in lines_used() if (longest := _command_of(line, commands))}
    others = {alias: clients.of_command_line(commands) for alias, clients in NOT_OFFERED.items()}
    assert [alias for alias, names in others.items() if names & used] == []
    assert sorted(commands - used - set().union(*others.values())) == []


def _command_of(line: str, commands: set[str]) -> str:
    """The longest command that the line begins with: ``network rbac list`` is no ``network``."""
    return max((each for each in commands if f"{line} ".startswith(f"{each} ")), key=len, default="")
