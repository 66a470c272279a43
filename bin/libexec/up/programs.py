"""The programs of a one-machine cloud: web, queue workers and the agent, with their commands and environment."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from up.data_folder import DataFolder
from up.places import Places
from up.run_as import RunAs
from up.service import Program

CHECKOUT = Path(__file__).resolve().parents[3]
BOOTSTRAP = "portal/run/bootstrap.json"
"""The output of manage.py bootstrap about the cloud that it has seeded."""
LIBEXEC = CHECKOUT / "bin/libexec"
"""The folder of this package; ``python bin/libexec`` runs its programs and those of ``tools``."""
STOP_ORDER = ("agent", "worker", "web")
"""The order in which kinds of services are stopped: agents receive commands, so they stop before workers, which send
them. The service agent-host-1 is of the kind ``agent``.
"""


SIMULATED = "sim"
"""Simulated hosts are sim-1, sim-2 and so on."""
SWITCHED = "host"
"""Several real hosts on this machine are host-1, host-2 and so on."""
JOIN_TOKENS = "run/join-tokens.json"


@dataclass(frozen=True)
class Hosts:
    """The compute hosts of this machine."""

    names: list[str]
    simulated: bool
    switched: bool = False
    """Whether each host is a network namespace that is connected to a switch: see ``up.switch``."""

    @classmethod
    def of_this_machine(cls, simulate: int, several: int = 0) -> Hosts:
        """Return ``simulate`` simulated hosts, ``several`` real ones or, for 0 and 0, this machine under its name."""
        if simulate:
            return cls(_numbered(SIMULATED, simulate), simulated=True)
        if several:
            return cls(_numbered(SWITCHED, several), simulated=False, switched=True)
        name = re.sub(r"[^a-z0-9-]+", "-", platform.node().partition(".")[0].lower()).strip("-")
        return cls([name or "this-machine"], simulated=False)


def _numbered(name: str, count: int) -> list[str]:
    return [f"{name}-{number}" for number in range(1, count + 1)]


def environment(data: DataFolder, port: int, role: str = "command") -> dict[str, str]:
    """Return the portal's environment; it includes the operator's own NOVELLA_ settings and PYTHONPATH."""
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
    """Return the command that runs a program of this folder (``up.switch``) or of ``tools``."""
    return [sys.executable, str(LIBEXEC), module, *arguments]


def programs(data: DataFolder, port: int, hosts: Hosts, run_as: RunAs) -> list[Program]:
    """Return all long-running programs, in the order in which they start; web and worker run under the account
    ``run_as``.
    """
    web = run_as.command(manage("web", "--port", str(port)), port)
    worker = run_as.command(manage("qworker", "--periodic"))
    return [
        Program("web", web, run_as.environment(environment(data, port, "web")), stop_within=8),
        Program("worker", worker, run_as.environment(environment(data, port, "worker")), stop_within=15),
        *_agents(data, port, hosts),
    ]


def _agents(data: DataFolder, port: int, hosts: Hosts) -> list[Program]:
    """Return the agents of the hosts: one for this machine, one process for all simulated hosts, or one for each of
    several real hosts.
    """
    variables = _agent_environment()
    if hosts.simulated:
        return [Program("agent", _simulation(data, port, len(hosts.names)), variables, stop_within=15)]
    if not hosts.switched:
        return [Program("agent", _agent(data, port, hosts.names[0], "--netns", data.netns), variables, stop_within=15)]
    places = Places(data.netns)
    variables = _receiving() | variables
    return [
        Program(f"agent-{name}", _agent(data, port, name, *places.agent_options(number)), variables, stop_within=15)
        for number, name in enumerate(hosts.names, 1)
    ]


def _receiving() -> dict[str, str]:
    """Return the setting with which an agent can receive running guests, if libvirt's daemon is installed."""
    installed = shutil.which("libvirtd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    return {"NOVELLA_AGENT_LIBVIRT_URI": "daemon"} if installed else {}


def _agent(data: DataFolder, port: int, name: str, *where: str) -> list[str]:
    """Return the command of a real host's agent; ``where`` has the options for its network namespaces."""
    return [*_any_agent(data, port), "--host", name, "--state-dir", str(data.path / "hosts" / name), *where]


def _simulation(data: DataFolder, port: int, count: int) -> list[str]:
    """Return the command of the one process for all simulated hosts."""
    options = ["--driver", "fake", "--host", SIMULATED, "--simulate", str(count)]
    return [*_any_agent(data, port), *options, "--state-dir", str(data.path / "hosts")]


def _any_agent(data: DataFolder, port: int) -> list[str]:
    command = [sys.executable, "-m", "compute_agent", "--portal", f"http://127.0.0.1:{port}"]
    # The data folder is copied as a whole, with portal and agents: so a copy is not another machine for the portal.
    return [*command, "--join-token-file", str(data.path / JOIN_TOKENS), "--machine-id", "data-folder"]


def _agent_environment() -> dict[str, str]:
    """Return an environment without the portal's settings and secrets; the agent's settings begin with
    NOVELLA_AGENT_.
    """
    passed = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("NOVELLA_AGENT_") or name in {"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR"}
    }
    return passed | {"PYTHONPATH": str(CHECKOUT), "PYTHONUNBUFFERED": "1"}
