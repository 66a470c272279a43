"""The unmodified ``openstack`` command line against a running Novella with real guests."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.e2e.conftest import Key
from tests.support.one_machine import OneMachine

pytestmark = [pytest.mark.compat, pytest.mark.libvirt]


def test_token_issue(cloud: OneMachine) -> None:
    token = cloud.openstack_json("token", "issue")
    assert set(token) >= {"id", "expires", "project_id", "user_id"}
    assert cloud.openstack_json("catalog", "list") != []


def test_flavor_list(cloud: OneMachine) -> None:
    flavors = {flavor["Name"]: flavor for flavor in cloud.openstack_json("flavor", "list")}
    assert {"m1.nano", "m1.tiny", "m1.small", "m1.medium", "m1.large"} <= set(flavors)
    assert (flavors["m1.nano"]["VCPUs"], flavors["m1.nano"]["RAM"]) == (1, 96)


@pytest.mark.deep
def test_image_create_show_save_delete(cloud: OneMachine, tmp_path: Path) -> None:
    picture = next((cloud.data / "guest").glob("*.qcow2"))
    made = cloud.openstack_json(
        *("image", "create", "--file", str(picture), "--disk-format", "qcow2", "--min-ram", "64"),
        *("--property", "os_distro=novella", "mine"),
    )
    assert made["status"] == "active"
    shown = cloud.openstack_json("image", "show", "mine")
    assert shown["size"] == picture.stat().st_size
    assert shown["checksum"] == hashlib.md5(picture.read_bytes(), usedforsecurity=False).hexdigest()
    assert shown["properties"]["os_hash_value"] == hashlib.sha512(picture.read_bytes()).hexdigest()
    cloud.openstack("image", "save", "--file", str(tmp_path / "back"), "mine")
    assert (tmp_path / "back").read_bytes() == picture.read_bytes()
    cloud.openstack("image", "delete", "mine")
    assert "mine" not in [image["Name"] for image in cloud.openstack_json("image", "list")]


def test_a_disguised_image_is_refused(cloud: OneMachine, tmp_path: Path) -> None:
    disguised = tmp_path / "disguised"
    disguised.write_bytes(b"this is no qcow2" * 4096)
    done = cloud.client("image", "create", "--file", str(disguised), "--disk-format", "qcow2", "disguised")
    assert done.returncode != 0
    listed = cloud.openstack_json("image", "list")
    assert not [image for image in listed if image["Name"] == "disguised" and image["Status"] == "active"]


@pytest.mark.deep
def test_a_server_from_create_to_delete(cloud: OneMachine, key: Key) -> None:
    cloud.openstack("keypair", "create", "--public-key", str(key.public), "client-key")
    assert "client-key" in [row["Name"] for row in cloud.openstack_json("keypair", "list")]

    created = cloud.openstack_json(
        *("server", "create", "--image", "novella-guest", "--flavor", "m1.nano", "--network", "demo-net"),
        *("--key-name", "client-key", "--property", "purpose=test", "--wait", "client-guest"),
    )
    assert created["status"] == "ACTIVE"

    shown = cloud.openstack_json("server", "show", "client-guest")
    assert shown["OS-EXT-STS:vm_state"] == "active"
    assert shown["OS-EXT-STS:power_state"] in {1, "Running"}

    [action] = cloud.openstack_json("server", "event", "list", "client-guest")
    assert action["Action"] == "create"
    event = cloud.openstack("server", "event", "show", "client-guest", action["Request ID"])
    assert "start_guest" in event

    cloud.openstack("server", "delete", "--wait", "client-guest")
    assert cloud.client("server", "show", "client-guest").returncode != 0
    assert cloud.openstack_json("server", "list") == []
    assert cloud.openstack_json("port", "list", "--device-owner", "compute:nova") == []
    cloud.openstack("keypair", "delete", "client-key")


def test_what_a_user_looks_at(cloud: OneMachine) -> None:
    assert sorted(row["Name"] for row in cloud.openstack_json("network", "list")) == ["demo-net", "public"]
    assert cloud.openstack_json("subnet", "list")[0]["Subnet"].endswith("/24")
    assert "default" in [row["Name"] for row in cloud.openstack_json("security", "group", "list")]
    limits = {row["Name"]: row["Value"] for row in cloud.openstack_json("limits", "show", "--absolute")}
    assert limits["max_total_instances"] if "max_total_instances" in limits else limits["maxTotalInstances"] == 10
    [hypervisor] = cloud.openstack_json("hypervisor", "list", cloud="admin")
    assert hypervisor["State"] == "up"


def test_a_refusal_is_a_sentence(cloud: OneMachine) -> None:
    done = cloud.client(
        *("server", "create", "--image", "novella-guest", "--flavor", "m1.large", "--network", "demo-net"),
        *("--min", "9", "--max", "9", "too-many"),
    )
    assert done.returncode != 0
    assert "Quota exceeded for" in done.stderr
