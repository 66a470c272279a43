"""File systems as libvirt passes them on from a guest, which may report anything."""

from __future__ import annotations

from compute_agent.contract.calls import MOST_FILE_SYSTEMS, FileSystem
from compute_agent.virt.libvirt.power import LONGEST_PATH, file_systems_of

REPORTED = {
    "fs.count": 3,
    "fs.0.name": "vda1",
    "fs.0.mountpoint": "/",
    "fs.0.fstype": "ext4",
    "fs.0.total-bytes": 1000,
    "fs.0.used-bytes": 250,
    "fs.0.disk.count": 1,
    "fs.0.disk.0.alias": "vda",
    "fs.0.disk.0.device": "/dev/vda1",
    "fs.1.mountpoint": "/mnt/striped",
    "fs.1.fstype": "xfs",
    "fs.1.disk.count": 2,
    "fs.1.disk.0.alias": "vdb",
    "fs.1.disk.1.alias": "vdc",
    "fs.2.fstype": "swap",
}


def test_each_file_system_has_its_disks_and_what_is_used() -> None:
    assert file_systems_of(REPORTED) == [
        FileSystem(mount_point="/", kind="ext4", total_bytes=1000, used_bytes=250, disks=["vda"]),
        FileSystem(mount_point="/mnt/striped", kind="xfs", disks=["vdb", "vdc"]),
    ]


def test_what_a_guest_reports_is_bounded() -> None:
    info: dict[str, object] = {"fs.count": 1 << 31, "fs.0.total-bytes": -1, "fs.0.used-bytes": 1 << 64}
    for number in range(MOST_FILE_SYSTEMS + 5):
        info[f"fs.{number}.mountpoint"] = "/" + "x" * 5000
        info[f"fs.{number}.disk.count"] = 1 << 31
        info[f"fs.{number}.disk.0.alias"] = "vda"
    result = file_systems_of(info)
    assert len(result) == MOST_FILE_SYSTEMS
    assert {len(each.mount_point) for each in result} == {LONGEST_PATH}
    assert (result[0].total_bytes, result[0].used_bytes, result[0].disks) == (None, None, ["vda"])
    assert file_systems_of({}) == []


def test_more_used_than_there_is_counts_as_unknown() -> None:
    (result,) = file_systems_of({"fs.count": 1, "fs.0.mountpoint": "/", "fs.0.total-bytes": 10, "fs.0.used-bytes": 11})
    assert result.used_bytes is None
