"""The disks of a resize, cut off before each thing that is done to them: nothing is lost, and it can go on."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from compute_agent.contract.build import FlavorRef, InstanceSpec
from compute_agent.virt.errors import ImageUnacceptableError, InstanceNotFoundError, RetryableHostError
from compute_agent.virt.libvirt import resizing
from compute_agent.virt.libvirt.disks import GIB, create_disks
from compute_agent.virt.libvirt.paths import InstancePaths
from tests.agent.cast import make_spec

pytestmark = pytest.mark.slow

MIB = 1 << 20
OLD = FlavorRef(name="old", vcpus=1, memory_mb=96, root_gb=1, ephemeral_gb=1, swap_mb=4)
NEW = FlavorRef(name="new", vcpus=2, memory_mb=192, root_gb=2, ephemeral_gb=2, swap_mb=8)
BARE = FlavorRef(name="bare", vcpus=1, memory_mb=96, root_gb=2)
TEXT = b"what the guest wrote"


class Guest:
    """The disks of a guest that has written something."""

    def __init__(self, folder: Path, flavor: FlavorRef) -> None:
        self.folder = folder / "guest"
        self.folder.mkdir(parents=True)
        self.paths = InstancePaths(self.folder, self.folder)
        self.base = folder / "base.raw"
        self.base.write_bytes(b"image".ljust(MIB, b"\1"))
        self.flavor = flavor
        create_disks(self.spec(flavor), self.base, self.paths)
        self.write(TEXT)
        if flavor.ephemeral_gb:
            with self.paths.ephemeral_disk.open("r+b") as file:
                file.seek(512 * MIB)
                file.write(TEXT)

    def copy(self, folder: Path) -> Guest:
        """Another guest like this one, over the same image."""
        folder.mkdir()
        subprocess.run(["cp", "-a", "--sparse=always", str(self.folder), str(folder)], check=True)
        copied = object.__new__(Guest)
        copied.folder, copied.base, copied.flavor = folder / "guest", self.base, self.flavor
        copied.paths = InstancePaths(copied.folder, copied.folder)
        return copied

    @staticmethod
    def spec(flavor: FlavorRef) -> InstanceSpec:
        return msgspec.structs.replace(make_spec(), flavor=flavor)

    def write(self, text: bytes, at: int = 0) -> None:
        """Write text into a megabyte of the root disk, as the guest would."""
        piece = self.folder.parent / "piece"
        piece.write_bytes(text.ljust(512, b"\0"))
        command = ["qemu-io", "-f", "qcow2", "-c", f"write -s {piece} {at} 512", str(self.paths.root_disk)]
        subprocess.run(command, check=True, capture_output=True)

    def reads(self, at: int = 0) -> bytes:
        target = self.folder.parent / "whole"
        # It counts what it skips.
        command = [
            "qemu-img",
            "dd",
            "-f",
            "qcow2",
            "-O",
            "raw",
            "bs=512",
            f"skip={at // 512}",
            f"count={at // 512 + 1}",
        ]
        subprocess.run([*command, f"if={self.paths.root_disk}", f"of={target}"], check=True, capture_output=True)
        return target.read_bytes()[:512].rstrip(b"\0")

    def info(self) -> dict[str, Any]:
        command = ["qemu-img", "info", "--output=json", str(self.paths.root_disk)]
        info: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        return info

    def sizes(self) -> tuple[int, int, int]:
        """GiB of the root disk, GiB of the ephemeral disk, MiB of swap."""
        extra = [
            path.stat().st_size if path.exists() else 0 for path in (self.paths.ephemeral_disk, self.paths.swap_disk)
        ]
        return int(self.info()["virtual-size"]) // GIB, extra[0] // GIB, extra[1] // MIB

    def ephemeral(self) -> bytes:
        with self.paths.ephemeral_disk.open("rb") as file:
            file.seek(512 * MIB)
            return file.read(len(TEXT))

    def aside(self) -> set[str]:
        return {path.name for path in self.folder.iterdir() if path.suffix in {".before", ".part"}}


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> Guest:
    """The guest that the others are copies of."""
    return Guest(tmp_path_factory.mktemp("pattern"), OLD)


@pytest.fixture
def guest(pattern: Guest, tmp_path: Path) -> Guest:
    return pattern.copy(tmp_path / "one")


class CutError(BaseException):
    """The agent is dead."""


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int | None], None]]:
    """Say before which of its doings the next work is cut off, counted from 0; None: not at all."""
    left: list[int | None] = [None]

    def watched(work: Callable[..., Any]) -> Callable[..., Any]:
        def doing(*arguments: Any, **options: Any) -> Any:
            if left[0] is not None:
                left[0] -= 1
                if left[0] < 0:
                    raise CutError
            return work(*arguments, **options)

        return doing

    for name in ("rename", "replace", "unlink", "touch"):
        monkeypatch.setattr(Path, name, watched(getattr(Path, name)))
    for name in ("run_program", "run_long"):
        monkeypatch.setattr(resizing, name, watched(getattr(resizing, name)))
    monkeypatch.setattr(os, "truncate", watched(os.truncate))

    def set_to(number: int | None) -> None:
        left[0] = number

    yield set_to
    left[0] = None


def cut_everywhere(cut: Callable[[int | None], None], work: Callable[[], None]) -> Iterator[int]:
    """Do the work again and again, cut off ever later, until it is not cut off any more; at least ten times."""
    for number in itertools.count():
        cut(number)
        try:
            work()
        except CutError:
            cut(None)
            yield number
        else:
            cut(None)
            assert number > 10
            return


@pytest.mark.parametrize("then", [pytest.param("again", marks=pytest.mark.deep), "back"])
def test_a_resize_cut_off_anywhere(
    pattern: Guest, tmp_path: Path, cut: Callable[[int | None], None], then: str
) -> None:
    current: list[Guest] = []

    def begin() -> None:
        current.append(pattern.copy(tmp_path / str(len(current))))

    begin()
    for _ in cut_everywhere(cut, lambda: resizing.enlarge(Guest.spec(NEW), current[-1].paths)):
        guest = current[-1]
        if then == "again":
            resizing.enlarge(Guest.spec(NEW), guest.paths)
            assert guest.sizes() == (2, 2, 8)
            assert (guest.reads(), guest.ephemeral()) == (TEXT, TEXT)
            guest.write(b"since then", at=MIB)
            assert guest.reads(MIB) == b"since then"
        for _ in range(2):
            resizing.restore(Guest.spec(OLD), guest.paths)
        assert guest.sizes() == (1, 1, 4)
        assert (guest.reads(), guest.reads(MIB), guest.ephemeral()) == (TEXT, b"", TEXT)
        assert not {name for name in guest.aside() if name.endswith(".before")}
        begin()


def test_a_revert_cut_off_anywhere(pattern: Guest, tmp_path: Path, cut: Callable[[int | None], None]) -> None:
    for number in range(5):
        guest = pattern.copy(tmp_path / str(number))
        resizing.enlarge(Guest.spec(NEW), guest.paths)
        cut(number)
        try:
            resizing.restore(Guest.spec(OLD), guest.paths)
        except CutError:
            cut(None)
            resizing.restore(Guest.spec(OLD), guest.paths)
        cut(None)
        assert (guest.sizes(), guest.reads(), guest.ephemeral()) == ((1, 1, 4), TEXT, TEXT)


@pytest.mark.deep
def test_a_confirmation_cut_off_anywhere_keeps_what_was_written(
    pattern: Guest, tmp_path: Path, cut: Callable[[int | None], None]
) -> None:
    for number in range(8):
        guest = pattern.copy(tmp_path / str(number))
        resizing.enlarge(Guest.spec(NEW), guest.paths)
        guest.write(b"since then", at=MIB)
        cut(number)
        try:
            resizing.keep(None, guest.paths)
        except CutError:
            cut(None)
            assert guest.reads() == TEXT
            resizing.keep(None, guest.paths)
        cut(None)
        assert guest.aside() == set()
        assert guest.info()["full-backing-filename"] == str(guest.base)
        assert (guest.sizes(), guest.reads(), guest.reads(MIB)) == ((2, 2, 8), TEXT, b"since then")
        resizing.keep(None, guest.paths)


def test_disks_that_come_and_go(guest: Guest) -> None:
    more = msgspec.structs.replace(BARE, root_gb=3, ephemeral_gb=1, swap_mb=8)
    bare = Guest(guest.folder.parent / "other", BARE)
    for _ in range(2):
        resizing.enlarge(Guest.spec(more), bare.paths)
    assert bare.sizes() == (3, 1, 8)
    for _ in range(2):
        resizing.restore(Guest.spec(BARE), bare.paths)
    assert bare.sizes() == (2, 0, 0)
    resizing.enlarge(Guest.spec(BARE), guest.paths)  # the control plane would not ask for it
    assert guest.sizes() == (2, 0, 0)
    resizing.restore(Guest.spec(OLD), guest.paths)
    assert (guest.sizes(), guest.ephemeral()) == ((1, 1, 4), TEXT)


def test_a_root_disk_of_the_images_size_stays(tmp_path: Path) -> None:
    zero = msgspec.structs.replace(BARE, root_gb=0)
    guest = Guest(tmp_path, zero)
    assert guest.info()["virtual-size"] == MIB
    resizing.enlarge(Guest.spec(msgspec.structs.replace(zero, memory_mb=128)), guest.paths)
    assert (guest.info()["virtual-size"], guest.reads()) == (MIB, TEXT)


def test_what_cannot_be_is_refused_and_leaves_the_disks(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InstanceNotFoundError):
        resizing.enlarge(Guest.spec(NEW), InstancePaths(guest.folder.parent, guest.folder.parent))
    resizing.enlarge(Guest.spec(NEW), guest.paths)
    resizing.keep(None, guest.paths)
    with pytest.raises(ImageUnacceptableError, match="has 2 GiB and cannot shrink"):
        resizing.enlarge(Guest.spec(OLD), guest.paths)
    assert (guest.sizes(), guest.aside()) == ((2, 2, 8), set())
    monkeypatch.setattr(resizing, "LEAST_FREE", 1 << 62)
    with pytest.raises(RetryableHostError, match="no space"):
        resizing.enlarge(Guest.spec(NEW), guest.paths)


def test_what_lies_aside_is_never_removed_while_the_disk_needs_it(
    guest: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    resizing.enlarge(Guest.spec(NEW), guest.paths)
    monkeypatch.setattr(resizing, "run_long", lambda *_, **__: None)  # says that it is done, and is not
    with pytest.raises(RetryableHostError):
        resizing.keep(None, guest.paths)
    assert guest.reads() == TEXT
    monkeypatch.undo()
    monkeypatch.setattr(resizing, "LEAST_FREE", 1 << 62)
    with pytest.raises(RetryableHostError, match="no space to merge"):
        resizing.keep(None, guest.paths)
    assert guest.reads() == TEXT
