"""Commands for the disks of a guest, run by a shell with programs that note how they are called."""

from __future__ import annotations

import subprocess
import uuid
from pathlib import Path

import pytest

from portal.dashboard.instances.dialogs.guest_disks import guide_for
from tests.support.tables import each_row

VOLUME = str(uuid.UUID("5f1c3c5e-0000-4000-8000-00000000beef"))
SERIAL = "5f1c3c5e-0000-4000-8"
DISK = f"/dev/disk/by-id/virtio-{SERIAL}"
PROGRAMS = {
    "sudo": '"$@"',
    "blkid": 'case "$1" in -p) exit $PROBED ;; *) echo 1234-ABCD ;; esac',
    "mkfs.ext4": 'echo "mkfs $*" >> "$CALLS"',
    "mkdir": 'echo "mkdir $*" >> "$CALLS"',
    "tee": 'echo "tee $* $(cat)" >> "$CALLS"',
    "mount": 'echo "mount $*" >> "$CALLS"',
}


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    for name, body in PROGRAMS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    return tmp_path


def calls(programs: Path, commands: str, probed: int) -> list[str]:
    """Run the commands where ``blkid -p`` exits with this code, and return the calls."""
    noted = programs / "calls"
    noted.write_text("")
    variables = {"PATH": f"{programs}:/usr/bin:/bin", "CALLS": str(noted), "PROBED": str(probed)}
    subprocess.run(["/bin/sh", "-c", commands], env=variables, check=False, capture_output=True, timeout=60)
    return noted.read_text().splitlines()


MOUNTED = [
    "mkdir -p /mnt/data",
    "tee -a /etc/fstab UUID=1234-ABCD /mnt/data auto defaults,nofail 0 2",
    "mount /mnt/data",
]


def test_an_empty_disk_is_formatted_and_mounted(programs: Path) -> None:
    guide = guide_for(VOLUME, "data", "virtio", is_root=False)
    assert calls(programs, guide.mount, probed=2) == [f"mkfs {DISK}", *MOUNTED]


@pytest.mark.parametrize("probed", [0, 8, 127])
def test_a_disk_with_a_file_system_keeps_it(programs: Path, probed: int) -> None:
    """0: it has one; 8: signatures that contradict each other; 127: there is no such program."""
    guide = guide_for(VOLUME, "data", "virtio", is_root=False)
    assert calls(programs, guide.mount, probed) == MOUNTED


@each_row(
    "name, folder",
    [
        ("My Data", "/mnt/my-data"),
        ("$(reboot); `x` \"'\n& rm -rf /", "/mnt/reboot-x-rm-rf"),
        ("../../etc", "/mnt/etc"),
        ("数据‮", f"/mnt/{VOLUME[:8]}"),
        ("", f"/mnt/{VOLUME[:8]}"),
        ("a" * 255, f"/mnt/{'a' * 32}"),
    ],
)
def test_no_name_of_a_volume_reaches_the_shell(name: str, folder: str) -> None:
    guide = guide_for(VOLUME, name, "virtio", is_root=False)
    assert guide.mount.splitlines()[-1] == f"sudo mount {folder}"


@each_row(
    "bus, disk",
    [
        ("virtio", DISK),
        ("scsi", f"/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_{SERIAL}"),
        ("sata", f"/dev/disk/by-id/ata-QEMU_HARDDISK_{SERIAL}"),
        ("usb", "lsblk"),
    ],
)
def test_the_disk_is_found_by_its_serial_number(bus: str, disk: str) -> None:
    guide = guide_for(VOLUME, "data", bus, is_root=False)
    assert disk in guide.mount
    assert SERIAL in guide.extend


def test_the_disk_of_the_system_is_extended_only() -> None:
    guide = guide_for(VOLUME, "root", "virtio", is_root=True)
    assert not guide.mount
    assert "growpart" in guide.extend


def test_a_directory_of_the_user_data_replaces_the_one_of_the_name(programs: Path) -> None:
    guide = guide_for(VOLUME, "data", "virtio", is_root=False, directory="/srv/db")
    assert "mount /srv/db" in calls(programs, guide.mount, probed=0)
    assert "xfs_growfs /srv/db" in guide.extend
