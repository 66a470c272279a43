"""The programs of a one-machine cloud: web, queue workers and the agent, with their commands and environment."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from data_folder import DataFolder
from service import Program

CHECKOUT = Path(__file__).resolve().parents[2]
STOP_ORDER = ("agent", "worker", "web")
"""First the one that takes commands, then those who give them, then the way in."""


@dataclass(frozen=True)
class Hosts:
    """The compute hosts of this machine."""

    names: list[str]
    simulated: bool


def environment(data: DataFolder, port: int, role: str = "command") -> dict[str, str]:
    """What every process of Novella is told; the operator's own NOVELLA_ settings pass through."""
    return os.environ | {
        "NOVELLA_DATA": str(data.path),
        "NOVELLA_PORT": str(port),
        "NOVELLA_ROLE": role,
        "DJANGO_SETTINGS_MODULE": "portal.settings",
        "PYTHONPATH": str(CHECKOUT),
        "PYTHONUNBUFFERED": "1",
    }


def manage(*arguments: str) -> list[str]:
    return [sys.executable, str(CHECKOUT / "manage.py"), *arguments]


def programs(data: DataFolder, port: int, hosts: Hosts, join_tokens: dict[str, str]) -> list[Program]:
    """Every long-running program, in the order in which they start."""
    return [
        Program("web", _daphne(port), environment(data, port, "web"), stop_within=8),
        Program("worker", manage("qworker", "--periodic"), environment(data, port, "worker"), stop_within=15),
        Program("agent", _agent(data, port, hosts), _agent_environment(join_tokens), stop_within=15),
    ]


def _daphne(port: int) -> list[str]:
    options = ["-b", "127.0.0.1", "-p", str(port), "--verbosity", "0", "--application-close-timeout", "5"]
    return [sys.executable, "-m", "daphne", *options, "portal.asgi:application"]


def _agent(data: DataFolder, port: int, hosts: Hosts) -> list[str]:
    command = [sys.executable, "-m", "compute_agent", "--portal", f"http://127.0.0.1:{port}"]
    for name in hosts.names:
        command += ["--host", name]
    if hosts.simulated:
        return [*command, "--driver", "fake", "--state-dir", str(data.path / "hosts")]
    return [*command, "--driver", "libvirt", "--state-dir", str(data.path / "hosts"), "--netns", data.netns]


def _agent_environment(join_tokens: dict[str, str]) -> dict[str, str]:
    """An agent knows nothing of the portal's secrets; its join tokens are good once."""
    tokens = ",".join(f"{host}={token}" for host, token in join_tokens.items())
    passed = {name: value for name, value in os.environ.items() if name.startswith("NOVELLA_AGENT_")}
    basics = {
        name: os.environ[name] for name in ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR") if name in os.environ
    }
    return basics | passed | {"PYTHONPATH": str(CHECKOUT), "PYTHONUNBUFFERED": "1", "NOVELLA_JOIN_TOKENS": tokens}
