"""Volumes of real guests, by the unmodified client and by openstacksdk, as the user guide tells it."""

from __future__ import annotations

import os
import re
import shlex
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import Key
from tests.support.one_machine import CHECKOUT, PATIENCE, OneMachine, wait_for
from tests.support.terminal import Terminal, sitting_down
from up.processes import command_line

pytestmark = [
    pytest.mark.deep,
    pytest.mark.compat,
    pytest.mark.libvirt,
    pytest.mark.timeout(1200),  # several guests boot one after the other
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning",
        "ignore::openstack.warnings.OpenStackDeprecationWarning",
        "ignore::PendingDeprecationWarning",
    ),
]
WRITER = "(for i in $(seq 30); do echo $i >>/mnt/log; sync; sleep 0.2; done) >/dev/null 2>&1 &"


@pytest.fixture
def user(cloud: OneMachine, key: Key) -> Iterator[Terminal]:
    yield from sitting_down(cloud, key.private, key.public)


def guide() -> list[str]:
    """The commands of the user guide's sections on volumes and backups."""
    text = (CHECKOUT / "docs/user-guide.md").read_text()
    result = [
        re.search(rf"^## {title}\n.*?^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        for title in ("Volumes", "Backups of volumes")
    ]
    return [shlex.join(shlex.split(line, comments=True)) for each in result if each for line in each[1].splitlines()]


def daemon_of(volume_id: str) -> int | None:
    """The process that has a volume open."""
    numbers = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
    return next(
        (n for n in numbers if (arguments := command_line(n)).startswith("qemu-st") and volume_id in arguments), None
    )


def kill(pid: int | None) -> None:
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


class Story:
    """What happens in the guests ``first`` and ``second`` between the commands of the guide."""

    def __init__(self, user: Terminal) -> None:
        self.user = user
        self.after: dict[str, Callable[[], None]] = {
            "server add volume first data": self.first_writes,
            "volume snapshot create --force --volume data frozen": self.more_is_written,
            "volume set --size 2 data": self.grown_and_killed,
            "volume backup create --name monday data": self.second_reads_and_writes,
            "volume backup create --name tuesday --incremental data": self.incremental,
            "volume backup restore tuesday restored": self.another_volume,
        }

    def run(self, lines: list[str]) -> None:
        for line in lines:
            self.user.openstack(*shlex.split(line)[1:])
            self.user.settled()
            self.after.pop(line.removeprefix("openstack "), lambda: None)()
        assert not self.after

    def kill_agent(self) -> None:
        kill(self.user.cloud.runs[-1].service("compute_agent"))

    def first_writes(self) -> None:
        ident = self.user.status("volume", "data", "in-use").id
        made = "busybox mke2fs /dev/vdb >/dev/null && mount /dev/vdb /mnt && echo one >/mnt/words && sync"
        assert self.user.guest("first", f"{made} && cat /sys/block/vdb/serial").strip() == ident[:20]
        assert "detach it first" in self.user.refused("volume", "delete", "data")
        assert "is in-use" in self.user.refused("server", "add", "volume", "second", "data")

    def more_is_written(self) -> None:
        self.user.guest("first", "echo two >>/mnt/words && sync")

    def grown_and_killed(self) -> None:
        """The size is there at once; killing agent and storage daemon while the guest writes loses nothing."""
        assert self.user.guest("first", "cat /sys/block/vdb/size").strip() == str(2 << 21)
        self.user.guest("first", WRITER)
        self.kill_agent()
        kill(daemon_of(self.user.status("volume", "data", "in-use").id))
        wrote = "grep -qx 30 /mnt/log && cat /mnt/log || true"
        output = wait_for("the guest has gone on", lambda: self.user.guest("first", wrote))
        assert output.split() == [str(number) for number in range(1, 31)]
        self.user.guest("first", "umount /mnt")

    def second_reads_and_writes(self) -> None:
        """The agent is killed while it attaches."""
        self.user.openstack("server", "add", "volume", "second", "data")
        self.kill_agent()
        self.user.settled()
        look = "mount /dev/vdb /mnt && tail -n 1 /mnt/log && cat /mnt/words && echo three >>/mnt/words && umount /mnt"
        assert self.user.guest("second", look).split() == ["30", "one", "two"]
        self.user.detach("second", "data")

    def incremental(self) -> None:
        assert self.user.status("volume backup", "tuesday", "available").is_incremental
        self.user.attach("second", "data")

    def another_volume(self) -> None:
        self.user.volume("other", "--size", "3")


def words_of(user: Terminal, device: str) -> list[str]:
    return user.guest("second", f"mount -r /dev/{device} /mnt && cat /mnt/words; umount /mnt").split()


def test_the_user_guide(user: Terminal) -> None:
    """Its commands in their order: written, frozen, grown, killed under a writer, read elsewhere, copied."""
    user.launch("first")
    user.launch("second")
    Story(user).run(guide())
    whole = ["one", "two", "three"]
    has = {"data": whole, "restored": whole, "other": whole, "thawed": ["one"]}
    devices = dict(zip(has, ("vdb", "vdc", "vdd", "vde"), strict=True))
    for name in [*has][1:]:
        user.attach("second", name)
    assert {name: words_of(user, devices[name]) for name in has} == has
    user.openstack("volume", "snapshot", "create", "--force", "--volume", "thawed", "before")
    user.settled()
    user.guest("second", "mount /dev/vde /mnt && echo wrong >/mnt/words && umount /mnt")
    user.detach("second", "thawed")
    user.openstack("volume", "revert", "before")
    user.settled()
    user.attach("second", "thawed")
    assert words_of(user, "vde") == ["one"]
    assert user.json("server", "show", "boots")["image"] == "N/A (booted from volume)"


def test_a_server_lives_on_a_volume(user: Terminal) -> None:
    """Through hard reboot, rescue and the shelf; the volume outlives it, and copies of it boot others."""
    user.launch("boots", "--boot-from-volume", "1")
    [root] = user.all_of("volume")
    user.attach("boots", user.volume("data"))
    user.guest("boots", "echo kept >/root/kept; busybox mke2fs /dev/vdb >/dev/null; sync")
    rebooted_rescued_and_shelved(user)
    user.openstack("server", "delete", "--wait", "boots")
    user.status("volume", root, "available")
    user.launch("again", "--volume", root)
    assert user.guest("again", "cat /root/kept; echo again >>/root/kept; sync") == "kept\n"
    copies_boot(user, root)
    user.openstack("server", "delete", "--wait", "again")
    user.status("volume", root, "available")
    user.openstack("image", "create", "--volume", root, "--disk-format", "qcow2", "uploaded")
    user.settled()
    user.launch("uploaded", "--image", "uploaded")
    assert user.guest("uploaded", "cat /root/kept").split() == ["kept", "again"]
    user.openstack("image", "delete", "uploaded")


def rebooted_rescued_and_shelved(user: Terminal) -> None:
    user.openstack("server", "reboot", "--hard", "--wait", "boots")
    assert user.guest("boots", "cat /root/kept") == "kept\n"
    user.openstack("server", "rescue", "--image", "novella-guest", "boots")
    user.status("server", "boots", "RESCUE")
    look = "ls /root/kept 2>/dev/null; mount /dev/vdc2 /mnt && cat /mnt/root/kept; umount /mnt; mount /dev/vdb /mnt"
    assert user.guest("boots", f"{look} && ls /mnt") == "kept\nlost+found\n"
    user.openstack("server", "unrescue", "boots")
    user.status("server", "boots", "ACTIVE")
    user.openstack("server", "image", "create", "--name", "of-boots", "--wait", "boots")
    user.openstack("server", "shelve", "boots")
    user.status("server", "boots", "SHELVED_OFFLOADED")
    user.openstack("server", "unshelve", "boots")
    user.status("server", "boots", "ACTIVE")
    assert user.guest("boots", "cat /root/kept") == "kept\n"


def copies_boot(user: Terminal, root: str) -> None:
    """A snapshot of the root disk, whose volume goes with its server, and the image of before, whose volumes stay."""
    point = user.json("volume", "snapshot", "create", "--force", "--volume", root, "point")["id"]
    user.settled()
    before = user.all_of("volume")
    disk = f"uuid={point},source_type=snapshot,destination_type=volume,boot_index=0,volume_size=2"
    user.launch("of-point", "--block-device", f"{disk},delete_on_termination=true")
    user.launch("of-image", "--image", "of-boots")
    assert len(user.all_of("volume")) == len(before) + 3
    assert user.guest("of-point", "cat /root/kept").split() == ["kept", "again"]
    assert user.guest("of-image", "cat /root/kept") == "kept\n"
    user.openstack("server", "delete", "--wait", "of-point", "of-image")
    wait_for("the volume of the snapshot has gone", lambda: len(user.all_of("volume")) == len(before) + 2)
    user.openstack("image", "delete", "of-boots")


def test_the_sdk(user: Terminal) -> None:
    storage, compute = user.sdk.block_storage, user.sdk.compute
    server = user.launch("by-sdk")
    volume = storage.create_volume(size=1, name="by-sdk", metadata={"for": "sdk"})
    storage.wait_for_status(volume, "available", ["error"], interval=1, wait=PATIENCE)
    compute.create_volume_attachment(server, volume_id=volume.id)
    storage.wait_for_status(volume, "in-use", ["error"], interval=1, wait=PATIENCE)
    [attached] = compute.volume_attachments(server)
    assert (attached.volume_id, attached.device) == (volume.id, "/dev/vdb")
    snapshot = storage.create_snapshot(volume_id=volume.id, name="by-sdk", is_forced=True)
    storage.wait_for_status(snapshot, "available", ["error"], interval=1, wait=PATIENCE)
    storage.extend_volume(volume, 2)
    wait_for("the size", lambda: storage.get_volume(volume.id).size == 2)
    storage.wait_for_status(volume, "in-use", ["error"], interval=1, wait=PATIENCE)
    wait_for("the guest to see it", lambda: user.guest("by-sdk", "cat /sys/block/vdb/size").strip() == str(2 << 21))
    compute.delete_volume_attachment(server, volume.id)
    storage.wait_for_status(volume, "available", ["error"], interval=1, wait=PATIENCE)
    assert [result.name for result in storage.snapshots(volume_id=volume.id)] == ["by-sdk"]
