"""Commands in real guests, by SSH through the portal's tunnel: no security group and no network is in the way."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from openstack.config import OpenStackConfig
from openstack.connection import Connection

from tests.support.one_machine import CHECKOUT, PATIENCE, OneMachine, wait_for

PROGRAM = CHECKOUT / ".venv/bin/novella"


@dataclass
class Clouds:
    """One person's word in several projects: one entry of clouds.yaml for each."""

    file: Path

    @classmethod
    def write(cls, cloud: OneMachine, file: Path, *projects: str, user: str = "admin") -> Clouds:
        """Write the entries; the projects have to be there, with a role in them for the user."""
        result = yaml.safe_load((cloud.data / "clouds.yaml").read_text())["clouds"][user]
        entries = {name: result | {"auth": result["auth"] | {"project_name": name}} for name in projects}
        file.write_text(yaml.safe_dump({"clouds": entries}))
        return cls(file)

    def connect(self, project: str) -> Connection:
        return Connection(config=OpenStackConfig(config_files=[str(self.file)]).get_one(project))


@dataclass
class Guest:
    """A server of our own image with our key."""

    clouds: Clouds
    project: str
    server: str
    address: str
    key: Path
    folder: Path
    """Where the connections that are kept open are; a short path."""
    login: str = "root"
    beside: str = ""
    """The network namespace from which it is reached where the portal is not; nothing: through the portal."""

    def run(self, command: str, *, check: bool = True, stdin: bytes | None = None) -> str:
        """Run a shell command and return what it printed."""
        variables = f"env OS_CLIENT_CONFIG_FILE={self.clouds.file} OS_CLOUD={self.project}"
        proxy = f"ProxyCommand={variables} {PROGRAM} tunnel --stdio --address {self.address} {self.server}:22"
        if self.beside:
            proxy = f"ProxyCommand=ip netns exec {self.beside} busybox nc {self.address} 22"
        options = {
            "ControlMaster": "auto", "ControlPath": str(self._kept), "ControlPersist": "300",
            "StrictHostKeyChecking": "no", "UserKnownHostsFile": "/dev/null", "BatchMode": "yes", "LogLevel": "ERROR",
        }  # fmt: skip
        words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        done = subprocess.run(
            ["ssh", *words, "-o", proxy, "-i", self.key, f"{self.login}@{self.server}", command],
            capture_output=True, input=stdin, timeout=PATIENCE, check=False,
        )  # fmt: skip
        output = done.stdout.decode()
        assert not check or done.returncode == 0, f"{command}: {output}{done.stderr.decode(errors='replace')}"
        return output

    @property
    def _kept(self) -> Path:
        return self.folder / f"{self.login}-{self.server[:8]}{'-b' if self.beside else ''}"

    def hang_up(self) -> None:
        """Close the connection that is kept open."""
        subprocess.run(
            ["ssh", "-O", "exit", "-o", f"ControlPath={self._kept}", "guest"], capture_output=True, check=False
        )

    def has(self, path: str) -> bool:
        """Whether there is a file; a list of a folder fails while something goes from it."""
        return self.run(f"test -e {path} && echo yes || echo no") == "yes\n"

    def pings(self, address: str, interface: str = "") -> bool:
        """Whether an address answers a ping within two seconds."""
        through = f"-I {interface} " if interface else ""
        return "1 packets received" in self.run(f"ping -c 1 -W 2 {through}{address}", check=False)

    def reaches(self, address: str) -> None:
        """Wait until an address answers."""
        wait_for(f"{address} answers {self.address}", lambda: self.pings(address), 30)

    def metadata(self) -> Any:
        """Return what the metadata service says of the guest that asks."""
        return yaml.safe_load(self.run("wget -q -O - http://169.254.169.254/openstack/latest/meta_data.json"))


def missing(output: str) -> tuple[int, list[int]]:
    """Return how many packets a ping got back, and the numbers of those that are missing before the last one."""
    numbers = {int(number) for number in re.findall(r"seq=(\d+)", output)}
    assert numbers, output
    return len(numbers), sorted(set(range(max(numbers))) - numbers)
