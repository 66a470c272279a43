"""``novella ssh`` and ``novella tunnel`` into a real guest of our own image, by a person's own key."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import Key
from tests.support.one_machine import CHECKOUT, PATIENCE, OneMachine, wait_for

pytestmark = [pytest.mark.compat, pytest.mark.libvirt]
NAME = "ssh guest"
PROGRAM = CHECKOUT / ".venv/bin/novella"
DATA = os.urandom(1_000_000)


@pytest.fixture(scope="module")
def server(cloud: OneMachine, key: Key) -> Iterator[str]:
    """A guest with the key, which no security rule lets anybody in to."""
    cloud.openstack("keypair", "create", "--public-key", str(key.public), "tunnel-key")
    options = ["--image", "novella-guest", "--flavor", "m1.nano", "--network", "demo-net", "--key-name", "tunnel-key"]
    made = cloud.openstack_json("server", "create", *options, "--wait", NAME)
    booted = ("console", "log", "show", str(made["id"]))
    wait_for("the guest to boot", lambda: "=== Novella guest" in cloud.openstack(*booted))
    yield str(made["id"])
    cloud.openstack("server", "delete", "--wait", str(made["id"]))
    cloud.openstack("keypair", "delete", "tunnel-key")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where known hosts are kept."""
    return tmp_path_factory.mktemp("home")


def novella(cloud: OneMachine, home: Path, *arguments: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OS_", "NOVELLA"))}
    variables = {"OS_CLIENT_CONFIG_FILE": str(cloud.data / "clouds.yaml"), "OS_CLOUD": "demo"}
    return subprocess.run(
        [PROGRAM, *arguments], input=data, capture_output=True, timeout=PATIENCE, env=kept | variables, check=False
    )


def ssh_options(home: Path) -> list[str]:
    return ["-o", f"UserKnownHostsFile={home / 'known_hosts'}", "-o", "HashKnownHosts=no", "-o", "BatchMode=yes"]


def test_a_shell_in_a_guest_without_a_way_to_it(cloud: OneMachine, server: str, key: Key, home: Path) -> None:
    """By its name, which has a space; what goes in and comes out is whole, and ends where it ended."""
    own = [*ssh_options(home), "--key", str(key.private)]
    done = novella(cloud, home, "ssh", NAME, *own, "--", "sha256sum; exit 3", data=DATA)
    assert (done.stdout.split()[:1], done.returncode) == ([hashlib.sha256(DATA).hexdigest().encode()], 3), done.stderr
    assert (home / "known_hosts").read_text().startswith(f"novella-{server} ")
    (entry,) = [
        row for row in cloud.openstack_json("server", "event", "list", server) if row["Action"] == "open_tunnel"
    ]
    assert entry["Action"] == "open_tunnel"


def test_other_programs_take_it_as_their_proxy_command(cloud: OneMachine, server: str, key: Key, home: Path) -> None:
    proxy = (
        f"ProxyCommand=env OS_CLIENT_CONFIG_FILE={cloud.data}/clouds.yaml OS_CLOUD=demo {PROGRAM} tunnel %h:%p --stdio"
    )
    options = ["-o", proxy, *ssh_options(home), "-o", f"HostKeyAlias=novella-{server}", "-i", str(key.private)]
    options += ["-o", "StrictHostKeyChecking=accept-new"]
    done = subprocess.run(
        ["ssh", *options, f"root@{server}", "hostname"], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.stdout, done.returncode) == ("ssh-guest\n", 0), done.stderr


@pytest.mark.deep
def test_a_port_where_nothing_listens_is_said(cloud: OneMachine, server: str, home: Path) -> None:
    done = novella(cloud, home, "tunnel", f"{server}:9", "--stdio")
    assert done.returncode == 6
    assert b"novella: The guest takes no connection at port 9" in done.stderr
