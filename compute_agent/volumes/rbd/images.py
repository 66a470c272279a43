"""Images and snapshots in a pool of a Ceph cluster, managed with the program ``rbd``.

``rbd`` is run as a separate process with resource limits, so the agent has no threads of Ceph; its output is JSON.
Clones have version 2 (``ceph osd set-require-min-compat-client mimic``): a snapshot with clones can be removed, and
Ceph keeps its data until the clones are deleted. Sizes are in bytes.
"""

import errno
import json
import logging
import shutil
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from compute_agent.virt.driver import Stopped, never
from compute_agent.virt.errors import StoppedError
from compute_agent.virt.processes.programs import SYSTEM_PATH, Limits, ProgramError, run_long, run_program
from compute_agent.volumes.errors import PoolUnavailableError
from compute_agent.volumes.rbd.location import CephLocation

log = logging.getLogger(__name__)

QUICK = Limits(seconds=60, cpu_seconds=30, memory=4 << 30)
LONG = Limits(seconds=6 * 3600, cpu_seconds=3600, memory=4 << 30)
COPY = ("-f", "raw", "-n", "-W", "-m", "8")
"""The options of ``qemu-img convert`` that copy a raw file into an existing image."""
NAMESPACE = uuid.UUID("0c9b1d0e-5d2c-4d0f-9a55-5a3f8d0c6b11")
"""The namespace of pools' UUIDs."""


class CephError(PoolUnavailableError):
    """The cluster refused an operation or did not answer."""

    def __init__(self, detail: str, number: int | None = None) -> None:
        """``detail``: the message of Ceph's program. ``number``: its error number."""
        super().__init__("The storage cluster did not complete the operation.", detail=detail)
        self.number = number


@dataclass(frozen=True)
class Capacity:
    """The size of a pool and its free space in bytes, both after replication."""

    total: int
    free: int


@dataclass(frozen=True)
class Parent:
    """The image from which another image was cloned."""

    image: str
    number: str
    """Ceph's internal id of the image, which identifies it in the trash."""
    deleted: bool


class CephImages:
    """The images of one pool. ``image`` is the name of an image, ``snapshot`` the name of a snapshot of that image."""

    def __init__(self, location: CephLocation) -> None:
        self.location = location

    # --- the pool ---------------------------------------------------------------------------------------------------

    def unfit(self) -> str:
        """Return a sentence that explains why this machine cannot use the pool; empty if it can."""
        for program in ("rbd", "ceph", "rados"):
            if shutil.which(program, path=SYSTEM_PATH) is None:
                return f"{program} is not installed (apt install ceph-common qemu-block-extra)."
        if not list(Path("/usr/lib").glob("*/qemu/block-rbd.so")):
            return "QEMU's driver for Ceph is not installed (apt install qemu-block-extra)."
        if not self.location.conf.is_file():
            return f"The file {self.location.conf} is missing."
        return ""

    def keyrings(self) -> list[Path]:
        """Return the files with the client's key: those of the configured keyrings that exist."""
        words = ("--conf", str(self.location.conf), "--name", f"client.{self.location.client}")
        try:
            output = run_program("ceph-conf", *words, "--show-config-value", "keyring", limits=QUICK).decode()
        except ProgramError as error:
            raise CephError(str(error), error.number) from error
        return [path for each in output.strip().split(",") if (path := Path(each.strip())).is_file()]

    def pool_id(self) -> str:
        """Return the pool's UUID, derived from the cluster's UUID and the pool's number in it, which Ceph never reuses.

        Every host that reaches the pool derives the same UUID. Raises CephError.
        """
        fsid = self._ceph("fsid").decode().strip()
        for pool in json.loads(self._ceph("osd", "lspools", "--format", "json")):
            if pool["poolname"] == self.location.pool:
                return str(uuid.uuid5(NAMESPACE, f"{fsid}/{pool['poolnum']}"))
        raise CephError(f"there is no pool {self.location.pool}", errno.ENOENT)

    def capacity(self) -> Capacity:
        """Return the pool's size and free space. Raises CephError, also for some seconds after the pool was created."""
        for pool in json.loads(self._ceph("df", "--format", "json"))["pools"]:
            if pool["name"] == self.location.pool:
                stats = pool["stats"]
                return Capacity(total=stats["stored"] + stats["max_avail"], free=stats["max_avail"])
        raise CephError(f"the cluster has not measured the pool {self.location.pool} yet", errno.EAGAIN)

    # --- images -----------------------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """List the names of the images."""
        result: list[str] = json.loads(self._rbd("ls", self.location.pool, "--format", "json"))
        return result

    def size(self, image: str) -> int | None:
        """Return the image's size; None if the image does not exist."""
        try:
            return int(json.loads(self._rbd("info", self._spec(image), "--format", "json"))["size"])
        except CephError as error:
            if error.number == errno.ENOENT:
                return None
            raise

    def create(self, image: str, size: int) -> None:
        """Create an image that reads as zeros, unless it exists."""
        self._unless(errno.EEXIST, "create", "--size", f"{size}B", self._spec(image))

    def clone(self, image: str, snapshot: str, clone: str) -> None:
        """Create a clone of a snapshot, without copying data, unless ``clone`` exists."""
        source, target = self._spec(image, snapshot), self._spec(clone)
        self._unless(errno.EEXIST, "clone", "--rbd-default-clone-format", "2", source, target)

    def import_file(self, path: Path, image: str, stopped: Stopped = never) -> None:
        """Create an image with the content of a raw file. Holes of the file use no space.

        An existing image, such as the remnant of an unfinished run, is removed first. Raises StoppedError if
        ``stopped`` returns True before the end.
        """
        self.remove(image)
        self.create(image, path.stat().st_size)
        target = ",".join(f"{name}={value}" for name, value in self.location.node(image).items())
        self.qemu_img("convert", *COPY, "--target-is-zero", str(path), "--target-image-opts", target, stopped=stopped)

    def qemu_img(self, *words: str, stopped: Stopped = never) -> None:
        """Run ``qemu-img``, which connects to Ceph itself. Raises CephError, StoppedError."""
        self._program(stopped, "qemu-img", words[0], "-q", *words[1:])

    def grow(self, image: str, size: int) -> None:
        """Extend the image to ``size`` bytes. A larger image is left unchanged."""
        try:
            self._rbd("resize", "--no-progress", "--size", f"{size}B", self._spec(image))
        except CephError as error:
            if error.number != errno.EINVAL or (self.size(image) or 0) < size:  # rbd refuses to shrink
                raise

    def rename(self, image: str, name: str) -> None:
        self._rbd("rename", self._spec(image), self._spec(name))

    def used(self, image: str) -> int:
        """Return the bytes of the image's own objects, without the objects of its snapshots. Each object counts with
        its full size.
        """
        try:
            listed = json.loads(self._rbd("du", self._spec(image), "--format", "json"))["images"]
        except CephError:  # without the feature fast-diff it takes long
            return self.size(image) or 0
        return sum(int(each["used_size"]) for each in listed)

    def remove(self, image: str) -> int:
        """Remove the image and its snapshots. An image that clones still need is moved to the trash until ``sweep``.

        Succeeds if the image does not exist. Clients that have the image open are fenced. Returns the bytes that were
        moved to the trash.
        """
        if self.size(image) is None:
            return 0
        used = 0
        for snapshot in self.snapshots(image):
            self.remove_snapshot(image, snapshot)
        for fenced in (False, True):
            try:
                self._long(never, "rm", "--no-progress", self._spec(image))
            except CephError as error:
                if error.number == errno.ENOTEMPTY:
                    used = self.used(image)
                    self._unless(errno.ENOENT, "trash", "mv", self._spec(image))
                elif error.number == errno.EBUSY and not fenced:
                    self.fence(image)
                    continue
                else:
                    raise
            break
        return used

    def trash(self) -> dict[str, str]:
        """Return the images in the trash: internal id → name."""
        listed = json.loads(self._rbd("trash", "ls", self.location.pool, "--format", "json"))
        return {entry["id"]: entry["name"] for entry in listed}

    def sweep(self, prefixes: Sequence[str]) -> list[str]:
        """Permanently remove images from the trash whose names begin with a prefix and that no clone needs. Return
        their names.
        """
        removed = []
        for number, name in self.trash().items():
            if not name.startswith(tuple(prefixes)):
                continue
            try:
                self._long(never, "trash", "rm", "--no-progress", f"{self.location.pool}/{number}")
            except CephError as error:
                if error.number not in (errno.ENOTEMPTY, errno.ENOENT):
                    log.warning("An image remains in the trash of pool %s: %s", self.location.pool, error.detail)
            else:
                removed.append(name)
        return removed

    # --- snapshots --------------------------------------------------------------------------------------------------

    def snapshots(self, image: str) -> list[str]:
        """List the image's snapshots, oldest first, without removed snapshots that only clones need."""
        listed = json.loads(self._rbd("snap", "ls", self._spec(image), "--format", "json"))
        return [entry["name"] for entry in listed]

    def snapshot(self, image: str, snapshot: str) -> None:
        """Freeze the current content of the image, in use or not, unless the snapshot exists.

        The client that has the image open first flushes its cache.
        """
        self._unless(errno.EEXIST, "snap", "create", "--no-progress", self._spec(image, snapshot))

    def rename_snapshot(self, image: str, snapshot: str, name: str) -> None:
        """Rename a snapshot, unless the image has only a snapshot with the new name."""
        try:
            self._rbd("snap", "rename", self._spec(image, snapshot), self._spec(image, name))
        except CephError as error:
            if error.number != errno.ENOENT or name not in self.snapshots(image):
                raise

    def remove_snapshot(self, image: str, snapshot: str) -> None:
        """Remove a snapshot. Its clones stay complete. Succeeds if the snapshot does not exist."""
        self._unless(errno.ENOENT, "snap", "rm", "--no-progress", self._spec(image, snapshot))

    def rollback(self, image: str, snapshot: str) -> None:
        """Replace the data and size of a closed image with the data and size of its snapshot."""
        self._long(never, "snap", "rollback", "--no-progress", self._spec(image, snapshot))

    def has_clones(self, image: str) -> bool:
        """Return whether clones need data of the image."""
        return bool(json.loads(self._rbd("children", "--all", self._spec(image), "--format", "json")))

    def parent(self, image: str, *, number: bool = False) -> Parent | None:
        """Return the image that this image is a clone of; None if it is not a clone. ``number``: ``image`` is the
        internal id of an image in the trash.
        """
        whose = ("--pool", self.location.pool, "--image-id", image) if number else (self._spec(image),)
        record = json.loads(self._rbd("info", *whose, "--format", "json")).get("parent")
        if record is None:
            return None
        return Parent(record["image"], record.get("id", ""), deleted=bool(record.get("trash")))

    def flatten(self, image: str, stopped: Stopped = never) -> None:
        """Copy into the image all data that it reads from its parents. The image may be in use. Raises StoppedError."""
        try:
            self._long(stopped, "flatten", "--no-progress", self._spec(image))
        except CephError as error:
            if error.number != errno.EINVAL or self.parent(image) is not None:  # not a clone
                raise

    def all_snapshots(self) -> dict[str, dict[str, int]]:
        """List the images with the sizes of their snapshots, oldest first, in one call."""
        result: dict[str, dict[str, int]] = {}
        for entry in json.loads(self._rbd("ls", "-l", self.location.pool, "--format", "json")):
            sizes = result.setdefault(entry["image"], {})
            if "snapshot" in entry:
                sizes[entry["snapshot"]] = int(entry["size"])
        return result

    def age(self, image: str) -> float:
        """Return the age of the image in seconds."""
        text = json.loads(self._rbd("info", self._spec(image), "--format", "json"))["create_timestamp"]
        return time.time() - time.mktime(time.strptime(text))

    # --- what has changed -------------------------------------------------------------------------------------------

    def differences(self, image: str, snapshot: str, since: str = "") -> list[tuple[int, int, bool]]:
        """List the parts of a snapshot, or with ``since`` the parts that may differ from that snapshot: offset, length,
        and True if the part has data.
        """
        earlier = ["--from-snap", since] if since else []
        listed = json.loads(self._rbd("diff", *earlier, self._spec(image, snapshot), "--format", "json"))
        return [(each["offset"], each["length"], each["exists"] == "true") for each in listed]

    def export_diff(self, image: str, snapshot: str, path: Path, since: str = "", stopped: Stopped = never) -> None:
        """Write the data of a snapshot to a file, or with ``since`` only the changes since that snapshot."""
        earlier = ["--from-snap", since] if since else []
        self._long(stopped, "export-diff", "--no-progress", *earlier, self._spec(image, snapshot), str(path))

    def import_diff(self, path: Path, image: str, stopped: Stopped = never) -> None:
        """Apply a file of ``export_diff`` to an image that has the earlier snapshot, and create the newer snapshot."""
        self._long(stopped, "import-diff", "--no-progress", str(path), self._spec(image))

    # --- clients of an image ----------------------------------------------------------------------------------------

    def watchers(self, image: str) -> list[str]:
        """List the addresses of the clients that have the image open for writing, here or elsewhere."""
        status = json.loads(self._rbd("status", self._spec(image), "--format", "json"))
        return [watcher["address"] for watcher in status["watchers"]]

    def set_meta(self, image: str, key: str, value: str) -> None:
        """Store a value in the image's metadata."""
        self._rbd("image-meta", "set", self._spec(image), key, value)

    def meta(self, image: str, key: str) -> str:
        """Return a value of the image's metadata (``set_meta``); empty if there is none."""
        listed: dict[str, str] = json.loads(
            self._rbd("image-meta", "list", self._spec(image), "--format", "json") or "{}"
        )
        return listed.get(key, "")

    def forget_meta(self, image: str, key: str) -> None:
        """Remove a value from the image's metadata. Succeeds if there is none."""
        self._unless(errno.ENOENT, "image-meta", "remove", self._spec(image), key)

    def fence(self, image: str, spared: str = "") -> list[str]:
        """Block writes from all clients that have the image open now, except the one with the address ``spared``, and
        return their addresses.

        A client that died holds the image's lock until its watch ends: the next writer would wait for 17 to 30 s.
        Breaking the lock adds the client to the cluster's blocklist (``profile rbd`` of the monitor allows that), so
        that even a client that only seemed to be dead cannot write; a watcher without the lock is added as well.
        """
        fenced = []
        for lock in json.loads(self._rbd("lock", "ls", self._spec(image), "--format", "json")):
            if lock["address"] != spared:
                self._unless(errno.ENOENT, "lock", "rm", self._spec(image), lock["id"], lock["locker"])
                fenced.append(lock["address"])
        for address in self.watchers(image):
            if address not in (*fenced, spared):
                self._ceph("osd", "blocklist", "add", address)
                fenced.append(address)
        return fenced

    # --- inside -----------------------------------------------------------------------------------------------------

    def _spec(self, image: str, snapshot: str = "") -> str:
        return f"{self.location.pool}/{image}" + (f"@{snapshot}" if snapshot else "")

    def _ceph(self, *words: str) -> bytes:
        try:
            return run_program("ceph", *self.location.arguments, *words, limits=QUICK)
        except ProgramError as error:
            raise CephError(str(error), error.number) from error

    def _rbd(self, *words: str) -> bytes:
        try:
            return run_program("rbd", *self.location.arguments, *words, limits=QUICK)
        except ProgramError as error:
            raise CephError(str(error), error.number) from error

    def _unless(self, number: int, *words: str) -> None:
        """Run ``rbd``. Ignore the error with this number, which means that there is nothing left to do."""
        try:
            self._rbd(*words)
        except CephError as error:
            if error.number != number:
                raise

    def _long(self, stopped: Stopped, *words: str) -> None:
        self._program(stopped, "rbd", *self.location.arguments, *words)

    @staticmethod
    def _program(stopped: Stopped, *command: str) -> None:
        try:
            run_long(*command, limits=LONG, stopped=stopped)
        except ProgramError as error:
            if stopped():
                raise StoppedError("The copy was not completed.") from error
            raise CephError(str(error), error.number) from error
