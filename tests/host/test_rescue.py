"""Real guests that are rescued, rebuilt, and booted by a kernel that the host hands over."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import ImageRef, InstanceSpec, RescueImage
from compute_agent.contract.power import PowerState
from compute_agent.virt.driver import BootFiles
from tests.host.cast import EGRESS, OURS, SSH, Wish
from tests.host.disks import file_on
from tests.host.host_process import HostProcess
from tests.host.lab import PATIENCE, Lab, processes_naming, until
from tests.host.woken import wake
from tests.support.guest_image import GuestImage

LINE = "root=/dev/vda2 console=ttyS0 handed=over"
BOOT_PARTITION = 1 << 20
"""Bytes before it (see tools/guest_image)."""


@dataclass(frozen=True)
class Kernel:
    """What the guest image boots, taken out of it: two images, and the image that names them."""

    kernel: ImageRef
    ramdisk: ImageRef
    image: ImageRef
    files: dict[str, Path]


def take_out(image: GuestImage, folder: Path) -> Kernel:
    """Copy kernel and ramdisk out of the image's FAT partition."""
    raw = folder / "disk.raw"
    subprocess.run(["qemu-img", "convert", "-O", "raw", image.path, raw], check=True)
    names = {"vmlinuz": "aki", "initrd.gz": "ari"}
    subprocess.run(["mcopy", "-i", f"{raw}@@{BOOT_PARTITION}", *(f"::/{name}" for name in names), folder], check=True)
    raw.unlink()
    refs = [_ref(folder / name, number, kind) for number, (name, kind) in enumerate(names.items())]
    files = {ref.id: folder / ref.name for ref in refs}
    named = replace(image.ref, id="9c000000-0000-4000-8000-0000000000aa", properties={"os_command_line": LINE})
    return Kernel(*refs, named, files)


def _ref(path: Path, number: int, kind: str) -> ImageRef:
    bits = path.read_bytes()
    return ImageRef(
        id=f"9c000000-0000-4000-8000-0000000001{number:02}",
        name=path.name,
        disk_format=kind,
        size=len(bits),
        hash_algo="sha512",
        hash_value=hashlib.sha512(bits).hexdigest(),
    )


@dataclass
class Stage:
    """One host, one guest on it, and the key that opens the guest."""

    lab: Lab
    host: HostProcess
    kernel: Kernel
    spec: InstanceSpec
    key: Path

    def bits(self, spec: InstanceSpec) -> tuple[Path, BootFiles]:
        """Fetch an image with the kernel and the ramdisk that it names."""
        paths = [
            self.host.images.get(ref, spec.uuid).path if ref else None
            for ref in (spec.image, spec.kernel, spec.ramdisk)
        ]
        return paths[0], BootFiles(paths[1], paths[2])

    def make(self, spec: InstanceSpec) -> None:
        """What a build and a rebuild do."""
        disk, files = self.bits(spec)
        driver = self.host.driver
        self.host.tell(spec)
        self.host.network.plug(spec)
        driver.create_disk(spec, disk)
        driver.create_boot_files(spec, files)
        driver.create_seed(spec)
        driver.define(spec, 1)
        self.host.network.apply_firewall(spec)
        self.start()

    def rescue(self, rescue: RescueImage) -> None:
        disk, files = self.bits(replace(self.spec, image=rescue.image, kernel=rescue.kernel, ramdisk=rescue.ramdisk))
        self.host.driver.stop(self.spec.uuid, 0.0)
        self.host.driver.rescue(replace(self.spec, rescue=rescue), 1, disk, files)
        self.start()

    def leave_rescue(self) -> None:
        self.host.driver.stop(self.spec.uuid, 0.0)
        self.host.driver.unrescue(self.spec, 1)

    def unrescue(self) -> None:
        self.leave_rescue()
        self.start()

    def start(self) -> None:
        """Start the guest and wait until it prints another login prompt than before."""
        before = self.console().count("login:")
        self.lab.hang_up()
        self.host.driver.start(self.spec.uuid)
        assert self.host.driver.wait_for_boot(self.spec.uuid, PATIENCE) == PowerState.RUNNING
        until(lambda: self.console().count("login:") > before, "the guest's login prompt")

    def console(self) -> str:
        try:
            return self.host.driver.console_output(self.spec.uuid, 0, 1_000_000).data.decode(errors="replace")
        except OSError:
            return ""

    def ssh(self, command: str) -> str:
        """Run a command in the guest, from where its network is served."""
        return self.lab.ssh(self.key, self.spec, command).strip()


@pytest.fixture
def stage(lab: Lab, image: GuestImage, key: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    kernel = take_out(image, tmp_path_factory.mktemp("kernel"))
    host = HostProcess(lab.settings, lab.machine.path, image.path, kernel.files)
    host.network.init_host()
    host.driver.init_host()
    public = key.with_suffix(".pub").read_text()
    spec = Wish(1, rules=(EGRESS, SSH), groups=(OURS,), image=image.ref, public_key=public).spec()
    stage = Stage(lab, host, kernel, spec, key)
    yield stage
    lab.hang_up()
    host.driver.destroy(spec.uuid)
    host.network.unplug(spec.uuid)
    host.kill()
    assert processes_naming(spec.uuid) == []


def folder_of(stage: Stage) -> set[str]:
    folder = stage.lab.settings.state_dir / "instances" / stage.spec.uuid
    return {path.name for path in folder.iterdir() if not path.is_socket()} - {"console.log", "sockets"}


@pytest.mark.deep
def test_a_rescued_guest_finds_its_own_disk_behind_the_other(stage: Stage) -> None:
    wake(stage.host, stage.spec)
    stage.ssh("echo precious >/root/mark; sync")
    stage.rescue(RescueImage(image=stage.spec.image))
    assert folder_of(stage) == {"disk.qcow2", "seed.iso", "rescue.qcow2", "rescue.iso"}
    assert stage.ssh("ls /root") == ""
    assert stage.ssh("mount -t ext4 /dev/vdb2 /mnt && cat /mnt/root/mark") == "precious"
    stage.ssh("echo repaired >/mnt/root/mark; umount /mnt; echo lost >/root/gone; sync")
    # The agent may die: the guest stays rescued.
    stage.host.kill()
    stage.host.start()
    stage.host.network.init_host()
    stage.host.driver.init_host()
    stage.host.network.restore([stage.spec])
    assert stage.ssh("cat /root/gone") == "lost"
    stage.leave_rescue()
    assert folder_of(stage) == {"disk.qcow2", "seed.iso"}
    disk = stage.lab.settings.state_dir / "instances" / stage.spec.uuid / "disk.qcow2"
    assert file_on(disk, "/root/mark") == "repaired\n"


@pytest.mark.deep
def test_a_guest_that_was_rescued_boots_from_its_own_disk(stage: Stage) -> None:
    wake(stage.host, stage.spec)
    stage.ssh("echo precious >/root/mark; sync")
    stage.rescue(RescueImage(image=stage.spec.image))
    stage.ssh("echo lost >/root/gone; sync")
    stage.unrescue()
    assert stage.ssh("cat /root/mark; ls /dev/vdb*; ls /root").splitlines() == ["precious", "mark"]


@pytest.mark.deep
def test_a_rebuild_loses_what_the_disks_held_and_keeps_the_address(stage: Stage) -> None:
    kernel = stage.kernel
    wake(stage.host, stage.spec)
    stage.ssh("echo precious >/root/mark; sync")
    # A rescue image is booted by its own kernel; a rebuild leaves nothing of the rescue.
    stage.rescue(RescueImage(image=kernel.image, kernel=kernel.kernel, ramdisk=kernel.ramdisk))
    assert stage.ssh("cat /proc/cmdline") == LINE
    assert {"rescue.kernel", "rescue.ramdisk"} <= folder_of(stage)
    spec = replace(stage.spec, hostname="made-anew")
    stage.make(spec)
    output = stage.ssh("hostname; ls /root; cat /sys/class/net/eth0/address")
    assert output.splitlines() == ["made-anew", spec.ports[0].mac_address]
    assert folder_of(stage) == {"disk.qcow2", "seed.iso"}


@pytest.mark.deep
def test_a_stable_rescue_boots_from_the_last_disk_and_leaves_the_others_their_names(stage: Stage) -> None:
    kernel, line = stage.kernel, LINE.replace("vda", "vdb")
    wake(stage.host, stage.spec)
    stage.ssh("echo precious >/root/mark; sync")
    image = replace(kernel.image, properties={"os_command_line": line, "hw_rescue_bus": "virtio"})
    stage.rescue(RescueImage(image=image, kernel=kernel.kernel, ramdisk=kernel.ramdisk))
    assert stage.ssh("cat /proc/cmdline; ls /root") == line
    assert stage.ssh("mount -t ext4 /dev/vda2 /mnt && cat /mnt/root/mark") == "precious"
    stage.ssh("umount /mnt")
    stage.unrescue()
    assert stage.ssh("cat /root/mark; test -e /dev/vdb || echo alone").split() == ["precious", "alone"]


@pytest.mark.deep
def test_a_guest_boots_the_kernel_that_its_image_names(stage: Stage) -> None:
    kernel = stage.kernel
    spec = stage.spec = replace(stage.spec, image=kernel.image, kernel=kernel.kernel, ramdisk=kernel.ramdisk)
    stage.make(spec)
    assert stage.ssh("cat /proc/cmdline") == LINE
    # What the cache drops, the guest still has.
    assert set(stage.host.images.prune(0.0)) >= {kernel.kernel.id, kernel.ramdisk.id}
    # A rescue image without a kernel boots by itself, and the guest's own kernel comes back.
    stage.rescue(RescueImage(image=replace(kernel.image, properties={})))
    assert "handed=over" not in stage.ssh("cat /proc/cmdline")
    stage.unrescue()
    assert stage.ssh("cat /proc/cmdline") == LINE
