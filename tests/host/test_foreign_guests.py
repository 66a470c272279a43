"""Real guests whose images are of other hypervisors, and one that boots from a CD beside an empty disk."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import ImageRef, InstanceSpec
from compute_agent.contract.power import PowerState
from compute_agent.settings import AgentSettings
from tests.host.cast import Wish
from tests.host.host_process import HostProcess
from tests.host.lab import PATIENCE, Lab, until
from tests.support.guest_image import GuestImage

FOREIGN = {
    "VMDK": ("vmdk", "vmdk", "subformat=monolithicSparse"),
    "stream-optimised VMDK": ("vmdk", "vmdk", "subformat=streamOptimized"),
    "dynamic VHD": ("vhd", "vpc", "subformat=dynamic,force_size=on"),
}
"""Name → Glance's format, QEMU's, its options."""
SECTOR = 512
PRINTING = bytes.fromhex("e80000 5e 83c613 baf803 2eac 84c0 7403 ee ebf7 f4ebfd")
"""What a boot sector does: it writes the text behind it to the serial port, and stops."""


def boot_sector(text: str) -> bytes:
    return (PRINTING + text.encode() + b"\r\n\0").ljust(SECTOR - 2, b"\0") + b"\x55\xaa"


def offered(path: Path, number: int, disk_format: str) -> ImageRef:
    return ImageRef(
        id=f"9c000000-0000-4000-8000-0000000003{number:02}",
        name=path.name,
        disk_format=disk_format,
        size=path.stat().st_size,
        hash_algo="sha512",
        hash_value=hashlib.sha512(path.read_bytes()).hexdigest(),
    )


def cd(folder: Path) -> Path:
    """A CD that boots in a CD-ROM drive and nowhere else."""
    content, target = folder / "content", folder / "installer.iso"
    content.mkdir()
    (content / "boot.bin").write_bytes(boot_sector("this is the CD").ljust(2048, b"\0"))
    words = ("-b", "boot.bin", "-no-emul-boot", "-boot-load-size", "4", "-o", str(target), str(content))
    subprocess.run(["genisoimage", "-quiet", "-V", "installer", *words], check=True)
    assert target.read_bytes()[510:512] != b"\x55\xaa"
    return target


class Guest:
    """One guest of an image, made and started as a build does."""

    def __init__(self, host: HostProcess, settings: AgentSettings, image: ImageRef) -> None:
        self.host, self.driver = host, host.driver
        self.spec: InstanceSpec = replace(Wish(1, image=image).spec(), ports=[])
        self.folder = settings.state_dir / "instances" / self.spec.uuid

    def build(self) -> None:
        base = self.host.images.get(self.spec.image, self.spec.uuid).path
        self.driver.create_disk(self.spec, base)
        self.driver.create_seed(self.spec)
        self.driver.define(self.spec, 1)
        self.start()

    def start(self) -> None:
        self.driver.start(self.spec.uuid)
        assert self.driver.wait_for_boot(self.spec.uuid, PATIENCE) == PowerState.RUNNING

    def says(self, text: str) -> None:
        until(lambda: text in self.console(), f"{text!r} on the guest's console")

    def console(self) -> str:
        try:
            return str(self.driver.console_output(self.spec.uuid, 0, 1_000_000).data.decode(errors="replace"))
        except OSError:
            return ""

    def files(self) -> set[str]:
        return {path.name for path in self.folder.glob("*.qcow2")}


@pytest.fixture
def guest(lab: Lab, image: GuestImage) -> Iterator[Callable[[ImageRef, Path], Guest]]:
    made: list[Guest] = []

    def make(ref: ImageRef, path: Path) -> Guest:
        host = HostProcess(lab.settings, lab.machine.path, image.path, {ref.id: path})
        host.driver.init_host()
        made.append(Guest(host, lab.settings, ref))
        return made[-1]

    yield make
    for each in made:
        each.driver.destroy(each.spec.uuid)
        assert not each.folder.exists()
        each.host.kill()


@pytest.mark.parametrize(
    "name", ["VMDK", *(pytest.param(name, marks=pytest.mark.deep) for name in FOREIGN if name != "VMDK")]
)
def test_a_guest_boots_from_a_foreign_disk(
    guest: Callable[[ImageRef, Path], Guest], image: GuestImage, tmp_path: Path, name: str
) -> None:
    disk_format, driver, options = FOREIGN[name]
    path = tmp_path / f"disk.{disk_format}"
    command = ["qemu-img", "convert", "-f", "qcow2", "-O", driver, "-o", options, str(image.path), str(path)]
    subprocess.run(command, check=True)
    made = guest(offered(path, list(FOREIGN).index(name), disk_format), path)
    made.build()
    made.says("login:")


@pytest.mark.deep
def test_a_guest_boots_from_a_cd_until_its_disk_has_something(
    guest: Callable[[ImageRef, Path], Guest], tmp_path: Path, image: GuestImage
) -> None:
    path = cd(tmp_path)
    made = guest(offered(path, 9, "iso"), path)
    made.build()
    made.says("this is the CD")
    assert made.files() == {"disk.qcow2", "cd.qcow2"}
    made.host.images.prune(0)
    assert made.spec.image.id in made.host.images.cached(), "the guest needs it"
    made.driver.stop(made.spec.uuid, 0.0)
    sector = tmp_path / "sector"
    sector.write_bytes(boot_sector("this is the disk"))
    written = f"write -s {sector} 0 {SECTOR}"
    subprocess.run(["qemu-io", "-f", "qcow2", "-c", written, str(made.folder / "disk.qcow2")], check=True)
    made.start()
    made.says("this is the disk")
    assert made.console().count("this is the CD") == 1
    made.spec = replace(made.spec, image=image.ref)
    made.build()
    made.says("login:")
    assert made.files() == {"disk.qcow2"}, "rebuilt from a disk it has no CD any more"
