"""Real guests that move between two hosts while they run: no confirmed write is lost, and an abort changes nothing."""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openstack.connection import Connection

from tests.e2e.conftest import Key
from tests.support.guests import Guest
from tests.support.one_machine import OneMachine, wait_for
from tests.support.volumes import (
    attach,
    becomes,
    begin_to_write,
    connected,
    detach,
    end_writing,
    guest,
    image_of,
    made,
    writes_on,
)

pytestmark = [
    pytest.mark.deep,
    pytest.mark.libvirt,
    pytest.mark.compat,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning",
        "ignore::openstack.warnings.OpenStackDeprecationWarning",
        "ignore::PendingDeprecationWarning",
    ),
]
NETWORK, ADDRESS = "live", "10.67.0.11"
PATIENCE = 240.0
COUNTS = """
(n=0; while true; do n=$((n+1)); echo $n >/root/count; sync; echo C$n. >/dev/ttyS0; sleep 0.1; done) \\
 >/dev/null 2>&1 </dev/null &
"""
"""A guest's program that prints each number after it is on the disk."""


@pytest.fixture(scope="module")
def cloud() -> Iterator[OneMachine]:
    folder = Path(tempfile.mkdtemp(prefix="nv-live-"))
    cloud = OneMachine(folder / "data", hosts=2)
    try:
        cloud.up()
        yield cloud
    finally:
        cloud.end()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def sdk(cloud: OneMachine, key: Key, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    yield from connected(cloud, key, tmp_path_factory.mktemp("clouds"), NETWORK, "10.67.0.0/24")


@pytest.fixture(scope="module")
def first(sdk: Connection, key: Key) -> Iterator[Guest]:
    yield from guest(sdk, key, NETWORK, ADDRESS, 1)


def server(sdk: Connection, found: Guest) -> Any:
    return sdk.compute.get_server(found.server)


def migrate(sdk: Connection, found: Guest) -> None:
    body = {"os-migrateLive": {"host": None, "block_migration": "auto"}}
    answer = sdk.compute.post(f"/servers/{found.server}/action", json=body, microversion="2.80")
    assert answer.ok, answer.text


def settled(sdk: Connection, found: Guest) -> str:
    """Wait for the end of a migration; returns the host."""

    def there() -> bool:
        row = server(sdk, found)
        assert row.status != "ERROR", row.fault
        return bool(row.status == "ACTIVE" and row.task_state is None)

    wait_for("the end of the migration", there, PATIENCE)
    return str(server(sdk, found).compute_host)


def answers(found: Guest) -> None:
    wait_for("the guest answers", lambda: "up" in found.run("echo up", check=False), PATIENCE)


def counts(sdk: Connection, found: Guest) -> list[int]:
    """The numbers on the guest's console, on the host where it is."""
    answer = sdk.compute.post(f"/servers/{found.server}/action", json={"os-getConsoleOutput": {"length": 400}})
    return [int(number) for number in re.findall(r"C(\d+)\.", answer.json()["output"])]


def test_a_guest_moves_while_it_writes(cloud: OneMachine, sdk: Connection, first: Guest) -> None:
    first.run(COUNTS)
    home = settled(sdk, first)
    wait_for("the guest counts", lambda: len(counts(sdk, first)) > 5, PATIENCE)
    before = counts(sdk, first)[-1]
    migrate(sdk, first)
    target = settled(sdk, first)
    assert target != home
    wait_for("the guest goes on counting", lambda: len(counts(sdk, first)) > 5, PATIENCE)
    after = counts(sdk, first)
    assert after == list(range(after[0], after[-1] + 1))
    assert after[0] > before
    last = counts(sdk, first)[-1]
    assert int(first.run("cat /root/count")) >= last
    wait_for(
        "the old host has nothing",
        lambda: len(list(cloud.data.glob(f"hosts/*/instances/{first.server}"))) == 1,
        PATIENCE,
    )
    rows = sdk.compute.get("/os-migrations", microversion="2.80").json()["migrations"]
    assert [(row["migration_type"], row["status"]) for row in rows] == [("live-migration", "completed")]


def test_an_abort_leaves_the_guest_where_it_is(cloud: OneMachine, sdk: Connection, first: Guest) -> None:
    home = settled(sdk, first)
    migrate(sdk, first)
    path = f"/servers/{first.server}/migrations"
    [row] = sdk.compute.get(path, microversion="2.80").json()["migrations"]
    deadline = time.monotonic() + PATIENCE
    while sdk.compute.delete(f"{path}/{row['id']}", microversion="2.80").status_code == 409:
        assert time.monotonic() < deadline
    assert settled(sdk, first) == home
    [listed] = [
        each["status"]
        for each in sdk.compute.get("/os-migrations", microversion="2.80").json()["migrations"]
        if each["id"] == row["id"]
    ]
    assert listed == "cancelled"
    seen = counts(sdk, first)[-1]
    wait_for("the guest goes on counting", lambda: counts(sdk, first)[-1] > seen, PATIENCE)
    wait_for(
        "the other host has nothing",
        lambda: len(list(cloud.data.glob(f"hosts/*/instances/{first.server}"))) == 1,
        PATIENCE,
    )


def attached(sdk: Connection, volume: str) -> list[tuple[str, str]]:
    """The server and the host of each attachment of a volume."""
    rows = sdk.block_storage.get(f"/volumes/{volume}").json()["volume"]["attachments"]
    return [(row["server_id"], row["host_name"]) for row in rows]


def test_a_guest_moves_there_and_back_while_it_writes_to_a_volume(
    cloud: OneMachine, sdk: Connection, first: Guest
) -> None:
    """Once from the host of the storage daemon, and once to it."""
    volume = made(sdk, size=1)
    attach(sdk, first, volume)
    begin_to_write(first)
    for _ in range(2):
        home = settled(sdk, first)
        first.hang_up()
        migrate(sdk, first)
        target = settled(sdk, first)
        assert target != home
        answers(first)
        writes_on(first)
        assert attached(sdk, volume) == [(first.server, target)]
    end_writing(first)
    detach(sdk, first, volume)


def test_a_guest_moves_with_its_tpm_and_a_volume_that_was_swapped(sdk: Connection, key: Key, cloud: OneMachine) -> None:
    """Its disk keeps the serial number of the first volume, and the new host can open the TPM's state again."""
    data = sdk.image.download_image(image_of(sdk)).content
    hardware: dict[str, Any] = {"hw_tpm_version": "2.0", "hw_tpm_model": "tpm-crb", "hw_machine_type": "q35"}
    image = sdk.image.create_image(
        "tpm", data=data, disk_format="qcow2", container_format="bare", wait=True, **hardware
    )
    row = sdk.compute.create_server(
        name="tpm",
        image_id=image.id,
        flavor_id=sdk.compute.find_flavor("m1.nano", ignore_missing=False).id,
        networks=[{"uuid": sdk.network.find_network(NETWORK, ignore_missing=False).id, "fixed_ip": "10.67.0.12"}],
        key_name="packets",
    )
    for result in guest(sdk, key, NETWORK, "10.67.0.12", 1, row.id):
        old, new = made(sdk, size=1), made(sdk, size=1)
        attach(sdk, result, old)
        path = f"/servers/{row.id}/os-volume_attachments/{old}"
        assert sdk.compute.put(path, json={"volumeAttachment": {"volumeId": new}}).status_code == 202
        becomes(sdk, "volumes", old, "available")
        home = settled(sdk, result)
        result.hang_up()
        migrate(sdk, result)
        target = settled(sdk, result)
        assert target != home
        assert list(cloud.data.glob(f"hosts/{target}/tpm-keys/{row.id}"))
        answers(result)
        detach(sdk, result, new)
        sdk.compute.reboot_server(row.id, "HARD")
        assert settled(sdk, result) == target
        result.hang_up()
        answers(result)
    sdk.compute.delete_server(row.id)
