"""What a domain boots from: its own disk, a rescue disk, a kernel that the host hands over."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import ImageRef, InstanceSpec, RescueImage
from compute_agent.virt.driver import BootFiles
from compute_agent.virt.libvirt import boot
from compute_agent.virt.libvirt.domain_xml import domain_xml
from compute_agent.virt.libvirt.paths import InstancePaths
from tests.agent.cast import make_spec

KERNEL = ImageRef(id="k", name="k", disk_format="aki", size=1, hash_algo="sha512", hash_value="")
PATHS = InstancePaths(folder=Path("/state/i"), real=Path("/state/i"))


def parsed(spec: InstanceSpec) -> ET.Element:
    return ET.fromstring(domain_xml(spec, 1, PATHS, "qemu"))  # noqa: S314


def disks(domain: ET.Element) -> dict[str, str]:
    """Target → file."""
    return {
        disk.find("target").attrib["dev"]: disk.find("source").attrib["file"]  # type: ignore[union-attr]
        for disk in domain.findall("devices/disk")
    }


def with_image(spec: InstanceSpec, **properties: str) -> InstanceSpec:
    return replace(spec, image=replace(spec.image, properties=properties))


def kernel_of(domain: ET.Element) -> tuple[str | None, str | None, str | None]:
    return domain.findtext("os/kernel"), domain.findtext("os/initrd"), domain.findtext("os/cmdline")


SOCKETS = [("channel/source", "path"), ("serial/source", "path"), ("graphics/listen", "socket")]


def test_a_guest_boots_its_own_disk() -> None:
    domain = parsed(make_spec())
    assert disks(domain) == {"vda": "/state/i/disk.qcow2", "hda": "/state/i/seed.iso"}
    assert kernel_of(domain) == (None, None, None)


@pytest.mark.parametrize(("properties", "name", "bus"), [({}, "hdb", "ide"), ({"hw_cdrom_bus": "sata"}, "sda", "sata")])
def test_a_cd_is_behind_an_empty_disk(tmp_path: Path, properties: dict[str, str], name: str, bus: str) -> None:
    seed = {"ide": "hda", "sata": "sdf"}[bus]
    paths, spec = InstancePaths(folder=tmp_path, real=tmp_path), with_image(make_spec(), **properties)
    paths.cd.touch()
    domain = ET.fromstring(domain_xml(spec, 1, paths, "qemu"))  # noqa: S314
    result = {disk.find("target").attrib["dev"]: disk for disk in domain.iter("disk")}  # type: ignore[union-attr]
    order = {dev: disk.find("boot").attrib["order"] for dev, disk in result.items() if disk.find("boot") is not None}  # type: ignore[union-attr]
    assert (set(result), order) == ({"vda", name, seed}, {"vda": "1", name: "2"})
    assert (result[name].get("device"), result[name].find("target").get("bus")) == ("cdrom", bus)  # type: ignore[union-attr]
    assert result[name].find("readonly") is not None
    assert domain.find("os/boot") is None
    rescued = replace(spec, rescue=RescueImage(image=replace(spec.image, disk_format="iso", properties={})))
    domain = ET.fromstring(domain_xml(rescued, 1, paths, "qemu"))  # noqa: S314
    [booted] = [disk for disk in domain.iter("disk") if disk.find("boot") is not None]
    assert (booted.get("device"), booted.find("source").get("file")) == ("cdrom", str(paths.rescue_disk))  # type: ignore[union-attr]


def test_a_rescued_guest_has_its_own_disk_behind_the_other() -> None:
    spec = make_spec()
    spec = replace(
        with_image(spec, hw_qemu_guest_agent="yes"),
        flavor=replace(spec.flavor, ephemeral_gb=1, swap_mb=64),
        rescue=RescueImage(image=replace(spec.image, properties={})),
    )
    domain = parsed(spec)
    assert disks(domain) == {
        "vda": "/state/i/rescue.qcow2",
        "vdb": "/state/i/disk.qcow2",
        "vdc": "/state/i/ephemeral.raw",
        "vdd": "/state/i/swap.raw",
        "hda": "/state/i/rescue.iso",
    }
    assert domain.find("devices/channel") is None, "it is the rescue image that has no agent"


def test_the_agents_channel_lies_beside_the_other_sockets() -> None:
    """The name that libvirt would choose is longer than a socket's may be in most state folders."""
    domain = parsed(with_image(make_spec(), hw_qemu_guest_agent="yes"))
    sockets = [str(domain.find(f"devices/{where}").attrib[name]) for where, name in SOCKETS]  # type: ignore[union-attr]
    assert {path.rpartition("/")[0] for path in sockets} == {"/state/i/sockets"}


def test_a_kernel_is_handed_over_with_its_ramdisk_and_command_line() -> None:
    spec = replace(make_spec(), kernel=KERNEL, ramdisk=KERNEL)
    assert kernel_of(parsed(spec)) == ("/state/i/kernel", "/state/i/ramdisk", boot.COMMAND_LINE)
    with_kernel = with_image(spec, os_command_line='root=/dev/vda2 "</cmdline>\x01\n quiet')
    assert kernel_of(parsed(with_kernel))[2] == 'root=/dev/vda2 "</cmdline>\ufffd  quiet'
    assert kernel_of(parsed(replace(spec, ramdisk=None)))[:2] == ("/state/i/kernel", None)
    assert kernel_of(parsed(replace(spec, kernel=None))) == (None, None, None), "a ramdisk alone boots nothing"


def test_the_rescue_image_says_what_a_rescued_guest_boots() -> None:
    spec = replace(make_spec(), kernel=KERNEL, ramdisk=KERNEL)
    plain = replace(spec, rescue=RescueImage(image=spec.image))
    assert kernel_of(parsed(plain)) == (None, None, None)
    other = replace(spec.image, properties={"os_command_line": "single"})
    named = replace(make_spec(), rescue=RescueImage(image=other, kernel=KERNEL, ramdisk=KERNEL))
    assert kernel_of(parsed(named)) == ("/state/i/rescue.kernel", "/state/i/rescue.ramdisk", "single")


@pytest.mark.parametrize("linked", [True, False])
def test_files_outlive_the_cache_and_make_room_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linked: bool
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("Invalid cross-device link")

    if not linked:
        monkeypatch.setattr(os, "link", refuse)
    cached, kernel, ramdisk = tmp_path / "cached", tmp_path / "kernel", tmp_path / "ramdisk"
    cached.write_bytes(b"bits")
    for _ in range(2):
        boot.install(BootFiles(cached, cached), kernel, ramdisk)
    assert kernel.samefile(cached) is linked
    cached.unlink()
    assert (kernel.read_bytes(), ramdisk.read_bytes()) == (b"bits", b"bits")
    boot.install(BootFiles(), kernel, ramdisk)
    assert list(tmp_path.iterdir()) == []
