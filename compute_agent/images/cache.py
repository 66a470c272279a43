"""The image cache ``_base``. Every image is downloaded and checked once per host, even for simultaneous builds.

Guests' disks are never based on the uploaded file. Its format is inspected, then a program with limited rights copies
its content to a plain raw file, so that nothing in it can cause the host to open another file. The file of a kernel or
a ramdisk is stored unchanged.
"""

import contextlib
import errno
import fcntl
import hashlib
import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from compute_agent.contract.build import ImageRef
from compute_agent.disk_formats import qcow2
from compute_agent.disk_formats.formats import FORMATS
from compute_agent.disk_formats.inspection import Inspector
from compute_agent.disk_formats.reading import PIECE, DiskFormatError
from compute_agent.virt.driver import Stopped, never
from compute_agent.virt.errors import ImageFetchError, ImageUnacceptableError, RetryableHostError, StoppedError
from compute_agent.virt.processes import progress
from compute_agent.virt.processes.programs import Limits, ProgramError, run_long
from compute_agent.virt.processes.rights import lent
from compute_agent.virt.processes.storage_account import StorageAccount

log = logging.getLogger(__name__)

Fetch = Callable[[ImageRef, str], Iterable[bytes]]
"""Returns the data of an image in pieces. The second argument is the id of the server or volume whose command permits
the download.
"""

ALGORITHMS = frozenset({"sha256", "sha384", "sha512", "md5"})
SHARED = frozenset({"raw", "qcow2", "iso", "ami", "aki", "ari"})
"""Formats whose images share a cached file if their data is equal. Equal data is valid in only one of these formats, or
results in the same file for each of them.
"""
CONVERT = Limits(seconds=1800, cpu_seconds=900, memory=2 << 30)
DOWNLOAD, FLAT = ".fetched", ".flat"
"""Suffixes of files while an image is prepared."""
JUST_USED = 900.0
"""Seconds for which a requested image is never removed to free space, because a disk may not be based on it yet."""
LOOK_EVERY = 0.05
"""Seconds between two checks whether an image's lock is free."""
NO_ROOM = os.strerror(errno.ENOSPC)
RESERVE = 128 << 20
"""Bytes that an image must leave free on the cache's file system."""

NAME = re.compile(r"[a-z0-9]+-[0-9a-f]{32,128}(?:-[a-z0-9]+)?")
"""The name of an image's file in the cache."""


@dataclass(frozen=True)
class CachedImage:
    """An image's data on this host: a raw disk, or the file of a kernel or a ramdisk. The file must not be changed."""

    path: Path
    cached: bool
    """Whether the image was in the cache already."""
    size: int
    """The size of the download in bytes, even if the image was cached."""


class ImageCache:
    """The cache in one folder. Several threads and processes may use it at the same time."""

    def __init__(self, folder: Path, fetch: Fetch, disks: Path, account: StorageAccount | None = None) -> None:
        """Store the images in ``folder/_base``, named by the hash of their data. Disks below ``disks`` may be based on
        them.

        ``account``: the account under which the formats of uploaded files are read.
        """
        self._base = folder.absolute() / "_base"
        self._fetch = fetch
        self._disks = disks
        self._account = account

    def get(self, image: ImageRef, instance_uuid: str, stopped: Stopped = never) -> CachedImage:
        """Return the image, which is downloaded for the instance if it is not cached.

        Callers that need the same image wait for the first one to download it. Raises ImageUnacceptableError if the
        data does not match ``image``, ImageFetchError if the download fails, RetryableHostError if the host lacks
        space, StoppedError if ``stopped`` returns True before the end. After an error no files are left.
        """
        name = cached_name(image)
        path = self._base / name
        with self._locked_when_free(name, stopped):
            cached = path.exists()
            if not cached:
                self._make(image, instance_uuid, path, stopped)
            self._note_use(path, image.id)
        return CachedImage(path=path, cached=cached, size=image.size)

    def cached(self) -> list[str]:
        """Return the ids of the cached images."""
        result: set[str] = set()
        for path in self._images():
            result |= self._ids(path)
        return sorted(result)

    def prune(self, max_age: float) -> list[str]:
        """Remove the images that no disk of this host is based on and that have not been requested for ``max_age``
        seconds.

        Returns their ids. Nothing is removed if a disk cannot be read.
        """
        removed: set[str] = set()
        for _, ids in self._removed(max_age):
            removed |= ids
        return sorted(removed)

    def sweep(self) -> None:
        """Remove the unfinished downloads of a killed agent."""
        for suffix in (DOWNLOAD, FLAT):
            for left in self._base.glob(f"*{suffix}"):
                with contextlib.suppress(BlockingIOError), self._locked(left.name.removesuffix(suffix), wait=False):
                    left.unlink(missing_ok=True)

    @property
    def allocated(self) -> int:
        """Return the bytes on the disk that the images use."""
        return sum(path.stat().st_blocks * 512 for path in self._images())

    # --- inside -----------------------------------------------------------------------------------------------------

    def _removed(self, max_age: float) -> Iterator[tuple[str, set[str]]]:
        """Remove unneeded images one by one, the longest unused first. Yield the name and the ids of each."""
        try:
            needed = bases_of(self._disks)
        except UnreadableDiskError as error:
            log.warning("No image is removed from the cache, because a disk cannot be read: %s", error)
            return
        for path in sorted(self._images(), key=_age, reverse=True):
            if path.name in needed or _age(path) < max_age:
                continue
            with contextlib.suppress(BlockingIOError), self._locked(path.name, wait=False):
                if _age(path) < max_age:  # it was requested meanwhile
                    continue
                ids = self._ids(path)
                path.unlink(missing_ok=True)
                path.with_suffix(".json").unlink(missing_ok=True)
                yield path.name, ids

    def _images(self) -> list[Path]:
        return [path for path in sorted(self._base.glob("*")) if NAME.fullmatch(path.name)]

    @staticmethod
    def _ids(path: Path) -> set[str]:
        try:
            return set(json.loads(path.with_suffix(".json").read_text())["ids"])
        except (OSError, ValueError, KeyError):
            return set()

    def _note_use(self, path: Path, image_id: str) -> None:
        os.utime(path)
        ids = self._ids(path)
        if image_id not in ids:
            part = path.with_suffix(".json.part")
            part.write_text(json.dumps({"ids": sorted(ids | {image_id})}) + "\n")
            part.replace(path.with_suffix(".json"))

    @contextlib.contextmanager
    def _locked(self, name: str, *, wait: bool = True) -> Iterator[None]:
        """Lock one image against other threads and other processes."""
        folder = self._base / "locks"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Each opening is a lock of its own, so this also keeps threads of one process apart.
        with (folder / name).open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            yield

    @contextlib.contextmanager
    def _locked_when_free(self, name: str, stopped: Stopped) -> Iterator[None]:
        """Lock one image, waiting for other users of the lock as long as ``stopped`` returns False."""
        watched, parts = progress.Watched(), [self._base / f"{name}{suffix}" for suffix in (DOWNLOAD, FLAT)]
        with contextlib.ExitStack() as held:
            while True:
                try:
                    held.enter_context(self._locked(name, wait=False))
                    break
                except BlockingIOError:
                    _check_needed(stopped)
                    watched.look(progress.size_on_disk(*parts))
                    time.sleep(LOOK_EVERY)
            yield

    def _make(self, image: ImageRef, instance_uuid: str, path: Path, stopped: Stopped) -> None:
        download, flat = path.with_suffix(DOWNLOAD), path.with_suffix(FLAT)
        try:
            self._download(image, instance_uuid, download, stopped)
            virtual_size = inspect(download, image)
            if FORMATS[image.disk_format].driver is None:
                download.replace(flat)
            else:
                self._check_room(virtual_size)
                self._flatten(download, flat, image, virtual_size, stopped)
            flat.chmod(0o400)
            flat.replace(path)
        except OSError as error:
            raise RetryableHostError("The host has no space for the image.", detail=str(error)) from error
        finally:
            download.unlink(missing_ok=True)
            flat.unlink(missing_ok=True)

    def _download(self, image: ImageRef, instance_uuid: str, target: Path, stopped: Stopped) -> None:
        """Write the data to ``target``, never more than ``image.size``, and check its size and hash."""
        self._check_room(image.size)
        digest = hashlib.new(image.hash_algo)
        size = 0
        with target.open("wb") as out:
            target.chmod(0o600)
            for piece in self._fetch(image, instance_uuid):
                _check_needed(stopped)
                size += len(piece)
                if size > image.size:
                    raise ImageUnacceptableError(f"Image {image.name!r} is larger than its record states.")
                digest.update(piece)
                out.write(piece)
                progress.moved(size, image.size)
        if size < image.size:
            raise ImageFetchError("The image could not be fetched.", detail=f"{size} of {image.size} bytes arrived")
        if digest.hexdigest() != image.hash_value:
            raise ImageUnacceptableError(f"The data of image {image.name!r} do not match its checksum.")

    def _flatten(self, source: Path, target: Path, image: ImageRef, virtual_size: int, stopped: Stopped) -> None:
        """Copy the content to a sparse raw file. The format is specified, never probed, and no other file is opened."""
        target.unlink(missing_ok=True)
        driver: dict[str, object] = {
            "driver": FORMATS[image.disk_format].driver,
            "file": {"driver": "file", "filename": str(source)},
            "backing": None,  # even if the file names one
            "read-only": True,
        }
        if driver["driver"] == "vpc":
            driver["force_size_calc"] = "current_size"  # not the size that results from its cylinders
        if driver["driver"] == "raw":
            del driver["backing"]
        words = ("-O", "raw", "-S", "4k", f"json:{json.dumps(driver)}", str(target))
        command = ("qemu-img", "convert", "-q", *words)
        target.touch(mode=0o600)
        try:
            with lent(self._account, source, target) as rights:
                run_long(*command, limits=CONVERT, stopped=stopped, rights=rights)
        except ProgramError as error:
            _check_needed(stopped)
            if NO_ROOM in str(error):
                raise RetryableHostError("The host has no space for the image.", detail=str(error)) from error
            raise ImageUnacceptableError(f"Image {image.name!r} cannot be read.", detail=str(error)) from error
        if target.stat().st_size < virtual_size:
            raise ImageUnacceptableError(
                f"Image {image.name!r} is damaged.", detail="the unpacked data is shorter than its header states"
            )
        with target.open("rb") as file:
            os.fsync(file)

    def _check_room(self, size: int) -> None:
        """Ensure that there is space, by removing images that no disk needs. Raises RetryableHostError if that is not
        enough.
        """
        if self._has_room(size):
            return
        for name, _ in self._removed(JUST_USED):
            log.info("Removed the image %s from the cache, because another image needs the space.", name)
            if self._has_room(size):
                return
        raise RetryableHostError("The host has no space for the image.", detail=f"{size} bytes are needed")

    def _has_room(self, size: int) -> bool:
        room = os.statvfs(self._base)
        return size + RESERVE <= room.f_bavail * room.f_frsize


def _age(path: Path) -> float:
    """Return the seconds since the image was last requested; 0 when it no longer exists."""
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def cached_name(image: ImageRef) -> str:
    """Return the name of the image's file, which is the same on every host.

    Raises ImageUnacceptableError for an image without a usable hash.
    """
    kind = "" if image.disk_format in SHARED else f"-{image.disk_format}"
    name = f"{image.hash_algo}-{image.hash_value}{kind}"
    if image.hash_algo not in ALGORITHMS or not NAME.fullmatch(name):
        raise ImageUnacceptableError(f"Image {image.name!r} has no checksum that a host can verify.")
    return name


def _check_needed(stopped: Stopped) -> None:
    """Raise StoppedError when the image is no longer needed."""
    if stopped():
        raise StoppedError("The image was not fetched completely.")


def inspect(path: Path, image: ImageRef) -> int:
    """Return the size in bytes of the disk in the image file; for a kernel or a ramdisk, the size of the file.

    Raises ImageUnacceptableError if the file has another format than declared, or if it could cause the host to read
    other files: a backing file, an external data file, a parent, an extent, or unknown features.
    """
    if image.disk_format not in FORMATS:
        raise ImageUnacceptableError(
            f"Image {image.name!r} has format {image.disk_format!r}; hosts open {', '.join(FORMATS)}."
        )
    with path.open("rb") as file:
        inspector = Inspector(iter(partial(file.read, PIECE), b""))
        for _ in inspector:
            pass
        try:
            return inspector.check(image.disk_format, file, path.stat().st_size)
        except DiskFormatError as error:
            raise ImageUnacceptableError(f"Image {image.name!r} {error}.") from error


class UnreadableDiskError(Exception):
    """It is unknown which image a disk is based on."""


def bases_of(folder: Path) -> set[str]:
    """Return the names of the cached images that files anywhere below ``folder`` are based on.

    Raises UnreadableDiskError for a damaged qcow2 file, because its base is unknown.
    """
    result: set[str] = set()
    for path in folder.rglob("*"):
        try:
            if not path.is_file() or path.is_symlink():
                continue
            with path.open("rb") as file:
                backing = qcow2.backing_file(file)
        except FileNotFoundError:
            continue  # its guest was deleted a moment ago
        except (OSError, DiskFormatError) as error:
            raise UnreadableDiskError(f"{path}: {error}") from error
        result.update(NAME.findall(backing))
    return result
