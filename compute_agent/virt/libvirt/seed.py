"""The config drive: metadata of the guest in the formats of cloud-init and of Novella's own image.

Both directory trees are on one disk. NoCloud (``meta-data``, ``user-data``, ``network-config``, ``vendor-data``) is
read if the disk's label is ``cidata``. OpenStack's ``openstack`` and EC2's ``ec2``, in their dated versions, are read
if the label is ``config-2``, which a requested config drive has. The formats are those of cloud-init's datasources
NoCloud and ConfigDrive, and of Nova's "Metadata service" chapter.
"""

import base64
import json
import shutil
from ipaddress import ip_address, ip_interface
from pathlib import Path
from typing import Any

from compute_agent.contract.build import FixedAddress, InstanceSpec
from compute_agent.guest_data import address_mode, content_path, fqdn, nameservers
from compute_agent.guest_trees import drive_files
from compute_agent.virt.errors import FatalBuildError, RetryableHostError
from compute_agent.virt.libvirt.paths import InstancePaths
from compute_agent.virt.processes.programs import ProgramError, run_program

ISO_TOOLS = ("genisoimage", "mkisofs", "xorrisofs")
"""Alternatives with the same options."""


def seed_files(spec: InstanceSpec) -> dict[str, bytes]:
    """Return path → file of the seed. Raises FatalBuildError if the user data is not base64."""
    config = b"#cloud-config\n" + _json(_password(spec.admin_password)) if spec.admin_password is not None else b""
    files = {
        "meta-data": _json(_nocloud_meta_data(spec)),
        "user-data": _user_data(spec),
        "network-config": _json(_network_config(spec)),
        **drive_files(spec, _json({"cloud-init": config.decode()} if config else {})),
    }
    vendor_data = _vendor_data(spec)
    if vendor_data:
        files["vendor-data"] = b"#cloud-config\n" + _json(vendor_data)
    for number, file in enumerate(spec.injected_files):
        files[f"openstack{content_path(number)}"] = _decoded(file.contents, "An injected file")
    return files


def write_seed(spec: InstanceSpec, paths: InstancePaths, target: Path | None = None) -> None:
    """Write the seed's ISO 9660 image, by default to the path of the guest's seed. Raises RetryableHostError."""
    tool = next((program for program in map(shutil.which, ISO_TOOLS) if program), None)
    if tool is None:
        raise RetryableHostError(
            "The host cannot create config drives.", detail=f"none of {', '.join(ISO_TOOLS)} found"
        )
    staging, image = paths.folder / "seed.files", paths.folder / "seed.part"
    shutil.rmtree(staging, ignore_errors=True)
    try:
        for name, data in seed_files(spec).items():
            file = staging / name
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file.write_bytes(data)
        image.unlink(missing_ok=True)
        image.touch(mode=0o600)
        label = "config-2" if spec.config_drive else "cidata"
        run_program(tool, "-quiet", "-V", label, "-r", "-J", "-o", str(image), str(staging))
        image.replace(target or paths.seed)
    except (OSError, ProgramError) as error:
        raise RetryableHostError("The host could not create the guest's config drive.", detail=str(error)) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _json(value: object) -> bytes:
    # JSON is YAML too, which is what NoCloud asks for; ASCII escapes keep hostile names on their line.
    return json.dumps(value, indent=1, sort_keys=True).encode() + b"\n"


def _user_data(spec: InstanceSpec) -> bytes:
    return _decoded(spec.user_data or "", "The user data")


def _decoded(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=False)
    except ValueError as error:
        raise FatalBuildError(f"{what} is not valid base64.") from error


def _vendor_data(spec: InstanceSpec) -> dict[str, Any]:
    """Return cloud-init's vendor data for NoCloud: the password, and the injected files, because NoCloud has no other
    way to pass files.
    """
    data: dict[str, Any] = {}
    if spec.admin_password is not None:
        data |= _password(spec.admin_password)
    if spec.injected_files:
        data["write_files"] = [
            {"path": file.path, "encoding": "b64", "content": file.contents} for file in spec.injected_files
        ]
    return data


def _password(password: str) -> dict[str, Any]:
    """Return the settings for the password of the image's default user. The password is for the console; the image's
    settings decide whether SSH accepts it.
    """
    return {"password": password, "chpasswd": {"expire": False}}


def _nocloud_meta_data(spec: InstanceSpec) -> dict[str, Any]:
    return {
        "instance-id": spec.uuid,
        "local-hostname": fqdn(spec),
        "public-keys": [spec.key_pair.public_key.strip()] if spec.key_pair else [],
    }


def _network_config(spec: InstanceSpec) -> dict[str, Any]:
    """Return network configuration version 2; interfaces are identified by their MAC addresses."""
    ethernets: dict[str, Any] = {}
    for number, port in enumerate(spec.ports):
        interface: dict[str, Any] = {"match": {"macaddress": port.mac_address}, "mtu": port.network.mtu}
        static = [fixed for fixed in port.fixed_ips if not fixed.enable_dhcp]
        for fixed in port.fixed_ips:
            if fixed.enable_dhcp:
                interface |= _BY_MODE[address_mode(port, fixed) if ":" in fixed.address else ""]
        if static:
            interface["addresses"] = [f"{fixed.address}/{fixed.prefix_length}" for fixed in static]
            interface["routes"] = [_default_route(fixed, fixed.gateway) for fixed in static if fixed.gateway]
            interface["nameservers"] = {"addresses": nameservers(port)}
        ethernets[f"eth{number}"] = interface
    return {"version": 2, "ethernets": ethernets}


def _default_route(fixed: FixedAddress, gateway: str) -> dict[str, Any]:
    """Return the route to a subnet's gateway, which may be outside of its range."""
    inside = ip_address(gateway) in ip_interface(f"{fixed.address}/{fixed.prefix_length}").network
    route = {"to": "::/0" if ":" in gateway else "0.0.0.0/0", "via": gateway}
    return route if inside else route | {"on-link": True}


_BY_MODE = {
    "": {"dhcp4": True},
    "slaac": {"accept-ra": True},
    "dhcpv6-stateless": {"accept-ra": True, "dhcp6": True},
    "dhcpv6-stateful": {"accept-ra": True, "dhcp6": True},
}
"""IPv6 address mode of a subnet → settings of the interface."""
