"""What a guest finds in each version of both trees."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import InjectedFile, InstanceSpec, KeyPairRef
from compute_agent.guest_trees import EC2, OPENSTACK, Asker, ec2_id, find
from tests.agent.cast import make_spec

KEY = "ssh-ed25519 AAAA alice@example"
SCRIPT = b"#!/bin/sh\necho \xff\n"


@pytest.fixture
def spec() -> InstanceSpec:
    made = make_spec()
    port = replace(made.ports[0], security_groups=["default", "web"])
    return replace(
        made,
        ports=[port],
        key_pair=KeyPairRef(name="my key", public_key=KEY),
        user_data=base64.b64encode(SCRIPT).decode(),
        metadata={"role": "web"},
        reservation_id="r-12345678",
        injected_files=[InjectedFile(path="/etc/motd", contents=base64.b64encode(b"hi").decode())],
    )


def asker(spec: InstanceSpec, **changes: Any) -> Asker:
    return Asker(spec, spec.ports[0], **changes)


def read(spec: InstanceSpec, path: str, **changes: Any) -> bytes | None:
    return find(asker(spec, **changes), [part for part in path.split("/") if part])


def text(spec: InstanceSpec, path: str, **changes: Any) -> str:
    result = read(spec, path, **changes)
    assert result is not None, path
    return result.decode()


def test_the_root_lists_the_versions_of_ec2_and_openstack_its_own(spec: InstanceSpec) -> None:
    assert text(spec, "/").split("\n") == [*EC2, "latest"]
    assert text(spec, "/openstack").split("\n") == [*OPENSTACK, "latest"]


@pytest.mark.parametrize(
    ("version", "names"),
    [
        ("2012-08-10", ["meta_data.json", "user_data"]),
        ("2013-04-04", ["meta_data.json", "user_data", "password"]),
        ("2013-10-17", ["meta_data.json", "user_data", "password", "vendor_data.json"]),
        ("2015-10-15", ["meta_data.json", "user_data", "password", "vendor_data.json", "network_data.json"]),
        (
            "latest",
            ["meta_data.json", "user_data", "password", "vendor_data.json", "network_data.json", "vendor_data2.json"],
        ),
    ],
)
def test_a_version_of_openstack_has_what_it_had(spec: InstanceSpec, version: str, names: list[str]) -> None:
    assert text(spec, f"openstack/{version}/").split("\n") == names


def test_meta_data_json_grows_with_its_versions(spec: InstanceSpec) -> None:
    data = {
        version: json.loads(text(spec, f"openstack/{version}/meta_data.json")) for version in (*OPENSTACK, "latest")
    }
    assert data["latest"]["uuid"] == spec.uuid
    assert data["latest"]["meta"] == {"role": "web"}
    assert data["latest"]["project_id"] == spec.project_id.replace("-", "")
    assert data["latest"]["public_keys"] == {"my key": KEY}
    since = {
        "random_seed": "2013-04-04",
        "project_id": "2015-10-15",
        "devices": "2016-06-30",
        "dedicated_cpus": "2020-10-14",
    }
    for name, first in since.items():
        assert [version for version in OPENSTACK if name in data[version]] == [
            each for each in OPENSTACK if each >= first
        ]
    seeds = [base64.b64decode(data[version]["random_seed"]) for version in OPENSTACK[1:]]
    assert len(set(seeds)) == len(seeds), "the same random numbers twice"
    assert {len(seed) for seed in seeds} == {512}


def test_user_data_and_files_come_as_they_were_given(spec: InstanceSpec) -> None:
    assert read(spec, "openstack/latest/user_data") == read(spec, "latest/user-data") == SCRIPT
    (file,) = json.loads(text(spec, "openstack/latest/meta_data.json"))["files"]
    assert file["path"] == "/etc/motd"
    assert read(spec, f"openstack{file['content_path']}") == b"hi"
    bare = replace(spec, user_data=None)
    assert read(bare, "openstack/latest/user_data") is read(bare, "latest/user-data") is None


def test_ec2_names_the_guest_its_addresses_and_keys(spec: InstanceSpec) -> None:
    base = "2009-04-04/meta-data"
    assert text(spec, f"{base}/instance-id") == ec2_id("i", spec.uuid)
    assert text(spec, f"{base}/local-ipv4") == spec.ports[0].fixed_ips[0].address
    assert text(spec, f"{base}/public-ipv4", floating="203.0.113.5") == "203.0.113.5"
    assert text(spec, f"{base}/public-ipv4") == ""
    assert text(spec, f"{base}/public-keys/") == "0=my key"
    assert text(spec, f"{base}/public-keys/0/") == "openssh-key"
    assert text(spec, f"{base}/public-keys/0/openssh-key") == KEY
    assert text(spec, f"{base}/security-groups").split("\n") == ["default", "web"]
    assert text(spec, f"{base}/placement/availability-zone") == spec.availability_zone
    assert "placement/" in text(spec, base).split("\n")


def test_an_old_version_of_ec2_knows_less(spec: InstanceSpec) -> None:
    first = set(text(spec, "1.0/meta-data").split("\n"))
    assert not first & {"public-keys/", "placement/", "instance-type", "public-ipv4"}
    assert first < set(text(spec, "latest/meta-data").split("\n"))


@pytest.mark.parametrize(
    "path",
    ["3000-01-01/", "openstack/3000-01-01/meta_data.json", "openstack/latest/none", "latest/meta-data/ami-id/more",
     "openstack/content/0009", "latest/none", "openstack/../latest/user-data", "openstack/latest/vendor_data.json/x"],
)  # fmt: skip
def test_what_there_is_not_is_not_found(spec: InstanceSpec, path: str) -> None:
    assert read(spec, path) is None


def test_the_vendor_s_data_and_the_posted_password_are_shown(spec: InstanceSpec) -> None:
    shown = replace(spec, posted_password="c2VhbGVk")
    assert text(shown, "openstack/latest/password") == "c2VhbGVk"
    assert json.loads(text(spec, "openstack/latest/vendor_data.json", vendor_data=b'{"a": 1}')) == {"a": 1}
