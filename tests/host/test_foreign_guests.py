"""Real guests whose images are of other hypervisors, and one that boots from a CD beside an empty disk."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import ImageRef, InstanceSpec
from compute_agent.contract.power import PowerState
from compute_agent.settings import AgentSettings
from tests.host.cast import Wish
from tests.host.disks import whole
from tests.host.host_process import HostProcess
from tests.host.lab import PATIENCE, Lab, until
from tests.host.small_guest import SECTOR, boot_sector, disk, offered
from tests.support.guest_image import GuestImage
from tests.support.landing import one_in

FOREIGN = {
    "VMDK": ("vmdk", "vmdk", "subformat=monolithicSparse"),
    "stream-optimised VMDK": ("vmdk", "vmdk", "subformat=streamOptimized"),
    "dynamic VHD": ("vhd", "vpc", "subformat=dynamic,force_size=on"),
}
"""Name → Glance's format, QEMU's, its options."""


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


@pytest.fixture
def foreign(guest: Callable[[ImageRef, Path], Guest], tmp_path: Path) -> Callable[[str, Path], Guest]:
    """Builds a guest of a disk that was converted to the format of this name."""

    def build(name: str, source: Path) -> Guest:
        disk_format, driver, options = FOREIGN[name]
        path = tmp_path / f"disk.{disk_format}"
        subprocess.run(["qemu-img", "convert", "-O", driver, "-o", options, source, path], check=True)
        made = guest(offered(path, list(FOREIGN).index(name), disk_format), path)
        made.build()
        return made

    return build


@one_in(3, "name", FOREIGN)
def test_a_guest_boots_from_a_foreign_disk(foreign: Callable[[str, Path], Guest], tmp_path: Path, name: str) -> None:
    raw = tmp_path / "disk.raw"
    raw.write_bytes(disk(f"this is a {name}"))
    made = foreign(name, raw)
    made.says(f"this is a {name}")
    made.driver.stop(made.spec.uuid, 0.0)
    copied = tmp_path / "copied.raw"
    whole(made.folder / "disk.qcow2", copied)
    with copied.open("rb") as file:
        assert file.read(raw.stat().st_size) == raw.read_bytes()


@pytest.mark.deep
@pytest.mark.parametrize("name", FOREIGN)
def test_linux_boots_from_a_foreign_disk(foreign: Callable[[str, Path], Guest], image: GuestImage, name: str) -> None:
    foreign(name, image.path).says("login:")


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
