"""What the config drive tells a guest of itself."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import InjectedFile, InstanceSpec, KeyPairRef
from compute_agent.virt.errors import FatalBuildError, RetryableHostError
from compute_agent.virt.libvirt import seed
from compute_agent.virt.libvirt.paths import InstancePaths
from compute_agent.virt.libvirt.seed import seed_files, write_seed
from tests.agent.cast import make_spec

KEY = "ssh-ed25519 AAAA alice@example"
ANY = "0.0.0.0"  # noqa: S104
SCRIPT = b"#!/bin/sh\necho \xff\n"


@pytest.fixture
def spec() -> InstanceSpec:
    return replace(
        make_spec(),
        key_pair=KeyPairRef(name="my key", public_key=KEY + "\n"),
        user_data=base64.b64encode(SCRIPT).decode(),
        metadata={"role": "web\nuuid: forged"},
    )


@pytest.fixture
def paths(tmp_path: Path, spec: InstanceSpec) -> InstancePaths:
    folder = tmp_path / "instances" / spec.uuid
    folder.mkdir(parents=True)
    return InstancePaths(folder, folder)


def loaded(spec: InstanceSpec, name: str) -> Any:
    return json.loads(seed_files(spec)[name])


def static(spec: InstanceSpec, gateway: str = "10.20.0.1") -> InstanceSpec:
    port = spec.ports[0]
    fixed = replace(port.fixed_ips[0], enable_dhcp=False, dns_nameservers=["192.0.2.53"], gateway=gateway)
    return replace(spec, ports=[replace(port, fixed_ips=[fixed])])


def test_on_a_shared_network_the_guest_is_named_in_its_projects_domain(spec: InstanceSpec) -> None:
    port = replace(spec.ports[0], dns_domain=f"{'a' * 32}.novalocal")
    named = replace(spec, ports=[port])
    assert loaded(named, "openstack/latest/meta_data.json")["hostname"] == f"web-1.{'a' * 32}.novalocal"
    assert loaded(named, "meta-data")["local-hostname"] == f"web-1.{'a' * 32}.novalocal"
    assert loaded(replace(named, hostname="w" * 40), "meta-data")["local-hostname"] == "w" * 40, "Linux takes no more"


def test_both_trees_say_who_the_guest_is(spec: InstanceSpec) -> None:
    nova = loaded(spec, "openstack/latest/meta_data.json")
    assert (nova["uuid"], nova["hostname"], nova["name"]) == (spec.uuid, "web-1.novalocal", "Web 1")
    assert nova["public_keys"] == {"my key": KEY + "\n"}
    assert nova["keys"] == [{"name": "my key", "type": "ssh", "data": KEY + "\n"}]
    assert nova["meta"] == spec.metadata
    assert "admin_pass" not in nova
    nocloud = loaded(spec, "meta-data")
    assert nocloud == {"instance-id": spec.uuid, "local-hostname": "web-1.novalocal", "public-keys": [KEY]}


def test_user_data_passes_through_unchanged(spec: InstanceSpec) -> None:
    files = seed_files(spec)
    assert files["user-data"] == files["openstack/latest/user_data"] == SCRIPT
    without = seed_files(replace(spec, user_data=None))
    assert without["user-data"] == b""
    assert "openstack/latest/user_data" not in without


def test_user_data_that_is_not_base64_is_refused(spec: InstanceSpec) -> None:
    with pytest.raises(FatalBuildError, match="base64"):
        seed_files(replace(spec, user_data="a"))


def test_an_interface_with_dhcp_is_notified(spec: InstanceSpec) -> None:
    config = loaded(spec, "network-config")
    assert config == {
        "version": 2,
        "ethernets": {"eth0": {"match": {"macaddress": "fa:16:3e:00:00:01"}, "mtu": 1500, "dhcp4": True}},
    }
    networks = loaded(spec, "openstack/latest/network_data.json")
    assert [link["ethernet_mac_address"] for link in networks["links"]] == ["fa:16:3e:00:00:01"]
    assert [entry["type"] for entry in networks["networks"]] == ["ipv4_dhcp"]


def test_an_interface_without_dhcp_gets_its_address(spec: InstanceSpec) -> None:
    interface = loaded(static(spec), "network-config")["ethernets"]["eth0"]
    assert interface["addresses"] == ["10.20.0.5/24"]
    assert interface["routes"] == [{"to": "0.0.0.0/0", "via": "10.20.0.1"}]
    outside = loaded(static(spec, gateway="192.0.2.1"), "network-config")["ethernets"]["eth0"]
    assert outside["routes"] == [{"to": "0.0.0.0/0", "via": "192.0.2.1", "on-link": True}]
    assert "dhcp4" not in interface
    data = loaded(static(spec), "openstack/latest/network_data.json")
    (entry,) = data["networks"]
    assert (entry["type"], entry["ip_address"], entry["netmask"]) == ("ipv4", "10.20.0.5", "255.255.255.0")
    assert entry["routes"] == [{"network": ANY, "netmask": ANY, "gateway": "10.20.0.1"}]
    assert data["services"] == [{"type": "dns", "address": "192.0.2.53"}]


def test_a_password_is_in_both_trees(spec: InstanceSpec) -> None:
    spec = replace(spec, admin_password="s3cret")
    assert loaded(spec, "openstack/latest/meta_data.json")["admin_pass"] == "s3cret"
    header, _, body = seed_files(spec)["vendor-data"].partition(b"\n")
    assert header == b"#cloud-config"
    assert json.loads(body)["password"] == "s3cret"
    assert loaded(spec, "openstack/latest/vendor_data.json")["cloud-init"].encode() == seed_files(spec)["vendor-data"]


def test_injected_files_are_in_both_trees(spec: InstanceSpec) -> None:
    contents = [b"hello\n", bytes(range(256))]
    files = [
        InjectedFile(path=f"/etc/file{number}", contents=base64.b64encode(data).decode())
        for number, data in enumerate(contents)
    ]
    spec = replace(spec, injected_files=files)
    seed = seed_files(spec)
    listed = loaded(spec, "openstack/latest/meta_data.json")["files"]
    assert [seed[f"openstack{entry['content_path']}"] for entry in listed] == contents
    assert [entry["path"] for entry in listed] == ["/etc/file0", "/etc/file1"]
    written = json.loads(seed["vendor-data"].partition(b"\n")[2])["write_files"]
    assert [base64.b64decode(entry["content"]) for entry in written] == contents
    assert [entry["path"] for entry in written] == ["/etc/file0", "/etc/file1"]
    assert loaded(spec, "openstack/latest/vendor_data.json") == {}, "there the source itself writes the files"


def test_the_drive_has_the_dated_versions_of_both_trees(spec: InstanceSpec) -> None:
    files = seed_files(spec)
    names = {path for path in files if path.startswith("openstack/2012-08-10/")}
    assert names == {f"openstack/2012-08-10/{name}" for name in ("meta_data.json", "user_data")}
    every = {"meta_data.json", "network_data.json", "user_data", "vendor_data.json", "vendor_data2.json"}
    for version in ("latest", "2020-10-14", "2018-08-27"):
        assert {path for path in files if path.startswith(f"openstack/{version}/")} == {
            f"openstack/{version}/{name}" for name in every
        }
    assert loaded(spec, "openstack/latest/vendor_data2.json") == {}
    assert len(base64.b64decode(loaded(spec, "openstack/latest/meta_data.json")["random_seed"])) == 512
    assert loaded(spec, "openstack/latest/meta_data.json")["project_id"] == spec.project_id.replace("-", "")
    assert "random_seed" not in loaded(spec, "openstack/2012-08-10/meta_data.json")
    meta_data = loaded(spec, "ec2/latest/meta-data.json")
    assert (meta_data["local-hostname"], meta_data["public-keys"]["0"]) == (
        "web-1.novalocal",
        {"openssh-key": KEY + "\n"},
    )
    assert files["ec2/2009-04-04/user-data"] == SCRIPT
    assert "local-hostname" not in loaded(spec, "ec2/1.0/meta-data.json")


def test_a_guest_without_interfaces_has_the_same_drive(spec: InstanceSpec) -> None:
    bare = replace(spec, ports=[])
    assert seed_files(bare).keys() == seed_files(spec).keys()
    assert loaded(bare, "ec2/latest/meta-data.json")["local-ipv4"] == ""


def test_an_interface_with_a_tag_is_reported(spec: InstanceSpec) -> None:
    assert loaded(spec, "openstack/latest/meta_data.json")["devices"] == []
    [port, *others] = spec.ports
    spec = replace(spec, ports=[replace(port, tag="dmz"), *others])
    [device] = loaded(spec, "openstack/latest/meta_data.json")["devices"]
    assert device == {"type": "nic", "mac": port.mac_address, "tags": ["dmz"]}


def test_a_host_name_with_a_domain_is_kept_whole(spec: InstanceSpec) -> None:
    spec = replace(spec, hostname="web.example.org")
    assert loaded(spec, "openstack/latest/meta_data.json")["hostname"] == "web.example.org"
    assert loaded(spec, "meta-data")["local-hostname"] == "web.example.org"


def label(image: Path) -> str:
    with image.open("rb") as file:
        file.seek(16 * 2048 + 40)
        return file.read(32).decode().strip()


@pytest.mark.parametrize(("config_drive", "name"), [(False, "cidata"), (True, "config-2")])
def test_the_drive_is_an_iso_image_for_its_owner_only(
    spec: InstanceSpec, paths: InstancePaths, config_drive: bool, name: str
) -> None:
    for _ in range(2):
        write_seed(replace(spec, config_drive=config_drive), paths)
    assert label(paths.seed) == name
    assert paths.seed.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in paths.folder.iterdir()] == ["seed.iso"]


def test_without_a_tool_the_host_says_so(
    spec: InstanceSpec, paths: InstancePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seed, "ISO_TOOLS", ("no-such-tool",))
    with pytest.raises(RetryableHostError, match="config drives"):
        write_seed(spec, paths)


AWK = Path(__file__).resolve().parents[3] / "tools/guest_image/files"


def flattened(script: str, data: bytes, *options: str) -> list[str]:
    command = ["busybox", "awk", *options, "-f", str(AWK / script)]
    return subprocess.run(command, input=data, capture_output=True, check=True).stdout.decode().splitlines()


def test_the_guest_reads_what_the_host_writes(spec: InstanceSpec) -> None:
    spec = replace(
        spec, name='say "hé🙂"\\ \t', key_pair=KeyPairRef(name="a/b.c", public_key=KEY + "\nssh-rsa BBBB two")
    )
    lines = flattened("json.awk", seed_files(spec)["openstack/latest/meta_data.json"])
    assert f"uuid\t{spec.uuid}" in lines
    assert "hostname\tweb-1.novalocal" in lines
    assert 'name\tsay "hé🙂"\\\\ \\t' in lines
    assert f"public_keys/a/b.c\t{KEY}\\nssh-rsa BBBB two" in lines
    # A newline in a value cannot begin a line of its own.
    assert "meta/role\tweb\\nuuid: forged" in lines
    assert [line for line in lines if line.startswith("uuid")] == [f"uuid\t{spec.uuid}"]
    nocloud = flattened("json.awk", seed_files(spec)["meta-data"])
    assert "local-hostname\tweb-1.novalocal" in nocloud


def test_the_guest_sets_a_static_address_from_the_drive(spec: InstanceSpec) -> None:
    flat = "\n".join(flattened("json.awk", seed_files(static(spec))["openstack/latest/network_data.json"])).encode()
    options = ("-F", "\t", "-v", "mac=fa:16:3e:00:00:01", "-v", "card=eth0")
    assert flattened("static.awk", flat, *options) == [
        "ip addr add 10.20.0.5/24 dev eth0",
        "ip route add 0.0.0.0/0 via 10.20.0.1 dev eth0",
        "echo nameserver 192.0.2.53 >>/etc/resolv.conf",
        "true",
    ]
    assert flattened("static.awk", flat, "-F", "\t", "-v", "mac=fa:16:3e:00:00:02", "-v", "card=eth0") == []


def test_the_guest_reads_plain_nocloud_files_too() -> None:
    text = b"instance-id: i-1\nlocal-hostname: 'web'\npublic-keys:\n  - ssh-ed25519 A one\n  - ssh-rsa B two\n"
    assert flattened("yaml.awk", text) == [
        "instance-id\ti-1",
        "local-hostname\tweb",
        "public-keys/0\tssh-ed25519 A one",
        "public-keys/1\tssh-rsa B two",
    ]
