"""The programs of a one-machine cloud: web, queue workers and the agent, with their commands and environment."""

from __future__ import annotations

import os
import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from up.data_folder import DataFolder
from up.run_as import RunAs
from up.service import Program

CHECKOUT = Path(__file__).resolve().parents[3]
BOOTSTRAP = "portal/run/bootstrap.json"
"""What manage.py bootstrap says of the cloud that it has seeded."""
LIBEXEC = CHECKOUT / "bin/libexec"
"""The folder of these packages."""
STOP_ORDER = ("agent", "worker", "web")
"""First the one that takes commands, then those who give them, then the way in."""


SIMULATED = "sim"
"""Simulated hosts are sim-1, sim-2 and so on."""
JOIN_TOKENS = "run/join-tokens.json"


@dataclass(frozen=True)
class Hosts:
    """The compute hosts of this machine."""

    names: list[str]
    simulated: bool

    @classmethod
    def of_this_machine(cls, simulate: int) -> Hosts:
        """Return ``simulate`` simulated hosts or, for 0, this machine under its short name."""
        if simulate:
            return cls([f"{SIMULATED}-{number}" for number in range(1, simulate + 1)], simulated=True)
        name = re.sub(r"[^a-z0-9-]+", "-", platform.node().partition(".")[0].lower()).strip("-")
        return cls([name or "this-machine"], simulated=False)


def environment(data: DataFolder, port: int, role: str = "command") -> dict[str, str]:
    """Return the portal's environment; the operator's own NOVELLA_ settings and PYTHONPATH pass through."""
    path = [str(CHECKOUT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {
        "NOVELLA_DATA": str(data.path),
        "NOVELLA_PORT": str(port),
        "NOVELLA_ROLE": role,
        "DJANGO_SETTINGS_MODULE": "portal.settings",
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONUNBUFFERED": "1",
        "MALLOC_ARENA_MAX": os.environ.get("MALLOC_ARENA_MAX", "1"),  # 10 MiB less, for threads take turns anyway
    }


def manage(*arguments: str) -> list[str]:
    return [sys.executable, str(CHECKOUT / "manage.py"), *arguments]


def tool(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a program of this folder (``guest_image``, ``bench.bare``)."""
    return [sys.executable, str(LIBEXEC), module, *arguments]


def programs(data: DataFolder, port: int, hosts: Hosts, run_as: RunAs) -> list[Program]:
    """Return every long-running program, in the order in which they start; web and worker run as the account."""
    web = run_as.command(manage("web", "--port", str(port)), port)
    worker = run_as.command(manage("qworker", "--periodic"))
    return [
        Program("web", web, run_as.environment(environment(data, port, "web")), stop_within=8),
        Program("worker", worker, run_as.environment(environment(data, port, "worker")), stop_within=15),
        Program("agent", _agent(data, port, hosts), _agent_environment(), stop_within=15),
    ]


def _agent(data: DataFolder, port: int, hosts: Hosts) -> list[str]:
    """Run the agent of this machine, or one process for all simulated hosts."""
    command = [sys.executable, "-m", "compute_agent", "--portal", f"http://127.0.0.1:{port}"]
    # The data folder moves as a whole, the portal's half with the agents': no copy of it is a second machine to it.
    command += ["--join-token-file", str(data.path / JOIN_TOKENS), "--machine-id", "data-folder"]
    folder = data.path / "hosts"
    if hosts.simulated:
        count = str(len(hosts.names))
        return [*command, "--driver", "fake", "--host", SIMULATED, "--simulate", count, "--state-dir", str(folder)]
    (name,) = hosts.names
    return [*command, "--host", name, "--state-dir", str(folder / name), "--netns", data.netns]


def _agent_environment() -> dict[str, str]:
    """Return an environment without the portal's settings and secrets; an agent's begin with NOVELLA_AGENT_."""
    passed = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("NOVELLA_AGENT_") or name in {"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR"}
    }
    return passed | {"PYTHONPATH": str(CHECKOUT), "PYTHONUNBUFFERED": "1"}
