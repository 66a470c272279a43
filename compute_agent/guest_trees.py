"""The directory trees of the metadata service and of config drives: OpenStack's and EC2's, in dated versions.

The contents of each version are those in Nova's "Metadata service" chapter: an old version has only the data that
existed at its date.
"""

import base64
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

from compute_agent.contract.build import InstanceSpec, PortRef, boot_volume
from compute_agent.contract.guest_hardware import guest_hardware
from compute_agent.guest_data import content_path, device_path, fqdn, meta_data, network_data

Tree = Mapping[str, Union[bytes, "Tree"]]
"""Name → contents of a file, or a directory."""

OPENSTACK = (
    "2012-08-10", "2013-04-04", "2013-10-17", "2015-10-15", "2016-06-30", "2016-10-06", "2017-02-22", "2018-08-27",
    "2020-10-14",
)  # fmt: skip
EC2 = (
    "1.0", "2007-01-19", "2007-03-01", "2007-08-29", "2007-10-10", "2007-12-15", "2008-02-01", "2008-09-01",
    "2009-04-04",
)  # fmt: skip
LATEST = "latest"
PASSWORD = "password"  # noqa: S105 - the name of a file
RANDOM_SEED = 512
"""Bytes of the guest's random seed, which is different in each response."""
EC2_DIGITS = 17
"""Number of hexadecimal digits of an id in EC2's form: the first digits of the UUID."""


@dataclass(frozen=True)
class Asker:
    """The guest that sends a request, and the interface that it uses."""

    spec: InstanceSpec
    port: PortRef | None
    """None: the guest has no interface, and reads its config drive."""
    floating: str = ""
    """The floating IP of the interface; empty if it has none."""
    vendor_data: bytes = b"{}"


def drive_files(spec: InstanceSpec, vendor_data: bytes) -> dict[str, bytes]:
    """Return path → file for both trees on a config drive, as Nova writes them. Injected files are not included."""
    asker = Asker(spec, spec.ports[0] if spec.ports else None, vendor_data=vendor_data)
    files: dict[str, bytes] = {}
    for version in (*OPENSTACK, LATEST):
        known = OPENSTACK[-1] if version == LATEST else version
        for name, data in _openstack(asker, known).items():
            if isinstance(data, bytes) and name != PASSWORD:  # only the service has it
                files[f"openstack/{version}/{name}"] = data
    for version in (*EC2, LATEST):
        known = EC2[-1] if version == LATEST else version
        files[f"ec2/{version}/meta-data.json"] = _json(_plain(_ec2_meta_data(asker, known)))
        if spec.user_data:
            files[f"ec2/{version}/user-data"] = _user_data(spec)
    return files


def _plain(tree: Tree) -> dict[str, Any]:
    """Return a tree as a JSON object. The name of an SSH key in a tree is "0=name", and in the object "0"."""
    return {
        name.partition("=")[0]: each.decode() if isinstance(each, bytes) else _plain(each)
        for name, each in tree.items()
    }


def find(asker: Asker, path: Sequence[str]) -> bytes | None:
    """Return the contents of a file, or the listing of a directory; None if it does not exist. ``path`` has no empty
    parts.
    """
    if not path:
        return _lines((*EC2, LATEST))
    if path[0] == "openstack":
        return _find_openstack(asker, path[1:])
    version = EC2[-1] if path[0] == LATEST else path[0]
    if version not in EC2:
        return None
    return _at(_ec2(asker, version), path[1:], _ec2_listing)


def _find_openstack(asker: Asker, path: Sequence[str]) -> bytes | None:
    if not path:
        return _lines((*OPENSTACK, LATEST))
    if path[0] == "content":
        return _at(_contents(asker.spec), path[1:], _listing)
    version = OPENSTACK[-1] if path[0] == LATEST else path[0]
    if version not in OPENSTACK:
        return None
    return _at(_openstack(asker, version), path[1:], _listing)


def ec2_id(prefix: str, uuid: str) -> str:
    """Return an id in EC2's form: ``i-0123456789abcdef0``."""
    return f"{prefix}-{uuid.replace('-', '')[:EC2_DIGITS]}"


def _openstack(asker: Asker, version: str) -> Tree:
    spec = asker.spec
    tree: dict[str, bytes | Tree] = {"meta_data.json": _json(_meta_data(spec, version))}
    if spec.user_data:
        tree["user_data"] = _user_data(spec)
    if version >= "2013-04-04":
        tree[PASSWORD] = spec.posted_password.encode()
    if version >= "2013-10-17":
        tree["vendor_data.json"] = asker.vendor_data
    if version >= "2015-10-15":
        tree["network_data.json"] = _json(network_data(spec))
    if version >= "2016-10-06":
        tree["vendor_data2.json"] = b"{}"
    return tree


def _meta_data(spec: InstanceSpec, version: str) -> dict[str, Any]:
    data = meta_data(spec)
    if version >= "2013-04-04":
        data["random_seed"] = base64.b64encode(secrets.token_bytes(RANDOM_SEED)).decode()
    if version >= "2020-10-14":
        data["dedicated_cpus"] = []
    for since, name in (("2015-10-15", "project_id"), ("2016-06-30", "devices")):
        if version < since:
            data.pop(name, None)
    return data


def _contents(spec: InstanceSpec) -> Tree:
    files = enumerate(spec.injected_files)
    return {content_path(number).rpartition("/")[2]: base64.b64decode(file.contents) for number, file in files}


def _ec2(asker: Asker, version: str) -> Tree:
    tree: dict[str, bytes | Tree] = {"meta-data": _ec2_meta_data(asker, version)}
    if asker.spec.user_data:
        tree["user-data"] = _user_data(asker.spec)
    return tree


def _ec2_meta_data(asker: Asker, version: str) -> Tree:
    spec, port = asker.spec, asker.port
    host_name = fqdn(spec)
    addresses = [fixed.address for fixed in port.fixed_ips if ":" not in fixed.address] if port else []
    tree: dict[str, bytes | Tree] = {
        "ami-id": ec2_id("ami", spec.image.id).encode(),
        "ami-manifest-path": b"",
        "ami-launch-index": str(spec.launch_index).encode(),
        "hostname": host_name.encode(),
        "instance-id": ec2_id("i", spec.uuid).encode(),
        "local-ipv4": addresses[0].encode() if addresses else b"",
        "reservation-id": spec.reservation_id.encode(),
        "security-groups": _lines(port.security_groups if port else []),
    }
    if version >= "2007-01-19":
        tree |= {
            "local-hostname": host_name.encode(),
            "public-hostname": host_name.encode(),
            "public-ipv4": asker.floating.encode(),
        }
    if version >= "2007-03-01" and spec.key_pair:
        tree["public-keys"] = {f"0={spec.key_pair.name}": {"openssh-key": spec.key_pair.public_key.encode()}}
    if version >= "2007-08-29":
        tree["instance-type"] = spec.flavor.name.encode()
    if version >= "2007-12-15":
        tree["block-device-mapping"] = _block_devices(spec)
        tree["instance-action"] = b"none"
        for name, prefix, image in (("kernel-id", "aki", spec.kernel), ("ramdisk-id", "ari", spec.ramdisk)):
            if image is not None:
                tree[name] = ec2_id(prefix, image.id).encode()
    if version >= "2008-02-01":
        tree["placement"] = {"availability-zone": spec.availability_zone.encode()}
    return tree


def _block_devices(spec: InstanceSpec) -> Tree:
    """Return EC2's block device mapping of the guest's disks, as far as their devices are known."""
    root = boot_volume(spec)
    device = (root.device if root else "") or guest_hardware(spec).root_device
    names = {"ami": device.removeprefix("/dev/"), "root": device_path(device)}
    local = [disk for disk in spec.local_disks or [] if disk.device]
    names |= {
        f"ephemeral{number}": device_path(disk.device) for number, disk in enumerate(d for d in local if not d.swap)
    }
    for disk in local:
        if disk.swap:
            names["swap"] = device_path(disk.device)
    others = [disk for disk in spec.volumes if disk.device and disk is not root]
    names |= {f"ebs{number}": device_path(disk.device) for number, disk in enumerate(others)}
    return {name: value.encode() for name, value in names.items()}


def _at(tree: Tree, path: Sequence[str], listing: Callable[[Tree], bytes]) -> bytes | None:
    node: bytes | Tree | None = tree
    for name in path:
        node = _child(node, name) if node is not None and not isinstance(node, bytes) else None
    return node if node is None or isinstance(node, bytes) else listing(node)


def _child(tree: Tree, name: str) -> bytes | Tree | None:
    """Return the entry with this name; None if there is none. SSH keys are listed as "0=name" and requested as "0"."""
    return tree.get(name, next((value for key, value in tree.items() if key.startswith(f"{name}=")), None))


def _listing(tree: Tree) -> bytes:
    return _lines([*tree])


def _ec2_listing(tree: Tree) -> bytes:
    """Return the listing of a directory. Names of directories end with a slash, except those of SSH keys ("0=name")."""
    names = [f"{name}/" if not isinstance(node, bytes) and "=" not in name else name for name, node in tree.items()]
    return _lines(sorted(names))


def _user_data(spec: InstanceSpec) -> bytes:
    return base64.b64decode(spec.user_data or "")


def _lines(names: Sequence[str]) -> bytes:
    return "\n".join(names).encode()


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
