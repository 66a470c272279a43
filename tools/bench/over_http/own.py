"""Clouds of this run: bin/up with simulated hosts, each cloud with its own folder, port and database."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path

from tools import postgresql
from tools.bench.cloud import Cloud, pss
from tools.bench.over_http import machine
from tools.bench.over_http.connection import request
from tools.bench.over_http.target import Launch, Target, region, target
from up.processes import descendants

HOSTS = 3
CAPACITY = "512:1048576:8000"
"""vCPUs, MiB of memory and GiB of disk of a simulated host: enough for all servers of a run."""
IDLE_FOR = 5.0
"""Seconds of rest before memory is measured."""
CIDR = "10.64.0.0/20"
"""The subnet range of the servers' network."""
_MAKE_NETWORK = "from uuid import UUID; from provisioning.network.services import create_network, create_subnet"
"""Code for ``manage.py shell`` that imports the functions for the network."""
DATABASES = ("sqlite", "postgresql")


@dataclass
class OwnCloud:
    """A cloud that is started, measured and removed."""

    label: str
    folder: Path
    database: str
    checkout: Path
    _cloud: Cloud | None = None
    _server: postgresql.Server | None = field(default=None, init=False)
    _memory: dict[str, int] = field(default_factory=dict, init=False)

    def make(self) -> None:
        """Start the cloud with its database, measure its idle memory while no other cloud runs, and stop it."""
        settings = {"NOVELLA_AGENT_FAKE_CAPACITY": CAPACITY}
        self.folder.mkdir()
        if self.database == "postgresql":
            beside = self.folder.with_name(f"{self.folder.name}-postgresql")
            self._server = postgresql.Server(beside)
            self._server.start()
            settings["NOVELLA_DATABASE_URL"] = self._server.url
        self._cloud = Cloud(self.folder / "data", HOSTS, self.checkout, **settings)
        self._cloud.up()
        time.sleep(IDLE_FOR)
        self._memory = self._cloud.control_plane_kib()
        if self._server is not None:
            self._memory["database"] = sum(pss(pid) for pid in self._database_pids())
        self._cloud.down()

    def start(self) -> Target:
        """Start the cloud again, and create the resources that launches need."""
        cloud = self._running()
        cloud.up()
        files = {"config_files": [str(cloud.data / "clouds.yaml")], "load_envvars": False}
        found = target(self.label, region("demo", **files))
        found.launch = self._launch(found, target(self.label, region("admin", **files)))
        found.used = lambda: machine.used(self.pids())
        found.memory_kib = self._memory
        return found

    def pids(self) -> dict[str, list[int]]:
        """Return the process ids of each part of the cloud, including those of its database server."""
        parts = self._running().parts()
        return parts | {"database": self._database_pids()} if self._server is not None else parts

    def _database_pids(self) -> list[int]:
        first = self._server.pid if self._server is not None else None
        return [first, *descendants(first)] if first is not None else []

    def _running(self) -> Cloud:
        assert self._cloud is not None  # noqa: S101 - made before it is started
        return self._cloud

    def _launch(self, user: Target, operator: Target) -> Launch:
        """Raise the quotas that a run would reach, and create a network that is large enough. Returns the parameters of
        launches.
        """
        cloud, caller = self._running(), user.caller()
        project = cloud.project("demo")
        compute = {"quota_set": dict.fromkeys(("instances", "cores", "ram", "fixed_ips"), -1)}
        for url, quota in (
            (f"{operator.endpoints.compute}/os-quota-sets/{project}", compute),
            (f"{operator.endpoints.network}/v2.0/quotas/{project}", {"quota": {"port": -1}}),
        ):
            caller.ask(request("PUT", url, {"X-Auth-Token": operator.token}, json.dumps(quota).encode()))
        caller.close()
        code = f"{_MAKE_NETWORK}; create_subnet(made := create_network(UUID({project!r}), 'bench'), {CIDR!r})"
        network = cloud.manage("shell", "--verbosity", "0", "--command", f"{code}; print(made.id)").split()[-1]
        seeded = json.loads((cloud.portal / "run/bootstrap.json").read_text())
        return Launch(seeded["image"]["id"], seeded["flavor"]["id"], [{"uuid": network}])

    def clean(self) -> None:
        """Stop the cloud and remove its resources."""
        try:
            if self._cloud is not None:
                self._cloud.clean()
        finally:
            if self._server is not None:
                self._server.stop(keep=False)
