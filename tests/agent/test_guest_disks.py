"""Disks in a guest: the guest's program, run by a shell with programs that note how they are called; its output; the
commands and calls; and the guest agent's answers.
"""

from __future__ import annotations

import base64
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from compute_agent.contract.calls import CallError
from compute_agent.contract.guest_disks import (
    ExtendFileSystemRequest,
    InspectDiskCall,
    InspectedDisk,
    MountDiskRequest,
)
from compute_agent.engine.threads import Threads
from compute_agent.network.fake import FakeNetwork
from compute_agent.servers.calls import CallHandler
from compute_agent.servers.services import HostServices
from compute_agent.virt import guest_disks
from compute_agent.virt.errors import GuestDiskError, GuestProgramsDisabledError
from compute_agent.virt.fake.driver import FakeDriver
from compute_agent.virt.fake.images import FakeImageCache
from compute_agent.virt.libvirt import guest_programs
from tests.agent.cast import build, make_command, make_spec, make_stage, on_stage, power
from tests.agent.driver_contract import VOLUME

SERIAL = VOLUME.id
SHOWN = SERIAL[: guest_disks.SHOWN_SERIAL]
PROGRAMS = {
    "blkid": """case "$*" in
        *-s*UUID*) [ -e "$ROOT/formatted" ] && echo 1234-ABCD; exit 0 ;;
        *) [ -e "$ROOT/formatted" ] || exit "$PROBED"; printf 'USAGE=%s\\nTYPE=%s\\n' $USAGE $KIND ;;
    esac""",
    "mkfs.ext4": 'echo "mkfs $*" >> "$CALLS"; touch "$ROOT/formatted"',
    "mount": 'echo "mount $*" >> "$CALLS"; echo "$1 ${2#$ROOT} ext4 rw 0 0" >> "$ROOT/proc/mounts"',
    "resize2fs": 'echo "resize2fs $*" >> "$CALLS"',
    "xfs_growfs": 'echo "xfs_growfs $*" >> "$CALLS"',
    "systemctl": "",
}


@dataclass
class Guest:
    """A guest's file system below a folder, with one disk."""

    root: Path
    kind: str = "ext4"
    usage: str = "filesystem"
    probed: int = 2

    def run(self, verb: str, directory: str = "", serial: str = SERIAL) -> subprocess.CompletedProcess[str]:
        variables = {
            "PATH": f"{self.root}/bin:/usr/bin:/bin",
            "ROOT": str(self.root),
            "CALLS": str(self.root / "calls"),
            "PROBED": str(self.probed),
            "KIND": self.kind,
            "USAGE": self.usage,
        }
        given = guest_disks.arguments(verb, serial, directory)
        words = ["/bin/sh", "-c", guest_disks.PROGRAM, "novella", str(self.root), *given[1:]]
        return subprocess.run(words, env=variables, check=False, capture_output=True, text=True, timeout=120)

    def calls(self) -> list[str]:
        """Return the calls of programs that change something, without the guest's folder."""
        noted = self.root / "calls"
        return noted.read_text().replace(str(self.root), "").splitlines() if noted.exists() else []

    def fstab(self) -> str:
        return (self.root / "etc/fstab").read_text()

    @property
    def disk(self) -> Path:
        return self.root / "dev/vdb"


@pytest.fixture
def guest(tmp_path: Path) -> Guest:
    for folder in ("bin", "dev", "etc", "proc", "run", "sys/block/vdb/holders"):
        (tmp_path / folder).mkdir(parents=True)
    for name, body in PROGRAMS.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "sys/block/vdb/serial").write_text(SHOWN)
    (tmp_path / "dev/vdb").write_bytes(b"\0" * 4096)
    (tmp_path / "etc/fstab").write_text("UUID=root / ext4 defaults 0 1")
    (tmp_path / "proc/mounts").write_text("/dev/vda1 / ext4 rw 0 0\n")
    return Guest(tmp_path)


ADDED = "UUID=root / ext4 defaults 0 1\nUUID=1234-ABCD /srv/data auto defaults,nofail 0 2\n"


def test_an_empty_disk_is_formatted_mounted_and_kept_for_the_next_start(guest: Guest) -> None:
    for _ in range(2):  # a command that is repeated changes nothing more
        done = guest.run("mount", "/srv/data")
        assert (done.returncode, done.stderr) == (0, "")
    assert guest.calls() == ["mkfs -q -E nodiscard /dev/vdb", "mount /dev/vdb /srv/data"]
    assert guest.fstab() == ADDED
    assert (guest.root / "srv/data").is_dir()


def test_a_guest_without_fstab_gets_one(guest: Guest) -> None:
    (guest.root / "etc/fstab").unlink()
    assert guest.run("mount", "/srv/data").returncode == 0
    assert guest.fstab() == ADDED.partition("\n")[2]


def test_a_file_system_is_mounted_and_never_formatted(guest: Guest) -> None:
    (guest.root / "formatted").touch()
    assert guest.run("mount", "/srv/data").returncode == 0
    assert guest.calls() == ["mount /dev/vdb /srv/data"]


@pytest.mark.parametrize("found", ["LVM", "data", "partition", "holder", "contradiction", "no blkid"])
def test_a_disk_with_anything_on_it_is_never_changed(guest: Guest, found: str) -> None:
    if found == "LVM":
        (guest.root / "formatted").touch()
        guest.kind, guest.usage = "LVM2_member", "raid"
    if found == "data":
        guest.disk.write_bytes(b"\0" * 4000 + b"x")
    if found == "partition":
        (guest.root / "sys/block/vdb/vdb1").mkdir()
    if found == "holder":
        (guest.root / "sys/block/vdb/holders/dm-0").mkdir()
    guest.probed = {"contradiction": 8, "no blkid": 127}.get(found, guest.probed)
    done = guest.run("mount", "/srv/data")
    assert done.returncode in {21, 24}
    assert guest_disks.failure(done.returncode, done.stderr).message
    assert guest.calls() == []
    assert "1234" not in guest.fstab()


@pytest.mark.parametrize("in_use", ["files", "mount", "fstab", "elsewhere", "planned elsewhere"])
def test_a_directory_or_disk_in_use_is_refused(guest: Guest, in_use: str) -> None:
    if in_use == "files":
        (guest.root / "srv/data").mkdir(parents=True)
        (guest.root / "srv/data/file").touch()
    mounts, fstab = guest.root / "proc/mounts", guest.root / "etc/fstab"
    if in_use == "mount":
        mounts.write_text("/dev/vdc /srv/data ext4 rw 0 0\n")
    if in_use == "fstab":
        fstab.write_text("UUID=other /srv/data ext4 defaults 0 2\n")
    if in_use == "elsewhere":
        (guest.root / "formatted").touch()
        mounts.write_text(f"{guest.disk} /mnt/old ext4 rw 0 0\n")
    if in_use == "planned elsewhere":
        (guest.root / "formatted").touch()
        fstab.write_text("UUID=1234-ABCD /mnt/old ext4 defaults 0 2\n")
    before = guest.fstab()
    assert guest.run("mount", "/srv/data").returncode == 22
    assert (guest.calls(), guest.fstab()) == ([], before)


def test_a_mount_that_fails_leaves_no_entry(guest: Guest) -> None:
    (guest.root / "bin/mount").write_text("#!/bin/sh\necho wrong fs type >&2; exit 32\n")
    done = guest.run("mount", "/srv/data")
    assert (done.returncode, guest_disks.failure(1, done.stderr).message.endswith("wrong fs type")) == (1, True)
    assert guest.fstab() == "UUID=root / ext4 defaults 0 1"


@pytest.mark.parametrize(
    ("kind", "call"), [("ext4", "resize2fs /dev/vdb"), ("xfs", "xfs_growfs /srv/data"), ("ntfs", "")]
)
def test_a_mounted_file_system_is_extended(guest: Guest, kind: str, call: str) -> None:
    (guest.root / "formatted").touch()
    guest.kind = kind
    assert guest.run("extend").returncode == 22, "it is not mounted"
    (guest.root / "proc/mounts").write_text(f"{guest.disk} /srv/data {kind} rw 0 0\n")
    assert guest.run("extend").returncode == (0 if call else 23)
    assert guest.calls() == ([call] if call else [])


def test_it_says_what_a_disk_has(guest: Guest) -> None:
    def found(serial: str = SERIAL) -> InspectedDisk:
        return guest_disks.inspected(guest.run("inspect", serial=serial).stdout)

    assert found() == InspectedDisk(str(guest.disk), "empty")
    (guest.root / "formatted").touch()
    (guest.root / "proc/mounts").write_text(f"{guest.disk} /srv/data ext4 rw 0 0\n")
    assert found() == InspectedDisk(str(guest.disk), "filesystem", "ext4", "/srv/data")
    assert guest.run("inspect", serial="ffffffff-0000-4000-8").returncode == 20
    (guest.root / "sys/block/vdb/serial").unlink()
    (guest.root / "dev/disk/by-id").mkdir(parents=True)
    (guest.root / f"dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_{SERIAL}").symlink_to(guest.disk)
    assert found().device == str(guest.disk)
    (guest.root / f"dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_{SERIAL}").unlink()
    (guest.root / "sys/block/vdb/device").mkdir()
    (guest.root / "sys/block/vdb/device/vpd_pg80").write_bytes(b"\0\x80\0\x24" + SERIAL.encode())
    assert found().device == str(guest.disk), "a SCSI disk without udev"
    assert guest.calls() == []


@pytest.mark.parametrize(
    ("serial", "directory"),
    [("x;id", "/srv"), ("", "/srv"), ("x", "srv"), ("x", "/a b"), ("x", "/$(id)"), ("x", "/a/../b"), ("x", "/a\n/b")],
)
def test_hostile_arguments_never_reach_a_guest(serial: str, directory: str) -> None:
    with pytest.raises(GuestDiskError):
        guest_disks.arguments("mount", serial, directory)


def test_output_of_a_guest_is_bounded() -> None:
    lie = f"device=/dev/{'x' * 9999}\ncontent=filesystem\nkind={'y' * 99}\nmounted=/\x1b[2J\n"
    result = guest_disks.inspected(lie)
    assert (len(result.device), len(result.kind), result.mount_point) == (255, 32, "/\ufffd[2J")
    for wrong in ("", "content=empty", "device=/dev/vdb\ncontent=strange", "\0"):
        with pytest.raises(GuestDiskError):
            guest_disks.inspected(wrong)
    assert len(guest_disks.failure(1, "x" * 9999).message) <= 300


# ----- the guest agent ------------------------------------------------------------------------------------------------


class Agent:
    """A guest agent that answers as given, by the name of the command."""

    def __init__(self, *, enabled: bool = True, **last: Any) -> None:
        self.asked: list[dict[str, Any]] = []
        self.states = [{"exited": False}, {"exited": False}, {"exited": True, **last}]
        self.enabled = enabled

    def __call__(self, domain: object, words: str, timeout: int, flags: int) -> str:
        self.asked.append(json.loads(words))
        command = self.asked[-1]["execute"]
        known = [{"name": name, "enabled": self.enabled} for name in guest_programs.NEEDED]
        answers = {"guest-info": {"supported_commands": known}, "guest-exec": {"pid": 7}}
        return json.dumps({"return": answers.get(command) or self.states.pop(0)})


def run(agent: Agent, monkeypatch: pytest.MonkeyPatch, timeout: float = 60.0) -> guest_programs.Finished:
    monkeypatch.setattr(guest_programs.libvirt_qemu, "qemuAgentCommand", agent)
    now = [0.0]

    def pause(seconds: float) -> None:
        now[0] += seconds

    return guest_programs.run(object(), "exit $1", ["3"], timeout, clock=lambda: now[0], pause=pause)


def test_a_program_is_run_and_its_end_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = base64.b64encode(b"done\xff").decode()
    agent = Agent(exitcode=3, **{"out-data": encoded})
    assert run(agent, monkeypatch) == guest_programs.Finished(3, "done\ufffd", "")
    begun = next(each["arguments"] for each in agent.asked if each["execute"] == "guest-exec")
    assert (begun["path"], begun["arg"]) == ("/bin/sh", ["-c", "exit $1", "novella", "3"])


def test_a_program_without_an_end_or_without_an_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(GuestDiskError, match="in time"):
        run(Agent(), monkeypatch, timeout=0.1)
    assert run(Agent(signal=9), monkeypatch).status == 1


def test_an_agent_that_runs_no_programs_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent(enabled=False)
    with pytest.raises(GuestProgramsDisabledError, match="guest-exec"):
        run(agent, monkeypatch)
    assert [each["execute"] for each in agent.asked] == ["guest-info"]


# ----- the simulated host ---------------------------------------------------------------------------------------------


async def test_a_simulated_guest_mounts_its_volume(tmp_path: Path) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        spec = make_spec()
        await stage.do(build(spec))
        driver = stage.driver
        assert isinstance(driver, FakeDriver)
        driver.attach_volume(spec, VOLUME)
        threads = Threads(1)
        calls = CallHandler(HostServices(driver, FakeNetwork(), FakeImageCache(), threads))
        requested = InspectDiskCall(instance_id=spec.uuid, serial=SERIAL)
        assert await calls.answer(requested) == InspectedDisk("/dev/vdb", "empty")
        assert (await stage.do(make_command(ExtendFileSystemRequest(SERIAL), spec.uuid))).error_code == "guest_disk"
        for _ in range(2):
            done = await stage.do(make_command(MountDiskRequest(SERIAL, "/srv/data"), spec.uuid))
            assert done.kind == "finished"
        assert await calls.answer(requested) == InspectedDisk("/dev/vdb", "filesystem", "ext4", "/srv/data")
        assert [each.mount_point for each in driver.file_systems(spec.uuid, 1)] == ["/", "/srv/data"]
        assert (await stage.do(make_command(ExtendFileSystemRequest(SERIAL), spec.uuid))).kind == "finished"
        refused = await stage.do(make_command(MountDiskRequest(SERIAL, "/srv/other"), spec.uuid))
        assert (refused.kind, refused.error_code) == ("failed", "guest_disk")
        gone = await calls.answer(InspectDiskCall(instance_id=spec.uuid, serial="f" * 20))
        assert isinstance(gone, CallError)
        assert gone.code == "guest_disk"
        await stage.do(power(spec.uuid, "stop"))
        silent = await calls.answer(requested)
        assert isinstance(silent, CallError)
        assert silent.code == "unsupported"
        threads.close()
