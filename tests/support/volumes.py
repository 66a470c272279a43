"""Volumes of real guests, asked for by the SDK: made, attached, written block by block, compared."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from openstack.connection import Connection

from tests.e2e.conftest import Key
from tests.host.test_volumes import WRITER
from tests.support.guests import Clouds, Guest
from tests.support.one_machine import OneMachine, wait_for
from tests.support.town import launch, says
from up.processes import command_line
from up.switch import processes_in

CHECK = """
i=0; while [ $i -lt {blocks} ]; do
  dd if=/dev/{device} bs=4096 skip=$i count=1 2>/dev/null >/run/block
  printf '%4096d' $i | cmp -s - /run/block || echo wrong $i
  i=$((i+1))
done; echo compared $i
"""
FEWEST = 5
"""So many written blocks are not enough to compare."""


def connected(cloud: OneMachine, key: Key, folder: Path, network: str, cidr: str) -> Iterator[Connection]:
    """An operator in the demo project, whose key is there, and a network for guests."""
    cloud.openstack("role", "add", "--project", "demo", "--user", "admin", "admin", cloud="admin")
    clouds = Clouds.write(cloud, folder / "clouds.yaml", "demo")
    with clouds.connect("demo") as sdk:
        sdk.compute.create_keypair(name="packets", public_key=key.public.read_text())
        made_network = sdk.network.create_network(name=network)
        sdk.network.create_subnet(network_id=made_network.id, ip_version=4, cidr=cidr, name=network)
        sdk.clouds = clouds
        yield sdk


def guest(sdk: Connection, key: Key, network: str, address: str, host: int, server: str = "") -> Iterator[Guest]:
    """A guest that has booted on a host; ``server``: one that is launched already."""
    server = server or launch(sdk, f"guest-{host}", sdk.network.find_network(network).id, address, host)
    with tempfile.TemporaryDirectory() as folder:
        result = Guest(sdk.clouds, "demo", server, address, key.private, Path(folder))
        says(sdk, result, "login:")
        yield result
        result.hang_up()


def image_of(sdk: Connection) -> str:
    return str(sdk.image.find_image("novella-guest").id)


def made(sdk: Connection, **values: Any) -> str:
    """Make a volume and wait for it."""
    answer = sdk.block_storage.post("/volumes", json={"volume": values})
    assert answer.status_code == 202, answer.text
    return becomes(sdk, "volumes", answer.json()["volume"]["id"], "available")


def shown(sdk: Connection, kind: str, ident: str) -> Any:
    """Return what is said of a volume, a snapshot or a backup."""
    return sdk.block_storage.get(f"/{kind}/{ident}").json()[kind.removesuffix("s")]


def becomes(sdk: Connection, kind: str, ident: str, status: str) -> str:
    def there() -> bool:
        record = shown(sdk, kind, ident)
        assert record["status"] == status or not record["status"].startswith("error"), record
        return bool(record["status"] == status)

    wait_for(f"{kind} {ident} becomes {status}", there)
    return ident


def attach(sdk: Connection, guest: Guest, volume: str, device: str = "vdb") -> None:
    sdk.compute.create_volume_attachment(guest.server, volume_id=volume, device=f"/dev/{device}")
    becomes(sdk, "volumes", volume, "in-use")
    wait_for("the disk in the guest", lambda: device in guest.run("ls /sys/block"))


def detach(sdk: Connection, guest: Guest, volume: str) -> None:
    sdk.compute.delete_volume_attachment(guest.server, volume)
    becomes(sdk, "volumes", volume, "available")


def begin_to_write(guest: Guest, device: str = "vdb") -> None:
    """Write numbered blocks, one after the other, each when the one before is on the disk."""
    guest.run(WRITER + f"setsid sh /run/writer {device} >/dev/null 2>&1 </dev/null &")
    writes_on(guest)
    wait_for("enough blocks to compare", lambda: written(guest) > FEWEST)


def written(guest: Guest) -> int:
    return int(guest.run("cat /run/written").strip() or 0)


def writes_on(guest: Guest) -> None:
    before = written(guest)
    wait_for("blocks that the guest writes", lambda: written(guest) > before + 2)


def end_writing(guest: Guest, device: str = "vdb") -> int:
    """Return how many blocks the guest knows to be on its disk, which it has looked at."""
    guest.run("touch /run/stop")
    wait_for("the writer's end", lambda: "done" in guest.run("cat /run/stopped 2>/dev/null", check=False))
    assert "failed" not in guest.run("ls /run")
    blocks = written(guest)
    compared(guest, device, blocks)
    return blocks


def compared(guest: Guest, device: str, blocks: int) -> None:
    """Look whether a disk has the blocks that a guest knows to have written, whichever guest it was."""
    assert blocks > FEWEST
    assert guest.run(CHECK.format(device=device, blocks=blocks)).strip() == f"compared {blocks}"


def the_daemon(cloud: OneMachine, number: int, volume: str = "", *, besides: int = 0) -> int:
    """Wait until a host has one storage daemon, not ``besides``; for a moment after its start it is two processes."""

    def alone() -> int:
        result = daemons(cloud, number, volume)
        return result[0] if len(result) == 1 and result != [besides] else 0

    return int(wait_for("the storage daemon", alone))


def daemons(cloud: OneMachine, number: int, volume: str = "") -> list[int]:
    """The storage daemons of a host; ``volume``: those that have its data open."""
    inside = processes_in([cloud.switch.guests(number)])
    return [pid for pid in inside if (line := command_line(pid)).startswith("qemu-storage-daemon") and volume in line]
