"""A real guest on a volume, by the unmodified client: rescued, shelved, resized, rebuilt with its data or new."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.conftest import Key
from tests.support.one_machine import CHECKOUT, ENVIRONMENT, PATIENCE, OneMachine, wait_for

pytestmark = [pytest.mark.deep, pytest.mark.compat, pytest.mark.libvirt, pytest.mark.slow]
SERVER, DATA = "on-a-volume", "beside-it"
OPTIONS = ("-o", "UserKnownHostsFile=/dev/null", "-o", "StrictHostKeyChecking=no", "-o", "BatchMode=yes")
ROOTS = (
    "for d in /dev/vd?2; do mount -r -t ext4 $d /mnt 2>/dev/null && cat /mnt/root/kept; umount /mnt; done 2>/dev/null"
)


class User:
    """Somebody with a terminal and a server on a volume."""

    def __init__(self, cloud: OneMachine, key: Key) -> None:
        self.cloud, self.key, self.openstack = cloud, key, cloud.openstack

    def show(self, *kind: str) -> dict[str, Any]:
        return dict(self.cloud.openstack_json(*kind[:-1], "show", kind[-1]))

    def reaches(self, status: str, kind: str = "server", name: str = SERVER) -> None:
        """Wait until it has a status and nothing goes on with it."""

        def look() -> bool:
            shown = self.show(kind, name)
            assert not shown["status"].lower().startswith("error"), shown
            return shown["status"] == status and shown.get("OS-EXT-STS:task_state") is None

        wait_for(f"{kind} {name} is {status}", look)

    def guest(self, script: str) -> str:
        """Run a script in the guest as soon as it lets its owner in."""
        variables = {"OS_CLIENT_CONFIG_FILE": str(self.cloud.data / "clouds.yaml"), "OS_CLOUD": "demo"}
        command = [
            CHECKOUT / ".venv/bin/novella",
            "ssh",
            SERVER,
            *OPTIONS,
            "--key",
            str(self.key.private),
            "--",
            script,
        ]

        def run() -> subprocess.CompletedProcess[str] | None:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=PATIENCE, env=ENVIRONMENT | variables, check=False
            )
            return None if done.returncode in (6, 255) else done  # it has not booted yet

        done = wait_for("the guest lets its owner in", run)
        assert done.returncode == 0, done.stdout + done.stderr
        return str(done.stdout).strip()


@pytest.fixture
def user(cloud: OneMachine, key: Key) -> Iterator[User]:
    cloud.openstack("keypair", "create", "--public-key", str(key.public), SERVER)
    yield User(cloud, key)
    cloud.openstack("server", "delete", "--wait", SERVER)
    for volume in cloud.openstack_json("volume", "list"):
        cloud.openstack("volume", "delete", volume["ID"])
    wait_for("the volumes are gone", lambda: not cloud.openstack_json("volume", "list"))
    cloud.openstack("keypair", "delete", SERVER)


def test_a_server_lives_on_a_volume(user: User) -> None:
    user.openstack("volume", "create", "--size", "1", DATA)
    user.openstack(
        *("server", "create", "--image", "novella-guest", "--boot-from-volume", "1", "--flavor", "m1.nano"),
        *("--network", "demo-net", "--key-name", SERVER, "--wait", SERVER),
    )
    user.openstack("server", "add", "volume", SERVER, DATA)
    user.reaches("in-use", "volume", DATA)
    user.guest("echo kept >/root/kept; echo precious | dd of=/dev/vdb conv=fsync; sync")
    kept = "cat /root/kept; head -c 8 /dev/vdb"
    assert user.guest(kept).split() == ["kept", "precious"]

    user.openstack("--os-compute-api-version", "2.87", "server", "rescue", "--image", "novella-guest", SERVER)
    user.reaches("RESCUE")
    assert user.guest(f"ls /root; {ROOTS}") == "kept"
    user.openstack("server", "unrescue", SERVER)
    user.reaches("ACTIVE")
    assert user.guest(kept).split() == ["kept", "precious"]

    user.openstack("server", "shelve", SERVER)
    user.reaches("SHELVED_OFFLOADED")
    user.openstack("server", "unshelve", SERVER)
    user.reaches("ACTIVE")
    assert user.guest(kept).split() == ["kept", "precious"]

    user.openstack("server", "resize", "--flavor", "m1.micro", SERVER)
    user.reaches("VERIFY_RESIZE")
    user.openstack("server", "resize", "confirm", SERVER)
    user.reaches("ACTIVE")
    assert user.guest(kept).split() == ["kept", "precious"]

    before = user.show("server", SERVER)
    rebuild = ("server", "rebuild", "--image", "novella-guest", "--wait", SERVER)
    user.openstack("--os-compute-api-version", "2.92", *rebuild)
    assert user.guest(kept).split() == ["kept", "precious"]
    user.openstack("--os-compute-api-version", "2.93", *rebuild[:-1], "--reimage-boot-volume", SERVER)
    assert user.guest("ls /root; head -c 8 /dev/vdb") == "precious"
    after = user.show("server", SERVER)
    same = ("id", "addresses", "volumes_attached", "image")
    assert [after[name] for name in same] == [before[name] for name in same]
    assert "N/A" in after["image"]
