"""The measured cloud: bin/up with its own folder, and the measured API calls."""

from __future__ import annotations

import http.client
import json
import os
import re
import select
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from up import credentials
from up.data_folder import PORTAL, DataFolder
from up.health import free_port
from up.processes import children, command_line, descendants
from up.programs import CHECKOUT, environment

READY_WITHIN = 900.0
STOP_WITHIN = 60.0
PARTS = {
    "web": ("daphne", "manage.py web"),
    "worker": ("manage.py qworker",),
    "agent": ("compute_agent",),
}
"""Service that bin/up starts → texts of which one is in its command line, depending on the version of Novella."""
ACTIVE_WITHIN = 120.0


class BenchError(Exception):
    """The measurement is not possible. The message gives the reason."""


class RefusedError(BenchError):
    """An API has answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Cloud:
    """A cloud that bin/up can start and stop several times, always on the same folder and port."""

    def __init__(self, folder: Path, simulate: int, checkout: Path = CHECKOUT, **settings: str) -> None:
        """Plan a cloud with ``simulate`` simulated hosts, or with this machine as host if that is 0. ``settings`` are
        environment variables, named as in the operator guide.
        """
        self.data = folder
        self._checkout = checkout
        self._program = str(checkout / "bin/up")
        self._settings = {"NOVELLA_RATE_LIMITS": "none"} | settings  # the benchmark sends more requests than users do
        self.port = free_port()
        self._options = ["--data", str(folder), "--port", str(self.port)]
        self._simulate = ["--simulate", str(simulate)] if simulate else []
        self.hosts = 0
        """Number of real hosts that are connected to a switch, instead of this machine; it must be set
        before ``up``.
        """
        self._process: subprocess.Popen[str] | None = None

    def up(self) -> float:
        """Start bin/up; return the seconds until it has reported that it is ready."""
        began = time.monotonic()
        command = [self._program, *self._options, *self._simulate]
        command += ["--hosts", str(self.hosts)] if self.hosts else []
        plain = {name: value for name, value in os.environ.items() if not name.startswith("NOVELLA_")}
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self._checkout,  # where python -m looks first
            env=plain | self._settings,
        )
        assert self._process.stdout is not None  # noqa: S101 - asked for above
        lines = []
        for line in self._process.stdout:
            lines.append(line)
            if line.startswith("Novella is ready"):
                return time.monotonic() - began
            if line.startswith("Guests are simulated") and not self._simulate:
                self.down()
                raise BenchError(line.strip())
            if time.monotonic() - began > READY_WITHIN:
                break
        self.down()
        raise BenchError("bin/up did not become ready:\n" + "".join(lines))

    @property
    def pid(self) -> int:
        """The process id of bin/up while it is running."""
        assert self._process is not None  # noqa: S101 - asked while it runs
        return self._process.pid

    def down(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        if self._process is not None:
            self._process.communicate(timeout=STOP_WITHIN)
            self._process = None

    def clean(self) -> None:
        self.down()
        command = [self._program, "--clean", "--data", str(self.data)]
        subprocess.run(command, capture_output=True, check=True, timeout=STOP_WITHIN * 2)

    @property
    def portal(self) -> Path:
        """The folder of web and workers; in older versions it is the data folder itself."""
        folder = self.data / PORTAL
        return folder if folder.is_dir() else self.data

    def project(self, name: str) -> str:
        """Return the id of a seeded project."""
        return str(json.loads((self.portal / "run/bootstrap.json").read_text())["projects"][name])

    def password(self, user: str) -> str:
        """Return the password that bin/up has generated for a seeded user."""
        return credentials.read_passwords(self.data / "clouds.yaml")[user]

    def events(self, after: int) -> list[tuple[int, float]]:
        """Return (number, Unix time of writing) of the project events after a number, read while the cloud
        is running.
        """
        with closing(sqlite3.connect(f"file:{self.portal / 'db.sqlite3'}?mode=ro", uri=True)) as database:
            rows = database.execute(
                "SELECT id, created_at FROM events_event WHERE id > ? AND topic LIKE 'project:%' ORDER BY id",
                (after,),
            )
            return [
                (int(number), datetime.fromisoformat(written).replace(tzinfo=UTC).timestamp())
                for number, written in rows
            ]

    def manage(self, *arguments: str) -> str:
        """Run manage.py on this cloud's data; return its output."""
        own = environment(DataFolder(self.data, CHECKOUT / "var"), self.port) | {"PYTHONPATH": str(self._checkout)}
        done = subprocess.run(
            [str(self._checkout / ".venv/bin/python"), str(self._checkout / "manage.py"), *arguments],
            cwd=self._checkout,
            env=own | self._settings,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise BenchError(f"manage.py {arguments[0]}: {done.stderr.strip()[-500:]}")
        return done.stdout

    def allow(self, *resources: str) -> None:
        """Remove the demo project's limits of these resources."""
        code = (
            "from uuid import UUID; from provisioning.quotas.services.limits import set_limit;"
            f"[set_limit(UUID({self.project('demo')!r}), resource, -1) for resource in {resources!r}]"
        )
        self.manage("shell", "--verbosity", "0", "--command", code)

    def parts(self) -> dict[str, list[int]]:
        """Return the ids of each service's Python processes, without guests and the programs that the agent starts."""
        assert self._process is not None  # noqa: S101 - called while it runs
        found = {"supervisor": [self._process.pid]}
        for child in children(self._process.pid):
            line = command_line(child)
            name = next((name for name, words in PARTS.items() if any(word in line for word in words)), "")
            if name:
                pids = [child, *descendants(child)]
                found[name] = [pid for pid in pids if "python" in command_line(pid).partition(" ")[0]]
        return found

    def control_plane_kib(self) -> dict[str, int]:
        """Return the proportional memory (PSS) of each service's processes in KiB."""
        return {name: sum(pss(pid) for pid in pids) for name, pids in self.parts().items()}


def pss(pid: int) -> int:
    """Return a process's proportional memory in KiB; 0 if the process has ended."""
    try:
        found = re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) if found else 0


class Client:
    """A signed-in user with one connection. Threads must not share it."""

    def __init__(self, cloud: Cloud, user: str = "demo") -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", cloud.port, timeout=30)
        self.token, self.microversion = "", ""
        body = credentials.token_request(user, cloud.password(user), user)
        response = self._ask("POST", "/identity/v3/auth/tokens", body)
        self.token = response.headers["X-Subject-Token"] or ""
        found = json.loads(response.read())["token"]
        self.user_id, self.project_id = str(found["user"]["id"]), str(found["project"]["id"])
        seeded = json.loads((cloud.portal / "run/bootstrap.json").read_text())
        self._image, self._flavor = seeded["image"]["id"], seeded["flavor"]["id"]
        self._network = seeded["network"]["id"]

    def close(self) -> None:
        self._connection.close()

    def _ask(self, method: str, path: str, body: Any = None) -> http.client.HTTPResponse:
        headers = {"X-Auth-Token": self.token, "Content-Type": "application/json"}
        headers |= {"OpenStack-API-Version": self.microversion} if self.microversion else {}
        text = json.dumps(body) if body is not None else None
        idle = self._connection.sock
        if idle is not None and select.select([idle], [], [], 0)[0]:
            self._connection.close()  # the server has closed it meanwhile; the next request opens another one
        self._connection.request(method, path, text, headers)
        response = self._connection.getresponse()
        if response.status >= 400:
            raise RefusedError(response.status, f"{method} {path}: {response.status} {response.read()[:300]!r}")
        return response

    def call(self, method: str, path: str, body: Any = None) -> Any:
        text = self._ask(method, path, body).read()
        return json.loads(text) if text else None

    def ec2_keys(self) -> tuple[str, str]:
        """Create EC2 credentials; return the access key and its secret."""
        path = f"/identity/v3/users/{self.user_id}/credentials/OS-EC2"
        made = self.call("POST", path, {"tenant_id": self.project_id})["credential"]
        return str(made["access"]), str(made["secret"])

    def launch(self, name: str) -> str:
        """Launch a server of the smallest flavor; return its id as soon as the request is accepted."""
        return str(self.call("POST", "/compute/v2.1/servers", {"server": self.wanted(name)})["server"]["id"])

    def wanted(self, name: str) -> dict[str, Any]:
        """Return the ``server`` of a launch request with the smallest flavor."""
        return {
            "name": name,
            "imageRef": self._image,
            "flavorRef": self._flavor,
            "networks": [{"uuid": self._network}],
        }

    def fault(self, server: str) -> str:
        """Return the server's state and fault for an error message."""
        found = self.call("GET", f"/compute/v2.1/servers/{server}")["server"]
        return f"{found['name']} is {found['status']}: {found.get('fault', {}).get('message', 'no fault')}"

    def delete_all(self) -> None:
        """Delete all servers of the project and wait until they are deleted."""
        deadline = time.monotonic() + ACTIVE_WITHIN
        asked: set[str] = set()
        while time.monotonic() < deadline:
            servers = {found["id"] for found in self.call("GET", "/compute/v2.1/servers")["servers"]}
            if not servers:
                return
            for server in servers - asked:
                self.call("DELETE", f"/compute/v2.1/servers/{server}")
            asked |= servers
            time.sleep(0.1)
        raise BenchError("servers are not deleted")
