"""A real Debian guest's own cloud-init takes everything from the metadata service, and nothing from anywhere else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.conftest import Key
from tests.support.debian_guest import debian_image
from tests.support.guests import Clouds, Guest
from tests.support.one_machine import OneMachine, wait_for

pytestmark = [pytest.mark.compat, pytest.mark.libvirt, pytest.mark.slow, pytest.mark.deep]
USER_DATA = """\
#cloud-config
write_files:
- {path: /etc/written, content: "by user data"}
runcmd:
- [sh, -c, "echo ran on $(hostname) >/etc/ran"]
"""
ASK = """\
import http.client, json
link = http.client.HTTPConnection("fe80::a9fe:a9fe%eth0", 80, timeout=10)
link.request("GET", "/openstack/latest/meta_data.json")
print(json.load(link.getresponse())["uuid"])
"""


@pytest.fixture
def guest(cloud: OneMachine, key: Key, tmp_path: Path) -> Iterator[Guest]:
    """A server of the Debian image, whose user is ``debian``."""
    image = ["image", "create", "--disk-format", "qcow2", "--file", str(debian_image()), "--min-ram", "512"]
    cloud.openstack(*image, "--property", "os_admin_user=debian", "debian")
    cloud.openstack("keypair", "create", "--public-key", str(key.public), "debian-key")
    data = tmp_path / "user-data"
    data.write_text(USER_DATA)
    options = ["--image", "debian", "--flavor", "m1.tiny", "--network", "demo-net", "--key-name", "debian-key"]
    options += ["--user-data", str(data), "--property", "role=proof"]
    made = cloud.openstack_json("server", "create", *options, "--wait", "debian-guest")
    address = next(iter(made["addresses"].values()))[0]
    clouds = Clouds.write(cloud, tmp_path / "clouds.yaml", "demo", user="demo")
    yield Guest(clouds, "demo", made["id"], address, key.private, tmp_path, login="debian")
    cloud.openstack("server", "delete", "--wait", made["id"])
    cloud.openstack("image", "delete", "debian")
    cloud.openstack("keypair", "delete", "debian-key")


def test_cloud_init_takes_name_keys_user_data_and_network_from_the_service(cloud: OneMachine, guest: Guest) -> None:
    wait_for("it booted", lambda: "=== Debian guest: " in cloud.openstack("console", "log", "show", guest.server), 400)
    status = json.loads(guest.run("cloud-init status --format json"))
    assert (status["status"], status["errors"]) == ("done", [])
    assert status["datasource"] in {"openstack", "openstacklocal"}, "the latter asks before the network is configured"
    assert guest.run("hostname; cat /etc/hostname; cat /etc/written /etc/ran").split("\n")[:3] == [
        "debian-guest", "debian-guest", "by user dataran on debian-guest",
    ]  # fmt: skip
    assert f" {guest.address}/" in guest.run("ip -4 -o address show dev eth0")
    written = guest.run("cat /etc/network/interfaces.d/50-cloud-init")
    assert "iface eth0 inet dhcp" in written, "the network is as network_data.json says"
    assert guest.run(f"python3 -c '{ASK}'").strip() == guest.server, "the service answers at its IPv6 address, too"
    result = json.loads(guest.run("cloud-init query ds.meta_data"))
    assert (result["uuid"], result["name"], result["meta"]) == (guest.server, "debian-guest", {"role": "proof"})
    with pytest.raises(AssertionError):  # the key lets in the image's user, and not root
        replace(guest, login="root").run("true")
