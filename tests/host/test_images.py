"""The image cache with images that are not what they say."""

from __future__ import annotations

import hashlib
import os
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import ImageRef
from compute_agent.images.cache import ImageCache, cached_name
from compute_agent.virt.errors import ImageFetchError, ImageUnacceptableError, RetryableHostError, StoppedError
from compute_agent.virt.processes import programs

INSTANCE = "0a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d"
SECRET = b"the host's own secret"


class Portal:
    """Gives out the bits of files, and counts."""

    def __init__(self) -> None:
        self.files: dict[str, Path] = {}
        self.asked: list[tuple[str, str]] = []
        self.gate: threading.Event | None = None

    def __call__(self, image: ImageRef, instance: str) -> Iterator[bytes]:
        self.asked.append((image.id, instance))
        if self.gate is not None:
            assert self.gate.wait(120)
        data = self.files[image.id].read_bytes()
        for at in range(0, len(data), 65536):
            yield data[at : at + 65536]

    def offer(self, path: Path, disk_format: str, identifier: str = "image-1") -> ImageRef:
        data = path.read_bytes()
        self.files[identifier] = path
        return ImageRef(
            id=identifier,
            name=path.name,
            disk_format=disk_format,
            size=len(data),
            hash_algo="sha512",
            hash_value=hashlib.sha512(data).hexdigest(),
        )


@pytest.fixture
def portal() -> Portal:
    return Portal()


@pytest.fixture
def cache(tmp_path: Path, portal: Portal) -> ImageCache:
    return ImageCache(tmp_path / "state", portal, tmp_path / "guests")


@pytest.fixture
def guests(tmp_path: Path) -> Path:
    """Where the guests' disks are."""
    return tmp_path / "guests"


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A raw disk with something at both ends."""
    path = tmp_path / "disk.raw"
    with path.open("wb") as file:
        file.write(b"beginning")
        file.seek((8 << 20) - 3)
        file.write(b"end")
    return path


def qemu_img(*words: str | Path) -> None:
    subprocess.run(["qemu-img", *map(str, words)], check=True, capture_output=True)


@pytest.fixture
def qcow2(tmp_path: Path, disk: Path) -> Path:
    path = tmp_path / "disk.qcow2"
    qemu_img("convert", "-c", "-f", "raw", "-O", "qcow2", disk, path)
    return path


def left(tmp_path: Path) -> list[str]:
    """The files in the cache, locks excepted."""
    return sorted(path.name for path in (tmp_path / "state/_base").glob("*") if path.is_file())


def test_an_image_is_fetched_once_and_laid_out_flat(
    cache: ImageCache, portal: Portal, qcow2: Path, disk: Path, tmp_path: Path
) -> None:
    image = portal.offer(qcow2, "qcow2")
    first, second = cache.get(image, INSTANCE), cache.get(image, INSTANCE)
    assert (first.cached, second.cached, first.path) == (False, True, second.path)
    assert first.path.read_bytes() == disk.read_bytes()
    assert first.path.stat().st_blocks * 512 < 1 << 20
    assert portal.asked == [("image-1", INSTANCE)]
    assert cache.cached() == ["image-1"]
    assert len(left(tmp_path)) == 2


def test_raw_images_are_kept_as_they_are(cache: ImageCache, portal: Portal, disk: Path) -> None:
    assert cache.get(portal.offer(disk, "raw"), INSTANCE).path.read_bytes() == disk.read_bytes()


def test_a_disk_with_partitions_is_raw(cache: ImageCache, portal: Portal, tmp_path: Path) -> None:
    path = tmp_path / "partitioned.raw"
    entry = struct.pack("<B3sB3sII", 0x80, b"\0" * 3, 0x83, b"\0" * 3, 2048, 2048)
    path.write_bytes(b"\0" * 446 + entry + b"\0" * 48 + b"\x55\xaa" + b"\0" * (1 << 20))
    assert cache.get(portal.offer(path, "raw"), INSTANCE).path.stat().st_size == path.stat().st_size


def test_builds_that_ask_at_once_share_one_fetch(
    cache: ImageCache, portal: Portal, qcow2: Path, tmp_path: Path
) -> None:
    image = portal.offer(qcow2, "qcow2")
    other = ImageCache(tmp_path / "state", portal, tmp_path)  # as another process would use it
    portal.gate = threading.Event()
    with ThreadPoolExecutor(6) as pool:
        waiting = [pool.submit(which.get, image, INSTANCE) for which in (cache, other) * 3]
        portal.gate.set()
        result = [one.result(timeout=120) for one in waiting]
    assert len(portal.asked) == 1
    assert sorted(one.cached for one in result) == [False] + [True] * 5


def test_two_records_of_the_same_bits_share_them(cache: ImageCache, portal: Portal, qcow2: Path) -> None:
    cache.get(portal.offer(qcow2, "qcow2", "image-1"), INSTANCE)
    assert cache.get(portal.offer(qcow2, "qcow2", "image-2"), INSTANCE).cached
    assert cache.cached() == ["image-1", "image-2"]


def backed(tmp_path: Path, disk: Path) -> tuple[Path, str]:
    secret = tmp_path / "secret"
    secret.write_bytes(SECRET * 1000)
    qemu_img("create", "-f", "qcow2", "-b", secret, "-F", "raw", tmp_path / "backed.qcow2")
    return tmp_path / "backed.qcow2", "qcow2"


def external(tmp_path: Path, disk: Path) -> tuple[Path, str]:
    data = f"data_file={tmp_path / 'data'},data_file_raw=on"
    qemu_img("create", "-f", "qcow2", "-o", data, tmp_path / "external.qcow2", "1M")
    return tmp_path / "external.qcow2", "qcow2"


def disguised_as_raw(tmp_path: Path, disk: Path) -> tuple[Path, str]:
    return backed(tmp_path, disk)[0], "raw"


def disguised_as_qcow2(tmp_path: Path, disk: Path) -> tuple[Path, str]:
    return disk, "qcow2"


def unknown_feature(tmp_path: Path, disk: Path) -> tuple[Path, str]:
    path = tmp_path / "future.qcow2"
    qemu_img("create", "-f", "qcow2", path, "1M")
    data = bytearray(path.read_bytes())
    data[72:80] = struct.pack(">Q", 1 << 40)
    path.write_bytes(data)
    return path, "qcow2"


def another_format(tmp_path: Path, disk: Path) -> tuple[Path, str]:
    qemu_img("create", "-f", "vmdk", tmp_path / "disk.vmdk", "1M")
    return tmp_path / "disk.vmdk", "raw"


def not_opened_here(tmp_path: Path, disk: Path) -> tuple[Path, str]:
    return disk, "qed"


def damaged(tmp_path: Path, disk: Path) -> tuple[Path, str]:
    path = tmp_path / "damaged.qcow2"
    qemu_img("convert", "-f", "raw", "-O", "qcow2", disk, path)
    data = bytearray(path.read_bytes())
    data[40:48] = struct.pack(">Q", (1 << 40) + 1)  # where its first table is said to be
    path.write_bytes(data)
    return path, "qcow2"


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (backed, "backing file"),
        (external, "data file"),
        (disguised_as_raw, "does not match disk_format raw: it is qcow2"),
        (disguised_as_qcow2, "does not match disk_format qcow2: it is raw"),
        (unknown_feature, "unknown features"),
        (another_format, "does not match disk_format raw: it is vmdk"),
        (not_opened_here, "hosts open raw, qcow2, vmdk"),
        (damaged, "damaged"),
    ],
)
def test_an_image_that_lies_is_refused_and_leaves_nothing(
    cache: ImageCache,
    portal: Portal,
    disk: Path,
    tmp_path: Path,
    make: Callable[[Path, Path], tuple[Path, str]],
    why: str,
) -> None:
    path, disk_format = make(tmp_path, disk)
    with pytest.raises(ImageUnacceptableError, match=why) as caught:
        cache.get(portal.offer(path, disk_format), INSTANCE)
    assert str(tmp_path) not in caught.value.message
    assert left(tmp_path) == []
    assert cache.cached() == []


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"hash_value": "00" * 64}, ImageUnacceptableError),
        ({"hash_value": ""}, ImageUnacceptableError),
        ({"hash_value": "../../../etc/passwd"}, ImageUnacceptableError),
        ({"hash_algo": "crc32"}, ImageUnacceptableError),
        ({"size": 100}, ImageUnacceptableError),
        ({"size": 1 << 30}, ImageFetchError),
        ({"size": 1 << 60}, RetryableHostError),
    ],
    ids=["hash", "no hash", "path", "algorithm", "too long", "too short", "no room"],
)
def test_bits_that_do_not_fit_their_record_are_refused(
    cache: ImageCache, portal: Portal, qcow2: Path, tmp_path: Path, change: dict[str, object], error: type[Exception]
) -> None:
    image = replace(portal.offer(qcow2, "qcow2"), **change)
    with pytest.raises(error):
        cache.get(image, INSTANCE)
    assert left(tmp_path) == []


def test_a_disk_too_large_for_the_host_is_not_laid_out(cache: ImageCache, portal: Portal, tmp_path: Path) -> None:
    path = tmp_path / "vast.qcow2"
    qemu_img("create", "-f", "qcow2", path, "100T")
    with pytest.raises(RetryableHostError, match="no space"):
        cache.get(portal.offer(path, "qcow2"), INSTANCE)
    assert left(tmp_path) == []


def test_a_failed_fetch_can_be_tried_again(cache: ImageCache, portal: Portal, qcow2: Path, tmp_path: Path) -> None:
    image = portal.offer(qcow2, "qcow2")

    def broken(_image: ImageRef, _instance: str) -> Iterator[bytes]:
        yield b"QFI"
        raise ImageFetchError("The image could not be fetched.")

    with pytest.raises(ImageFetchError):
        ImageCache(cache._base.parent, broken, tmp_path).get(image, INSTANCE)
    assert not cache.get(image, INSTANCE).cached


def test_a_fetch_that_nobody_wants_any_more_ends(
    cache: ImageCache, portal: Portal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A conversion that would never end is killed."""
    path = tmp_path / "slow.qcow2"
    qemu_img("create", "-f", "qcow2", path, "1M")
    slow = tmp_path / "bin" / "qemu-img"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nkill -STOP $$\n")  # for ever, and runs no other program
    slow.chmod(0o755)
    monkeypatch.setattr(programs, "SYSTEM_PATH", f"{slow.parent}:{programs.SYSTEM_PATH}")
    requested = iter([False] * 5)

    def stopped() -> bool:
        return next(requested, True)

    with pytest.raises(StoppedError):
        cache.get(portal.offer(path, "qcow2"), INSTANCE, stopped)
    assert left(tmp_path) == []


def test_who_waits_for_another_fetch_can_be_stopped(cache: ImageCache, portal: Portal, qcow2: Path) -> None:
    image = portal.offer(qcow2, "qcow2")
    with cache._locked(cached_name(image)), pytest.raises(StoppedError):
        cache.get(image, INSTANCE, lambda: True)
    assert not cache.get(image, INSTANCE).cached


def lay(base: Path, guests: Path, name: str = "disk.qcow2") -> Path:
    """Make a guest's disk over a base."""
    guest = guests / INSTANCE
    guest.mkdir(parents=True, exist_ok=True)
    qemu_img("create", "-f", "qcow2", "-b", base, "-F", "raw", guest / name)
    return guest / name


def test_only_old_and_unused_images_are_pruned(
    cache: ImageCache, guests: Path, portal: Portal, qcow2: Path, disk: Path
) -> None:
    used = cache.get(portal.offer(qcow2, "qcow2", "used"), INSTANCE)
    old = cache.get(portal.offer(disk, "raw", "old"), INSTANCE)
    lay(used.path, guests)
    assert cache.prune(3600) == []
    for image in (used, old):
        os.utime(image.path, (0, 0))
    assert cache.prune(3600) == ["old"]
    assert cache.cached() == ["used"]
    assert used.path.exists()
    assert not old.path.exists()


@pytest.mark.parametrize("note", ["", "{", None])
def test_a_base_stays_whatever_became_of_its_note(
    cache: ImageCache, guests: Path, portal: Portal, qcow2: Path, note: str | None
) -> None:
    base = cache.get(portal.offer(qcow2, "qcow2"), INSTANCE).path
    lay(lay(base, guests), guests, "disk.qcow2.new")  # a disk that lies on another, which lies on the base
    os.utime(base, (0, 0))
    if note is None:
        base.with_suffix(".json").unlink()
    else:
        base.with_suffix(".json").write_text(note)
    assert cache.prune(0.0) == []
    assert base.exists()


def test_nothing_is_pruned_while_a_disk_cannot_be_read(
    cache: ImageCache, guests: Path, portal: Portal, qcow2: Path
) -> None:
    base = cache.get(portal.offer(qcow2, "qcow2", "old"), INSTANCE).path
    os.utime(base, (0, 0))
    damaged = lay(base, guests)
    damaged.write_bytes(damaged.read_bytes()[:30])
    assert cache.prune(0.0) == []
    damaged.unlink()
    assert cache.prune(0.0) == ["old"]


def test_an_image_asked_for_while_others_are_looked_at_stays(
    cache: ImageCache, portal: Portal, qcow2: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = portal.offer(qcow2, "qcow2")
    base = cache.get(image, INSTANCE).path
    os.utime(base, (0, 0))
    locked = ImageCache._locked

    def asked_before(self: ImageCache, name: str, *, wait: bool = True) -> AbstractContextManager[None]:
        monkeypatch.undo()
        cache.get(image, INSTANCE)
        return locked(self, name, wait=wait)

    monkeypatch.setattr(ImageCache, "_locked", asked_before)
    assert cache.prune(3600) == []
    assert base.exists()


def test_room_is_made_of_what_no_disk_needs(
    cache: ImageCache, guests: Path, portal: Portal, qcow2: Path, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = cache.get(portal.offer(qcow2, "qcow2", "used"), INSTANCE).path
    unused = cache.get(portal.offer(disk, "raw", "unused"), INSTANCE).path
    lay(used, guests)
    os.utime(used, (0, 0))
    os.utime(unused, (0, 0))
    monkeypatch.setattr(ImageCache, "_has_room", lambda self, size: not unused.exists())
    cache._check_room(1)
    assert (used.exists(), unused.exists()) == (True, False)


def test_what_a_killed_fetch_left_is_swept(cache: ImageCache, portal: Portal, qcow2: Path) -> None:
    base = cache.get(portal.offer(qcow2, "qcow2"), INSTANCE).path
    for suffix in (".fetched", ".flat"):
        base.with_suffix(suffix).write_bytes(b"left")
    with cache._locked(base.name):
        cache.sweep()
        assert base.with_suffix(".flat").exists(), "its fetch goes on"
    cache.sweep()
    assert sorted(path.suffix for path in base.parent.glob("*-*")) == ["", ".json"]
