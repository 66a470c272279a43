"""The domain XML, compared with files that a person has read."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import (
    FlavorRef,
    GuestDisk,
    InstanceSpec,
    LocalDisk,
    RescueImage,
    VolumeConnection,
)
from compute_agent.virt.libvirt.domain_xml import NAMESPACE, VirtType, clean, domain_xml, read_mark
from compute_agent.virt.libvirt.firmware import Firmware
from compute_agent.virt.libvirt.hardware_xml import Parts
from compute_agent.virt.libvirt.paths import HostPaths
from tests.agent.cast import make_spec

GOLDEN = Path(__file__).parent / "golden"
UUID = "0a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d"
SPECS = {"hw_video:ram_max_mb": "64", "hw_rng:rate_bytes": "2048", "hw_rng:rate_period": "500"}
WINDOWS = {
    "os_type": "windows", "os_secure_boot": "required", "hw_tpm_version": "2.0", "hw_tpm_model": "tpm-crb",
    "hw_disk_bus": "sata", "hw_vif_model": "e1000e", "hw_video_model": "qxl", "hw_video_ram": "32",
    "hw_input_bus": "usb", "hw_sound_model": "ich9", "hw_cpu_cores": "4", "img_hide_hypervisor_id": "true",
    "os_require_quiesce": "yes", "hw_qemu_guest_agent": "yes",
}  # fmt: skip
OLD = {
    "hw_disk_bus": "ide", "hw_vif_model": "rtl8139", "hw_video_model": "cirrus", "hw_watchdog_action": "reset",
    "hw_boot_menu": "yes", "hw_cpu_model": "Nehalem", "hw_cpu_model_extra_flags": "+aes,-sse4.2", "hw_time_hpet": "on",
    "hw_pmu": "off", "hw_machine_type": "pc-i440fx-5.2",
}  # fmt: skip
PATHS = HostPaths(Path("/srv/novella")).instance(UUID)


def large(spec: InstanceSpec) -> InstanceSpec:
    """Two interfaces and every disk a flavor can have."""
    second = make_spec(number=2).ports[0]
    network = replace(second.network, bridge="br-other", mtu=9000)
    flavor = FlavorRef(name="m1.large", vcpus=4, memory_mb=8192, root_gb=80, ephemeral_gb=20, swap_mb=512)
    return replace(spec, flavor=flavor, ports=[*spec.ports, replace(second, network=network)])


def with_volumes(spec: InstanceSpec) -> InstanceSpec:
    """A guest that boots from a volume of another host, with volumes on every bus and empty disks of its own."""
    connection = VolumeConnection(export="e1", address="192.0.2.7", port=10809, tls=True, tls_hostname="h7")
    beside = VolumeConnection(export="e4", socket="/run/novella-33137ce7/exports/4.sock")
    volumes = [
        GuestDisk(id="root", attachment_id="a1", size_gb=1, connection=connection, device="vda", boot_index=0),
        GuestDisk(id="data", attachment_id="a2", size_gb=2, connection=beside, device="vdb", shareable=True,
                  iotune={"total_iops_sec": 100, "read_bytes_sec": 5}),
        GuestDisk(id="disc", attachment_id="a3", size_gb=1, connection=beside, kind="cdrom", boot_index=1),
        GuestDisk(id="stick", attachment_id="a4", size_gb=1, connection=beside, bus="usb", read_only=True),
        GuestDisk(id="old", attachment_id="a5", size_gb=1, connection=beside, bus="ide", device="/dev/hda"),
    ]  # fmt: skip
    local = [LocalDisk(size_mb=10, format="xfs"), LocalDisk(size_mb=1, swap=True, device="vdb")]
    return replace(spec, image=replace(spec.image, id=""), volumes=volumes, local_disks=local)


def rescued(spec: InstanceSpec) -> InstanceSpec:
    return replace(spec, rescue=RescueImage(image=make_spec().image))


def stably_rescued(spec: InstanceSpec, **properties: str) -> InstanceSpec:
    """Rescued by an image that says what its disk is to be."""
    image = replace(make_spec().image, properties={f"hw_rescue_{name}": value for name, value in properties.items()})
    return replace(spec, rescue=RescueImage(image=image))


def equipped(spec: InstanceSpec, **properties: str) -> InstanceSpec:
    """A guest whose image and flavor say what its hardware is."""
    flavor = replace(spec.flavor, vcpus=4, extra_specs=SPECS)
    return replace(spec, image=replace(spec.image, properties=properties), flavor=flavor)


def hostile(spec: InstanceSpec) -> InstanceSpec:
    """Names that try to leave their place."""
    name = 'a</title><devices/>\x00\x1b[2J\n"&\ufffe🙂'
    return replace(spec, name=name, created_at="2026-10-01T12:00:00Z")


@pytest.mark.parametrize(
    ("golden", "spec", "virt_type"),
    [
        ("small-emulated.xml", make_spec(UUID), "qemu"),
        ("large-kvm.xml", large(make_spec(UUID)), "kvm"),
        ("hostile-name.xml", hostile(make_spec(UUID)), "qemu"),
        ("volumes.xml", with_volumes(make_spec(UUID)), "qemu"),
        ("volumes-rescued.xml", rescued(with_volumes(make_spec(UUID))), "qemu"),
        ("secure-windows.xml", equipped(make_spec(UUID), **WINDOWS), "kvm"),
        ("old-machine.xml", equipped(make_spec(UUID), **OLD), "qemu"),
    ],
)
def test_the_xml_is_the_golden_one(golden: str, spec: InstanceSpec, virt_type: VirtType) -> None:
    secure = spec.image.properties.get("os_secure_boot") == "required"
    firmware = Firmware(Path("/fw/code"), Path("/fw/template"), ("pc-*",), secure_boot=True, smm=True)
    parts = Parts(firmware, PATHS.variables(secure_boot=True, rescue=False), PATHS.tpm_socket) if secure else None
    assert domain_xml(spec, 3, PATHS, virt_type, parts) == (GOLDEN / golden).read_text()


def parsed(spec: InstanceSpec, attempt: int) -> ET.Element:
    return ET.fromstring(domain_xml(spec, attempt, PATHS, "qemu"))  # noqa: S314 - our own


def test_limits_of_the_flavor_are_those_of_its_vcpus_disks_and_interfaces() -> None:
    specs = {"quota:disk_total_iops_sec": "7", "quota:vif_outbound_average": "128", "quota:vif_outbound_burst": "5"}
    specs |= {"quota:cpu_shares": "512", "quota:cpu_quota": "5000", "quota:cpu_period": "0"}
    spec = with_volumes(make_spec(UUID))
    tree = parsed(replace(spec, flavor=replace(spec.flavor, extra_specs=specs)), 1)
    limited = [disk for disk in tree.iter("disk") if disk.find("source[@file]") is not None and disk.find("iotune")]
    assert [disk.findtext("iotune/total_iops_sec") for disk in limited] == ["7", "7"]
    assert {disk.get("device") for disk in limited} == {"disk"}
    assert [each.attrib for each in tree.iter("outbound")] == [{"average": "128", "burst": "5"}]
    assert {each.tag: each.text for each in tree.find("cputune") or ()} == {"shares": "512", "quota": "5000"}


def test_the_console_is_the_first_of_the_serial_ports() -> None:
    tree = parsed(equipped(make_spec(UUID), hw_serial_port_count="3"), 1)
    ports = [(each.find("target"), each.find("source"), each.find("log")) for each in tree.iter("serial")]
    sockets = [source.get("path") for _, source, _ in ports if source is not None]
    assert [target.get("port") for target, _, _ in ports if target is not None] == ["0", "1", "2"]
    assert sockets == [str(PATHS.serial_socket(number)) for number in range(3)]
    assert len(set(sockets)) == 3
    assert [log is not None for _, _, log in ports] == [True, False, False]


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"bus": "usb"}, ("disk", "usb", "sda")),
        ({"bus": "scsi", "device": "cdrom"}, ("cdrom", "scsi", "sda")),
        ({"device": "disk"}, ("disk", "virtio", "vdb")),
        ({"device": "cdrom", "bus": "virtio"}, ("cdrom", "ide", "hdb")),
    ],
)
@pytest.mark.parametrize("boots_from_volume", [False, True])
def test_a_stable_rescue_leaves_the_other_disks_as_they_are(
    properties: dict[str, str], expected: tuple[str, str, str], *, boots_from_volume: bool
) -> None:
    spec = make_spec(UUID)
    if boots_from_volume:
        spec = replace(with_volumes(spec), local_disks=None)
        spec = replace(spec, volumes=spec.volumes[:1])
    before = [disk for disk in parsed(spec, 1).iter("disk") if disk.find("target").get("dev") != "hda"]  # type: ignore[union-attr]
    rescue = list(parsed(stably_rescued(spec, **properties), 1).iter("disk"))
    named = [disk.find("target").get("dev") for disk in rescue]  # type: ignore[union-attr]
    assert named[: len(before)] == [disk.find("target").get("dev") for disk in before]  # type: ignore[union-attr]
    [booted] = [disk for disk in rescue if disk.find("boot") is not None]
    target = booted.find("target")
    assert target is not None
    assert (booted.get("device"), target.get("bus"), target.get("dev")) == expected
    assert (booted.find("readonly") is not None) == (expected[0] == "cdrom")
    assert parsed(stably_rescued(spec, **properties), 1).find("os/boot") is None


def test_a_hostile_name_stays_text() -> None:
    spec = hostile(make_spec(UUID))
    domain = parsed(spec, 3)
    assert domain.findtext("title") == 'a</title><devices/>\ufffd\ufffd[2J "&\ufffd🙂'
    assert len(domain.findall("devices")) == 1


def test_the_mark_is_read_as_it_was_written() -> None:
    domain = parsed(make_spec(UUID), 7)
    element = domain.find(f"metadata/{{{NAMESPACE}}}instance")
    assert element is not None
    mark = read_mark(UUID, ET.tostring(element, encoding="unicode"))
    assert (mark.uuid, mark.attempt) == (UUID, 7)


@pytest.mark.parametrize("metadata", ["", "<a/>", "<a attempt='x'/>"])
def test_another_ones_metadata_is_no_mark(metadata: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_mark(UUID, metadata)


def test_an_empty_name_still_has_a_title() -> None:
    spec = replace(make_spec(UUID), name="")
    assert "<title>web-1</title>" in domain_xml(spec, 1, PATHS, "qemu")
    assert clean("a\r\n\tb") == "a b"


@pytest.mark.parametrize("bad", ["../../etc", "0a1b2c3d", ""])
def test_only_a_uuid_becomes_a_folder(bad: str) -> None:
    with pytest.raises(ValueError, match="UUID"):
        HostPaths(Path("/srv/novella")).instance(bad)


def test_what_qemu_opens_has_a_short_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compute_agent.virt.libvirt.paths.RUN", tmp_path / "run")
    (tmp_path / "run").mkdir()
    paths = HostPaths(tmp_path / ("x" * 60))
    for _ in range(2):
        paths.prepare()
    assert not paths.mounted
    instance = paths.instance(UUID)
    assert instance.root_disk.parent == paths.short / "instances" / UUID
    assert instance.folder.resolve() == instance.real == paths.instances / UUID
    assert len(str(HostPaths(paths.state).instance(UUID).vnc_socket)) - len(str(tmp_path)) < 100
    image = paths.state / "images/_base/sha256-00"
    image.touch()
    assert paths.lend(image).resolve() == image
    assert paths.visible(Path("/elsewhere/copy")) == Path("/elsewhere/copy")
    paths.remove_short()
    assert list((tmp_path / "run").iterdir()) == []
    assert image.exists()
