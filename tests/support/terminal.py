"""Somebody with a terminal: runs the unmodified ``openstack`` client, waits for what comes of it, looks into guests."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from openstack.config import OpenStackConfig
from openstack.connection import Connection

from tests.support.one_machine import CHECKOUT, ENVIRONMENT, PATIENCE, OneMachine, wait_for

KEY = "terminal-key"
GUEST = ("--flavor", "m1.nano", "--network", "demo-net", "--key-name", KEY)
"""How a server is made that lets the terminal in."""
AT_REST = {"available", "in-use", "active", "paused", "suspended", "shutoff", "shelved_offloaded", "rescue"}
KINDS = ("server", "volume backup", "volume snapshot", "volume")
"""What one of a kind needs comes after it: they are removed in this order."""


class Terminal:
    """A person of the project demo, who gives commands by the client; it is the SDK that looks how far they are."""

    def __init__(self, cloud: OneMachine, key: Path) -> None:
        self.cloud, self.key = cloud, key
        self.openstack, self.json = cloud.openstack, cloud.openstack_json
        config = OpenStackConfig(config_files=[str(cloud.data / "clouds.yaml")])
        self.sdk = Connection(config=config.get_one("demo"))

    def all_of(self, kind: str) -> dict[str, Any]:
        """What there is of a kind by its ids, the newest first."""
        storage = self.sdk.block_storage
        lists = (self.sdk.compute.servers, storage.backups, storage.snapshots, storage.volumes)
        return {result.id: result for result in lists[KINDS.index(kind)]()}

    def settled(self, *kinds: str) -> None:
        """Wait until nothing is being done to a server, volume, snapshot or backup."""

        def at_rest() -> bool:
            for kind in kinds or KINDS:
                result = {row.name or ident: row.status.lower() for ident, row in self.all_of(kind).items()}
                assert not any("error" in status for status in result.values()), result
                if not {*result.values()} <= AT_REST:
                    return False
            return True

        wait_for("everything is at rest", at_rest)

    def status(self, kind: str, name: str, status: str) -> Any:
        """Wait until a volume, snapshot, backup or server has a status; what there is of it then."""

        def look() -> Any:
            record = next(row for row in self.all_of(kind).values() if name in (row.name, row.id))
            assert not record.status.lower().startswith("error"), record
            return record if record.status == status else None

        return wait_for(f"{kind} {name} is {status}", look)

    def launch(self, name: str, *more: str) -> str:
        """Make a server and wait for it; of the image of Novella's guests when nothing else is named.  Its id."""
        source = () if {"--image", "--volume", "--block-device"} & {*more} else ("--image", "novella-guest")
        made = self.json("server", "create", *source, *GUEST, *more, "--wait", name)
        assert made["status"] == "ACTIVE"
        return str(made["id"])

    def guest(self, name: str, script: str) -> str:
        """Run a script in a guest as soon as it lets its owner in; what it said."""
        options = ["-o", "UserKnownHostsFile=/dev/null", "-o", "BatchMode=yes"]  # a rescued one is a stranger
        options += ["--key", str(self.key), "--", f"({script}) || exit 1"]
        command = [CHECKOUT / ".venv/bin/novella", "ssh", name, *options]
        variables = {"OS_CLIENT_CONFIG_FILE": str(self.cloud.data / "clouds.yaml"), "OS_CLOUD": "demo"}

        def run() -> subprocess.CompletedProcess[str] | None:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=PATIENCE, env=ENVIRONMENT | variables, check=False
            )
            return None if done.returncode in (6, 255) else done  # 6, 255: it has not booted yet

        done = wait_for(f"{name} lets its owner in", run)
        assert done.returncode == 0, done.stdout + done.stderr
        return str(done.stdout)

    def volume(self, name: str, *more: str) -> str:
        """Make a volume, of 1 GiB when nothing else is said, and wait for it; its id."""
        made = self.json("volume", "create", *(("--size", "1") if "--size" not in more else ()), *more, name)
        return str(self.status("volume", made["id"], "available").id)

    def attach(self, server: str, volume: str) -> None:
        self.openstack("server", "add", "volume", server, volume)
        self.status("volume", volume, "in-use")

    def detach(self, server: str, volume: str) -> None:
        self.openstack("server", "remove", "volume", server, volume)
        self.status("volume", volume, "available")

    def refused(self, *command: str, cloud: str = "demo") -> str:
        """Run a command that must fail; what it said."""
        done = self.cloud.client(*command, cloud=cloud)
        assert done.returncode != 0, done.stdout
        return done.stderr

    def stand_up(self) -> None:
        """Remove all that there is of the project's."""
        self.settled("volume", "volume snapshot", "volume backup")
        for kind in KINDS:
            if result := [*self.all_of(kind)]:  # an incremental backup comes before what it builds on
                self.openstack(*kind.split(), "delete", *result)
                wait_for(f"each {kind} is gone", lambda kind=kind: not self.all_of(kind))
        for image in self.sdk.image.images(visibility="private"):
            self.openstack("image", "delete", image.id)
        self.sdk.close()


def sitting_down(cloud: OneMachine, private: Path, public: Path) -> Iterator[Terminal]:
    """Somebody whose key the cloud knows, and of whose work nothing is left in the end."""
    cloud.openstack("keypair", "create", "--public-key", str(public), KEY)
    terminal = Terminal(cloud, private)
    yield terminal
    terminal.stand_up()
    cloud.openstack("keypair", "delete", KEY)
