"""Images of other hypervisors by the real client: taken in, looked at, converted by the host, and booted."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.guest_image import GuestImage, guest_image
from tests.support.one_machine import OneMachine, wait_for

pytestmark = [pytest.mark.deep, pytest.mark.compat, pytest.mark.libvirt]
KINDS = {"vmdk": ("vmdk", "subformat=streamOptimized"), "vhd": ("vpc", "subformat=dynamic,force_size=on")}
"""Glance's format → QEMU's, and its options."""


@pytest.fixture(scope="module")
def image() -> GuestImage:
    return guest_image()


@pytest.fixture
def made(cloud: OneMachine, image: GuestImage, tmp_path: Path, disk_format: str) -> Iterator[Path]:
    """A file in the format, of which an image and a server are deleted at the end."""
    driver, options = KINDS[disk_format]
    path = tmp_path / f"guest.{disk_format}"
    command = ["qemu-img", "convert", "-f", "qcow2", "-O", driver, "-o", options, str(image.path), str(path)]
    subprocess.run(command, check=True)
    yield path
    cloud.client("server", "delete", "--wait", f"of-{disk_format}")
    cloud.client("image", "delete", f"foreign-{disk_format}")


@pytest.mark.parametrize("disk_format", KINDS)
def test_a_server_boots_from_a_foreign_image(cloud: OneMachine, made: Path, disk_format: str) -> None:
    name, server = f"foreign-{disk_format}", f"of-{disk_format}"
    refused = cloud.client("image", "create", "--disk-format", "qcow2", "--file", str(made), name)
    assert "does not match disk_format qcow2" in refused.stderr
    cloud.client("image", "delete", name)
    cloud.openstack_json("image", "create", "--disk-format", disk_format, "--file", str(made), name)
    shown = cloud.openstack_json("image", "show", name)
    assert (shown["status"], shown["disk_format"]) == ("active", disk_format)
    assert shown["properties"]["os_hash_value"] == hashlib.sha512(made.read_bytes()).hexdigest()
    words = ("--image", name, "--flavor", "m1.nano", "--network", "demo-net", "--wait", server)
    assert cloud.openstack_json("server", "create", *words)["status"] == "ACTIVE"
    wait_for(f"{server} boots", lambda: "login:" in cloud.openstack("console", "log", "show", server))
