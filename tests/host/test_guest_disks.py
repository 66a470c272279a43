"""Volumes of a real guest, which its guest agent examines, formats, mounts and extends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import GuestDisk, InstanceSpec
from compute_agent.contract.guest_disks import InspectedDisk
from compute_agent.virt.errors import GuestDiskError, UnsupportedError
from tests.host.cast import EGRESS, SSH, Wish
from tests.host.host_process import HostProcess
from tests.host.lab import Lab, until
from tests.host.storage_daemon import StorageDaemon
from tests.host.woken import wake
from tests.support.guest_image import GuestImage

PATIENCE = 600
"""Seconds that programs of a guest may take."""


@dataclass
class Stage:
    """A guest whose image declares a guest agent."""

    lab: Lab
    host: HostProcess
    spec: InstanceSpec
    key: Path

    def ssh(self, command: str) -> str:
        """Run a command in the guest."""
        return self.lab.ssh(self.key, self.spec, command)

    def attach(self, disk: GuestDisk) -> None:
        self.host.driver.attach_volume(replace(self.spec, volumes=[disk]), disk)
        until(lambda: disk.device in self.ssh("ls /sys/block"), "the disk in the guest")

    def inspect(self, disk: GuestDisk) -> InspectedDisk:
        inspected_disk = self.host.driver.inspect_disk(self.spec.uuid, disk.id, PATIENCE)
        assert isinstance(inspected_disk, InspectedDisk)
        return inspected_disk

    def mount(self, disk: GuestDisk, directory: str) -> None:
        self.host.driver.mount_disk(self.spec.uuid, disk.id, directory, PATIENCE)

    def extend(self, disk: GuestDisk) -> None:
        self.host.driver.extend_file_system(self.spec.uuid, disk.id, PATIENCE)

    def mebibytes(self, directory: str) -> int:
        return int(self.ssh(f"df -Pm {directory} | awk 'NR == 2 {{ print $2 }}'"))


@pytest.fixture(scope="module")
def stage(lab: Lab, image: GuestImage, key: Path) -> Iterator[Stage]:
    host = HostProcess(lab.settings, lab.machine.path, image.path)
    host.network.init_host()
    host.driver.init_host()
    ref = replace(image.ref, properties={"hw_qemu_guest_agent": "yes"})
    spec = Wish(1, rules=(EGRESS, SSH), image=ref, public_key=key.with_suffix(".pub").read_text()).spec()
    wake(host, spec)
    yield Stage(lab, host, spec, key)
    host.kill()


@pytest.fixture
def volume(stage: Stage, tmp_path: Path) -> Iterator[StorageDaemon]:
    daemon = StorageDaemon(stage.lab, tmp_path)
    yield daemon
    stage.ssh("umount /srv/data 2>/dev/null; sed -i '/^UUID/d' /etc/fstab; rm -rf /srv")
    stage.host.driver.detach_volume(stage.spec, daemon.disk(), force=True)
    daemon.stop()


def answering(stage: Stage, disk: GuestDisk) -> InspectedDisk:
    """Return the state of a disk as soon as the hypervisor has heard that the guest agent answers."""

    def found() -> InspectedDisk | None:
        try:
            return stage.inspect(disk)
        except UnsupportedError:
            return None

    until(found, "the guest agent")
    return stage.inspect(disk)


@pytest.mark.parametrize("device", ["vdb", pytest.param("sda", marks=pytest.mark.deep)])
def test_a_volume_is_formatted_mounted_and_extended(stage: Stage, volume: StorageDaemon, device: str) -> None:
    bus = "scsi" if device == "sda" else "virtio"
    disk = volume.disk(device, bus=bus)
    stage.attach(disk)
    assert answering(stage, disk) == InspectedDisk(f"/dev/{device}", "empty")
    for _ in range(2):
        stage.mount(disk, "/srv/data")
    assert stage.inspect(disk) == InspectedDisk(f"/dev/{device}", "filesystem", "ext4", "/srv/data")
    stage.ssh("echo kept >/srv/data/words; sync")
    small = stage.mebibytes("/srv/data")
    volume.grow(2)
    volume.export("e2")
    grown = volume.disk(device, bus=bus)
    stage.host.driver.refresh_volume(replace(stage.spec, volumes=[grown]), grown)
    for _ in range(2):
        stage.extend(grown)
    assert stage.mebibytes("/srv/data") > 1.9 * small
    stage.ssh("umount /srv/data; mount -a")
    assert stage.ssh("cat /srv/data/words").strip() == "kept"
    assert stage.ssh("grep -c /srv/data /etc/fstab").strip() == "1"


@pytest.mark.deep
def test_a_disk_with_data_is_not_changed(stage: Stage, volume: StorageDaemon) -> None:
    disk = volume.disk()
    stage.attach(disk)
    assert answering(stage, disk).content == "empty"
    stage.ssh("echo precious | dd of=/dev/vdb bs=512 seek=100 conv=notrunc 2>/dev/null; sync")
    assert stage.inspect(disk).content == "other"
    with pytest.raises(GuestDiskError, match="not a file system"):
        stage.mount(disk, "/srv/data")
    assert stage.ssh("dd if=/dev/vdb bs=512 skip=100 count=1 2>/dev/null | head -c 8") == "precious"
    with pytest.raises(GuestDiskError):
        stage.extend(disk)
