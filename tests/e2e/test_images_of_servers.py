"""Real guests, the real client: an image of a server that goes on, a server from it, the shelf and the way back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.one_machine import OneMachine, wait_for

pytestmark = [pytest.mark.deep, pytest.mark.compat, pytest.mark.libvirt]

SCRIPT = r"""#!/bin/sh
echo "written by $(hostname)" >>/root/proof
echo 'echo "the disk says: $(cat /root/proof)." >/dev/console' >>/etc/rc.S
sync
echo "the disk says: $(cat /root/proof)." >/dev/console
"""


@pytest.fixture
def user_data(tmp_path: Path) -> Path:
    path = tmp_path / "user-data"
    path.write_text(SCRIPT)
    return path


def create(cloud: OneMachine, name: str, image: str, *more: str) -> dict[str, Any]:
    made = cloud.openstack_json(
        *("server", "create", "--image", image, "--flavor", "m1.nano", "--network", "demo-net"),
        *(*more, "--wait", name),
    )
    assert made["status"] == "ACTIVE"
    return dict(made)


def says(cloud: OneMachine, name: str, what: str) -> None:
    wait_for(f"{name} says {what!r}", lambda: what in cloud.openstack("console", "log", "show", name))


def show(cloud: OneMachine, name: str, who: str = "demo") -> dict[str, Any]:
    return dict(cloud.openstack_json("server", "show", name, cloud=who))


def reaches(cloud: OneMachine, ident: str, status: str) -> dict[str, Any]:
    """Wait until a server is in a status and at rest; what an operator sees of it then."""

    def look() -> dict[str, Any] | None:
        shown = show(cloud, ident, "admin")
        return shown if shown["status"] == status and shown["OS-EXT-STS:task_state"] is None else None

    return dict(wait_for(f"the server is {status}", look))


@pytest.fixture
def names(cloud: OneMachine) -> Iterator[list[str]]:
    """Servers to be deleted at the end."""
    made: list[str] = []
    yield made
    for name in made:
        cloud.client("server", "delete", "--wait", name)


def test_an_image_of_a_server_starts_another_one(cloud: OneMachine, user_data: Path, names: list[str]) -> None:
    names += ["first", "second"]
    create(cloud, "first", "novella-guest", "--user-data", str(user_data))
    says(cloud, "first", "the disk says: written by first.")
    made = cloud.openstack_json("server", "image", "create", "--name", "copy", "--wait", "first")
    assert made["status"] == "active"
    assert show(cloud, "first")["status"] == "ACTIVE"
    second = create(cloud, "second", "copy")
    says(cloud, "second", "the disk says: written by first.")
    for number in range(2):
        cloud.openstack("server", "backup", "create", "--name", f"day-{number}", "--rotate", "1", "--wait", "second")
        reaches(cloud, str(second["id"]), "ACTIVE")
    wait_for(
        "the older backup is gone",
        lambda: (
            [row["Name"] for row in cloud.openstack_json("image", "list") if row["Name"].startswith("day")] == ["day-1"]
        ),
    )
    cloud.openstack("image", "delete", "copy", "day-1")
    events = {row["Action"] for row in cloud.openstack_json("server", "event", "list", "second")}
    assert {"createBackup", "create"} <= events


def test_a_server_goes_onto_its_shelf_and_comes_back_as_itself(
    cloud: OneMachine, user_data: Path, names: list[str]
) -> None:
    names.append("sleeper")
    create(cloud, "sleeper", "novella-guest", "--user-data", str(user_data))
    says(cloud, "sleeper", "the disk says: written by sleeper.")
    before = show(cloud, "sleeper")
    cloud.openstack("server", "shelve", "sleeper")
    off = reaches(cloud, str(before["id"]), "SHELVED_OFFLOADED")
    assert off["OS-EXT-SRV-ATTR:host"] is None
    assert "sleeper-shelved" in [row["Name"] for row in cloud.openstack_json("image", "list")]
    [hypervisor] = cloud.openstack_json("hypervisor", "list", "--long", cloud="admin")
    assert hypervisor["State"] == "up"
    instances = cloud.data / "agent"
    assert not list(instances.rglob(f"instances/{off['id']}"))
    cloud.openstack("server", "unshelve", "sleeper")
    back = reaches(cloud, str(before["id"]), "ACTIVE")
    assert back["addresses"] == before["addresses"]
    assert re.sub(r"\s", "", str(back["image"])) == re.sub(r"\s", "", str(before["image"]))
    says(cloud, "sleeper", "the disk says: written by sleeper.")  # once: the first boot was before
    assert "sleeper-shelved" not in [row["Name"] for row in cloud.openstack_json("image", "list")]
