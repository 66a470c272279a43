"""A real guest on a volume whose live migration is forced to complete. Where Linux allows QEMU post-copy, the guest
continues on the other host before its memory has arrived; elsewhere it is paused until then. It loses nothing that it
wrote either way.

``sysctl vm.unprivileged_userfaultfd=1`` allows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.one_machine import OneMachine, running, wait_for

pytestmark = [pytest.mark.deep, pytest.mark.libvirt, pytest.mark.slow, pytest.mark.timeout(900)]
NAME = "forced"
COUNTS = """#!/bin/sh
(n=0; while true; do n=$((n+1)); echo $n >/root/count; sync; echo C$n. >/dev/ttyS0; sleep 0.1; done) \\
 >/dev/null 2>&1 </dev/null &
"""
SLOW = {"NOVELLA_LIVE_MIGRATION_POST_COPY": "true", "NOVELLA_LIVE_MIGRATION_BANDWIDTH": "1"}
ALLOWED = Path("/proc/sys/vm/unprivileged_userfaultfd")
BEGUN = "continues on the other host while its memory is transferred"
ROUNDS = 3


@pytest.fixture
def cloud() -> Iterator[OneMachine]:
    with running(hosts=2, settings=SLOW) as cloud:
        yield cloud


def begun(cloud: OneMachine) -> int:
    """The number of migrations that became post-copy, by the logs of the agents."""
    return sum(path.read_text(errors="replace").count(BEGUN) for path in (cloud.data / "log").glob("*"))


def test_a_forced_migration_loses_nothing(cloud: OneMachine, tmp_path: Path) -> None:
    allowed = ALLOWED.read_text().strip() == "1"
    script = tmp_path / "script"
    script.write_text(COUNTS)
    create = ("server", "create", "--image", "novella-guest", "--boot-from-volume", "1", "--flavor", "m1.nano")
    made = cloud.openstack_json(*create, "--network", "demo-net", "--user-data", str(script), "--wait", NAME)
    server, newer = str(made["id"]), ("--os-compute-api-version", "2.80", "server")

    def shown() -> dict[str, Any]:
        return dict(cloud.openstack_json("server", "show", server, cloud="admin"))

    def counts() -> list[int]:
        """The numbers on the console of the host that has the guest."""
        return [int(number) for number in re.findall(r"C(\d+)\.", cloud.openstack("console", "log", "show", server))]

    def forced() -> bool:
        rows = cloud.openstack_json(*newer, "migration", "list", "--server", server, cloud="admin")
        ident = next(str(row["Id"]) for row in rows if row["Status"] not in {"completed", "error"})
        return cloud.client(*newer, "migration", "force", "complete", server, ident, cloud="admin").returncode == 0

    for number in range(1, ROUNDS + 1):
        wait_for("the guest counts", lambda: len(counts()) > 5)
        home, before = shown()["OS-EXT-SRV-ATTR:host"], counts()[-1]
        cloud.openstack(*newer, "migrate", "--live-migration", server, cloud="admin")
        wait_for("the migration is forced to complete", forced)
        wait_for("the guest has moved", lambda: shown()["OS-EXT-STS:task_state"] is None)
        after = shown()
        assert (after["status"], after["OS-EXT-SRV-ATTR:host"] != home) == ("ACTIVE", True)
        assert begun(cloud) == number * allowed
        wait_for("the guest goes on counting", lambda: len(counts()) > 5)
        found = counts()
        assert found == list(range(found[0], found[-1] + 1))
        assert found[0] > before
    assert "login:" not in cloud.console(server), "the guest has not booted again"
