"""Disks of many kinds, as users bring them: uploaded by the real client, launched, and booted as they ask for it."""

from __future__ import annotations

import pytest

from tests.support.one_machine import OneMachine, wait_for
from tools.guest_image.kinds import KINDS, SAID, Builder, Kind

pytestmark = [pytest.mark.deep, pytest.mark.compat, pytest.mark.libvirt, pytest.mark.slow]
FLAVOR, TWO_DISKS = "m1.kinds", "m1.kinds-two-disks"
UEFI = {"hw_firmware_type": "uefi"}
Q35 = UEFI | {"hw_machine_type": "q35"}
OLD = {"hw_disk_bus": "ide", "hw_vif_model": "e1000"}
ASKED: dict[str, tuple[dict[str, str], str]] = {
    "bios": ({}, "firmware=bios secure=no disks=vda card=virtio_net tpm=none"),
    "uefi": ({}, "firmware=uefi secure=no disks=vda card=virtio_net tpm=none"),
    "secure-boot": ({"os_secure_boot": "required"}, "firmware=uefi secure=yes disks=vda card=virtio_net tpm=none"),
    "lvm": ({}, "firmware=bios secure=no disks=vda card=virtio_net tpm=none lvm='written by its builder'"),
    "two-disks": ({"hw_disk_bus": "scsi"}, "firmware=bios secure=no disks=sda,sdb card=virtio_net tpm=none"),
    "without-virtio": (OLD, "firmware=bios secure=no disks=sda card=e1000 tpm=none"),
    "e1000-only": ({"hw_vif_model": "e1000"}, "firmware=bios secure=no disks=vda card=e1000 tpm=none"),
    "sata": (Q35 | {"hw_disk_bus": "sata", "hw_vif_model": "e1000e"}, "disks=sda card=e1000e tpm=none"),
    "iso": ({}, "firmware=bios secure=no disks=vda card=virtio_net tpm=none"),
    "tpm": (Q35 | {"hw_tpm_version": "2.0", "hw_tpm_model": "tpm-crb"}, "disks=vda card=virtio_net tpm=2"),
    "scsi": ({"hw_disk_bus": "scsi"}, "firmware=bios secure=no disks=sda card=virtio_net tpm=none"),
    "uefi-without-virtio": (UEFI | OLD, "firmware=uefi secure=no disks=sda card=e1000 tpm=none"),
}  # fmt: skip
"""Properties of each kind's image, and what its guest has found; the firmware of ``uefi`` is found in the image."""


@pytest.fixture(scope="module")
def disks(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    return Builder(tmp_path_factory.mktemp("kinds"))


@pytest.fixture(scope="module", autouse=True)
def _flavor(cloud: OneMachine) -> None:
    for name, more in ((FLAVOR, ()), (TWO_DISKS, ("--ephemeral", "1"))):
        cloud.openstack("flavor", "create", "--ram", "512", "--disk", "1", "--vcpus", "1", *more, name, cloud="admin")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_disk_of_each_kind_boots_by_upload_alone(cloud: OneMachine, disks: Builder, kind: Kind) -> None:
    properties, result = ASKED[kind.name]
    options = [word for name, value in properties.items() for word in ("--property", f"{name}={value}")]
    words = ("--disk-format", kind.disk_format, "--file", str(disks.build(kind)), *options, kind.name)
    cloud.openstack("image", "create", *words)
    flavor = TWO_DISKS if kind.name == "two-disks" else FLAVOR
    words = ("--image", kind.name, "--flavor", flavor, "--network", "demo-net", "--wait", kind.name)
    try:
        server = cloud.openstack_json("server", "create", *words)
        assert server["status"] == "ACTIVE"
        line = f"{SAID} {kind.name} "
        wait_for(f"{kind.name} boots", lambda: "\n" in cloud.console(server["id"]).partition(line)[2], 300)
        assert result in cloud.console(server["id"])
    finally:
        cloud.client("server", "delete", "--wait", kind.name)
        cloud.client("image", "delete", kind.name)
