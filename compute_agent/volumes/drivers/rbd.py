"""Volumes as images in a pool of a Ceph cluster, for clouds that need more than one storage machine.

A volume is the image ``volume-ID``; its snapshots are snapshots of this image. An image of the cloud is stored in the
pool once, as ``image-…@base``. Volumes created from it, or from snapshots, are clones, so nothing is copied. An
encrypted volume is an image with LUKS that the storage daemon decrypts: the cluster never has the key.
"""

import contextlib
import errno
import functools
import logging
import os
import socket
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from compute_agent.contract.build import ImageRef
from compute_agent.contract.volume import ROOT, StoredVolume, VolumeEncryption, VolumeSpec, is_unmanaged
from compute_agent.images.cache import NAME as CACHED_NAME
from compute_agent.images.cache import cached_name
from compute_agent.virt.driver import Stopped, never
from compute_agent.virt.errors import ImageUnacceptableError
from compute_agent.volumes.daemons.qmp import DaemonError
from compute_agent.volumes.driver import (
    GIB,
    KEPT_FREE,
    NO_ROOM,
    TWO_SNAPSHOTS,
    Extent,
    Opening,
    OpenVolume,
    PoolCapacity,
    PoolSettings,
    VolumeDriver,
)
from compute_agent.volumes.errors import PoolUnavailableError, VolumeInUseError, VolumeNotFoundError
from compute_agent.volumes.files import luks
from compute_agent.volumes.rbd.bases import IMAGE, UNFINISHED, ImageBases, base_name
from compute_agent.volumes.rbd.images import COPY, NAMESPACE, CephError, CephImages, Parent
from compute_agent.volumes.rbd.location import parse
from compute_agent.volumes.rbd.pool_lock import OWNERS, pool_lock
from compute_agent.volumes.rbd.pool_secret import pool_secret

log = logging.getLogger(__name__)

VOLUME = "volume-"
ENDS_WITHIN = 2.0
"""Seconds in which an ending daemon has to release the volume."""
OWNER, PREVIOUS, JOINED = "novella.host", "novella.previous", "novella.joined"
"""Keys in the metadata of images: the host that the image is assigned to, the volume's id before it was renamed, and
the host that has joined the volume, with the address of its client.
"""
NODE, FILE, KEY = "volume", "-file", "key"


class RbdDriver(VolumeDriver):
    """A pool of Ceph: ``--volume-pool NAME=rbd:POOL?conf=FILE&id=CLIENT``."""

    name = "rbd"
    shared = remote = flattens_alone = can_join = True
    capabilities: ClassVar[dict[str, str]] = {
        "multiattach": "true",
        "online_extend": "true",
        "encryption": "true",
        "fast_clone": "true",
    }

    def __init__(self, settings: PoolSettings) -> None:
        """Read the location.  Raises ValueError."""
        super().__init__(settings)
        self.images = CephImages(parse(settings.location))
        self._bases = ImageBases(self.images, settings.host)
        self._in_trash: dict[str, int] = {}

    # ----- the pool -------------------------------------------------------------------------------------------------

    def prepare(self) -> str:
        """Check that the programs are installed and the cluster answers. Return the UUID derived from the cluster and
        the pool.
        """
        if reason := self.images.unfit():
            raise PoolUnavailableError(reason)
        return self.images.pool_id()

    def secret(self) -> str:
        return pool_secret(self.images.location)

    def capacity(self) -> PoolCapacity:
        capacity = self.images.capacity()
        return PoolCapacity(total=capacity.total, free=capacity.free)

    def contents(self) -> list[StoredVolume]:
        volumes = [
            StoredVolume(
                id=image.removeprefix(VOLUME),
                snapshots=list(sizes),
                unmanaged={name: size - size % GIB for name, size in sizes.items() if is_unmanaged(name)},
            )
            for image, sizes in self.images.all_snapshots().items()
            if image.startswith(VOLUME) and UNFINISHED not in image
        ]
        gone = {image.removeprefix(VOLUME) for image in self.images.trash().values() if image.startswith(VOLUME)}
        return volumes + [StoredVolume(id=volume_id, gone=True) for volume_id in sorted(gone)]

    def names(self) -> list[str]:
        images = (image for image in self.images.names() if image.startswith(VOLUME) and UNFINISHED not in image)
        return [image.removeprefix(VOLUME) for image in images]

    def snapshots(self, volume_id: str) -> list[str]:
        try:
            return self.images.snapshots(_image(volume_id))
        except CephError as error:
            if error.number == errno.ENOENT:
                return []
            raise

    def has_image(self, image: ImageRef) -> bool:
        return self.images.size(base_name(cached_name(image))) is not None

    def sweep(self) -> list[str]:
        """Remove images that this host left unfinished, and the objects that ``prune`` removes."""
        removed = []
        for image in self.images.names():
            if image.endswith(self._bases.unfinished):
                base = image.removesuffix(self._bases.unfinished)
                if not self._bases.locks[base].acquire(blocking=False):
                    continue
                with contextlib.ExitStack() as held:
                    held.callback(self._bases.locks[base].release)
                    self.images.remove(image)
                    removed.append(image)
        return removed + self.prune()

    def kept(self) -> dict[str, int]:
        """List the volumes in the trash, with the size measured when this host moved them there: Ceph cannot measure
        the trash.
        """
        gone = [image.removeprefix(VOLUME) for image in self.images.trash().values() if image.startswith(VOLUME)]
        result = {volume_id: self._in_trash.get(volume_id, 0) for volume_id in gone}
        self._in_trash = {volume_id: size for volume_id, size in result.items() if size}
        return result

    def prune(self) -> list[str]:
        """Remove images of the cloud that have no clones, and images in the trash that no clone needs."""
        return self.images.sweep((VOLUME, IMAGE)) + self._bases.prune()

    # ----- volumes --------------------------------------------------------------------------------------------------

    def create(self, volume: VolumeSpec) -> None:
        """Create an empty image. With LUKS it reads as noise, never as earlier data of another user."""
        if volume.encryption is None:
            self.images.create(_image(volume.id), volume.size_gb * GIB)
            return
        with self._whole(_image(volume.id)) as new:
            if new:
                self._format(volume, volume.encryption, new)

    def create_from_image(self, volume: VolumeSpec, image: Path, stopped: Stopped = never) -> None:
        """Clone the image, after importing it if the pool does not have it. With LUKS, copy the image instead."""
        if image.stat().st_size > volume.size_gb * GIB:
            raise ImageUnacceptableError(f"The image is larger than {volume.size_gb} GiB.")
        if volume.encryption is not None:
            with self._whole(_image(volume.id)) as new:
                if new:
                    self._format(volume, volume.encryption, new)
                    self._fill(volume.encryption, image, new, stopped)
        elif CACHED_NAME.fullmatch(image.name):
            while not self._bases.clone(self._bases.bring(image, stopped), _image(volume.id), volume.size_gb * GIB):
                log.info("Image %s was removed from the pool while it was needed; it is imported again.", image.name)
        else:
            with self._whole(_image(volume.id)) as new:
                if new:
                    self.images.import_file(image, new, stopped)
                    self.images.grow(new, volume.size_gb * GIB)

    def clone_image(self, volume: VolumeSpec, image: ImageRef) -> bool:
        """Clone an image that some host has imported. Return False with LUKS, because this host has to encrypt the
        data.
        """
        if volume.encryption is not None:
            return False
        base = base_name(cached_name(image))
        size = self._bases.size(base)
        if size is not None and size > volume.size_gb * GIB:
            raise ImageUnacceptableError(f"The image is larger than {volume.size_gb} GiB.")
        return size is not None and self._bases.clone(base, _image(volume.id), volume.size_gb * GIB)

    def create_from_snapshot(self, volume: VolumeSpec, source_id: str, snapshot_id: str) -> None:
        with _missing("snapshot"):
            self.images.clone(_image(source_id), snapshot_id, _image(volume.id))
        self.grow(volume)

    def delete(self, volume_id: str) -> None:
        """Remove the image, or move it to the trash if clones need it. Then remove images from the trash that are no
        longer needed because this clone is deleted.
        """
        os.close(self._reserve_name(volume_id))
        if used := self.images.remove(_image(volume_id)):
            self._in_trash[volume_id] = used
        while self.images.sweep((VOLUME,)):
            pass

    def rename(self, volume_id: str, new_id: str) -> None:
        try:
            with _missing():
                self.images.set_meta(_image(volume_id), PREVIOUS, volume_id)
                self.images.rename(_image(volume_id), _image(new_id))
        except CephError as error:
            if error.number == errno.EEXIST:
                raise VolumeInUseError("There is already a volume with this id.") from error
            raise

    def previous_id(self, volume_id: str) -> str:
        with _missing():
            return self.images.meta(_image(volume_id), PREVIOUS)

    def grow(self, volume: VolumeSpec, daemon: OpenVolume | None = None) -> None:
        """Resize the image. A daemon that has it open opens it a second time, because a node keeps its initial size.

        The guest writes through one of the two nodes at a time. The writing node has the image's lock: before Ceph
        moves the lock, the previous node flushes the writes that it has cached.
        """
        image = _image(volume.id)
        with _missing():
            self.images.grow(image, volume.size_gb * GIB + self._header(volume))
        if daemon is None:
            return
        known = {node["node-name"] for node in daemon.execute("query-named-block-nodes", flat=True)}
        if self.top(volume) not in known:
            daemon.execute("blockdev-add", **self.opening(volume).blockdev)
        for name in known:
            if name.startswith(f"{NODE}-") and not name.endswith(FILE) and name != self.top(volume):
                with contextlib.suppress(DaemonError):  # it is exported
                    daemon.execute("blockdev-del", node_name=name)

    def size(self, volume_id: str) -> int:
        size = self.images.size(_image(volume_id))
        if size is None:
            raise VolumeNotFoundError
        return size - size % GIB

    def snapshot(self, volume: VolumeSpec, snapshot_id: str, daemon: OpenVolume | None = None) -> None:
        """Create the snapshot; Ceph first flushes the writes that the daemon has cached in memory."""
        if daemon is None:
            os.close(self._reserve_name(volume.id))
        with _missing():
            self.images.snapshot(_image(volume.id), snapshot_id)

    def delete_snapshot(
        self, volume: VolumeSpec, snapshot_id: str, daemon: OpenVolume | None = None, stopped: Stopped = never
    ) -> None:
        self.images.remove_snapshot(_image(volume.id), snapshot_id)

    def rename_snapshot(self, volume: VolumeSpec, name: str, new_name: str) -> None:
        try:
            with _missing("snapshot"):
                self.images.rename_snapshot(_image(volume.id), name, new_name)
        except CephError as error:
            if error.number == errno.EEXIST:
                raise VolumeInUseError(TWO_SNAPSHOTS) from error
            raise

    def depth(self, volume_id: str) -> int:
        """Count the volumes in the image's chain of parents. Images of the cloud do not count."""
        with _missing():
            result, parent = 0, self.images.parent(_image(volume_id))
            while parent is not None and parent.image.startswith(VOLUME):
                result += 1
                parent = self.images.parent(parent.number if parent.deleted else parent.image, number=parent.deleted)
        return result

    def crowded(self) -> list[str]:
        """List volumes that are the only clone of a deleted volume whose own parent is deleted as well.

        Ceph is queried for each volume only if there are several deleted volumes.
        """
        deleted = {number for number, name in self.images.trash().items() if name.startswith(VOLUME)}
        if len(deleted) < 2:
            return []
        parents: dict[str, Parent] = {}
        for image, is_number in [(_image(each), False) for each in self.names()] + [(each, True) for each in deleted]:
            with contextlib.suppress(CephError):  # it was removed meanwhile
                parent = self.images.parent(image, number=is_number)
                if parent is not None:
                    parents[image] = parent
        clones = Counter(parent.number for parent in parents.values())
        return sorted(
            image.removeprefix(VOLUME)
            for image, parent in parents.items()
            if image not in deleted and clones[parent.number] == 1
            if parent.number in deleted and parent.number in parents and parents[parent.number].number in deleted
        )

    def flatten(
        self, volume: VolumeSpec, daemon: OpenVolume | None, stopped: Stopped, *, everything: bool = False
    ) -> None:
        """Let Ceph copy all data that the image reads from others, even without ``everything``."""
        capacity = self.capacity()
        if capacity.free < capacity.total * KEPT_FREE:
            raise PoolUnavailableError(NO_ROOM)
        with _missing():
            self.images.flatten(_image(volume.id), stopped)
        while self.images.sweep((VOLUME,)):
            pass

    def revert(self, volume: VolumeSpec, snapshot_id: str) -> None:
        """Roll the image back. The duration depends on the amount of data in the image."""
        with _missing("snapshot"):
            header = self._header(volume)
            self.images.fence(_image(volume.id))
            self.images.rollback(_image(volume.id), snapshot_id)
        self.images.grow(_image(volume.id), volume.size_gb * GIB + header)

    # ----- opening --------------------------------------------------------------------------------------------------

    def opening(self, volume: VolumeSpec) -> Opening:
        opening = _opening(self.images.location.node(_image(volume.id)), volume.encryption, self.top(volume))
        return replace(opening, as_root=self._as_root)

    def snapshot_opening(self, volume: VolumeSpec, snapshot_id: str) -> Opening:
        node = self.images.location.node(_image(volume.id)) | {"snapshot": snapshot_id}
        name = f"s{uuid.uuid5(NAMESPACE, snapshot_id).hex[:20]}"
        return replace(_opening({**node, "read-only": True}, volume.encryption, name), as_root=self._as_root)

    @functools.cached_property
    def _as_root(self) -> bool:
        """Return whether daemons have to run as root, because the account of storage daemons cannot read the Ceph
        keyrings or configuration.
        """
        account = self.settings.account
        if account is None:
            return False
        needed = [self.images.location.conf, *self.images.keyrings()]
        if all(account.may_read(path) for path in needed):
            return False
        log.warning("Storage daemons of pool %s run as root: let %s read %s.", self.settings.name, account.name, needed)
        return True

    def top(self, volume: VolumeSpec) -> str:
        return f"{NODE}-{volume.size_gb}"

    def hold(self, volume_id: str, *, again: bool = False) -> list[int]:
        """Lock the volume for this host, and fence clients that have the image open elsewhere or had it open here.

        The portal has decided that only this host's daemon may open the volume; the host is recorded as the image's
        owner. Without a fence, the daemon that died, or the daemon of a failed host, would keep the image locked for
        half a minute. A daemon on a host that is only disconnected could continue to write. A disconnected host that
        restarts its daemons (``again``) has only an older decision of the portal. Therefore it first checks that it is
        still the image's owner, and does not fence the host that has joined the volume. Otherwise a host that has
        joined a root disk can no longer acquire it.
        """
        descriptor, image = self._reserve_name(volume_id), _image(volume_id)
        try:
            with _missing():
                joined = self._joined(image)[1] if again or volume_id.startswith(ROOT) else ""
                if again:
                    self._check_owner(image)
                    fenced = self.images.fence(image, joined)
                elif joined:
                    fenced = self._assign(image)
                else:
                    self.images.set_meta(image, OWNER, self.settings.host)
                    fenced = self.images.fence(image)
        except BaseException:
            os.close(descriptor)
            raise
        if fenced:
            log.warning("Volume %s was still open at %s: that client is on Ceph's blocklist.", volume_id, fenced)
        return [descriptor]

    @contextlib.contextmanager
    def joining(self, volume_id: str, new_id: str) -> Iterator[list[int]]:
        """Record the client that opens the image in the block. The image's lock passes between both clients when they
        write.
        """
        descriptor, image = self._reserve_name(new_id), _image(volume_id)
        try:
            with _missing():
                before = set(self.images.watchers(image))
                yield [descriptor]
                new = set(self.images.watchers(image)) - before
                if len(new) != 1:
                    raise VolumeInUseError("Several hosts have opened the volume.")
                self.images.set_meta(image, JOINED, f"{self.settings.host} {new.pop()}")
        finally:
            os.close(descriptor)

    def acquire(self, volume_id: str, new_id: str) -> None:
        with _missing(), pool_lock(self.images.location, OWNERS):  # as _assign, of which it is the opposite
            image = _image(volume_id)
            host, address = self._joined(image)
            if host != self.settings.host:
                raise VolumeInUseError("Another host has acquired the volume.")
            self.images.set_meta(image, OWNER, host)
            self.images.fence(image, address)
            self.rename(volume_id, new_id)
            self.images.forget_meta(_image(new_id), JOINED)

    def is_joined(self, volume_id: str) -> bool:
        with _missing():
            return self._joined(_image(volume_id))[0] not in ("", self.settings.host)

    def expel(self, volume_id: str) -> None:
        with _missing():
            self._assign(_image(volume_id))

    def _assign(self, image: str) -> list[str]:
        """Assign an image to this host alone, and return the fenced clients. A host that has joined the image acquires
        it before or not at all: otherwise the image could have the name of that host while its client is blocked.
        """
        with pool_lock(self.images.location, OWNERS):
            self.images.set_meta(image, OWNER, self.settings.host)
            self.images.forget_meta(image, JOINED)
            return self.images.fence(image)

    def _joined(self, image: str) -> tuple[str, str]:
        """Return the host that has joined the volume, and the address of its client; both are empty if there is
        none.
        """
        host, _, address = self.images.meta(image, JOINED).rpartition(" ")
        return host, address

    def _check_owner(self, image: str) -> None:
        if self.images.meta(image, OWNER) not in ("", self.settings.host):
            raise VolumeInUseError("Another host has acquired the volume in the meantime.")

    def _reserve_name(self, volume_id: str) -> int:
        """Return the descriptor of an abstract unix socket whose name only one process of this host can have at a time.
        Raises VolumeInUseError.
        """
        mark = socket.socket(socket.AF_UNIX)
        deadline = time.monotonic() + ENDS_WITHIN
        while True:
            try:
                mark.bind(f"\0novella-rbd/{self.settings.host}/{volume_id}")
            except OSError as error:
                if time.monotonic() > deadline:
                    mark.close()
                    raise VolumeInUseError("The volume is open on its host.") from error
                time.sleep(0.02)
            else:
                return mark.detach()

    # ----- increments -----------------------------------------------------------------------------------------------

    def changes(self, volume: VolumeSpec, snapshot_id: str, since: str = "") -> list[Extent]:
        """Return the differences that the cluster reports. For an encrypted volume, discarded parts count as data."""
        with _missing("snapshot"):
            header = self._header(volume)
            parts = self.images.differences(_image(volume.id), snapshot_id, since)
        extents: list[Extent] = []
        for offset, length, data in parts:
            begin, end = max(offset - header, 0), offset + length - header
            zero = not data and volume.encryption is None
            last = extents[-1] if extents else None
            if last is not None and (last.offset + last.length, last.zero) == (begin, zero):
                extents[-1] = Extent(last.offset, end - last.offset, zero)
            elif end > begin:
                extents.append(Extent(begin, end - begin, zero))
        return extents

    # ----- inside ---------------------------------------------------------------------------------------------------

    def _header(self, volume: VolumeSpec) -> int:
        """Return the size of the LUKS header in bytes: the rest above whole GiB, because the size of a volume is whole
        GiB.
        """
        if volume.encryption is None:
            return 0
        size = self.images.size(_image(volume.id))
        if size is None:
            raise VolumeNotFoundError
        return size % GIB

    @contextlib.contextmanager
    def _whole(self, image: str) -> Iterator[str]:
        """Yield the temporary name under which the image is created before it is renamed; "" if it exists already."""
        if self.images.size(image) is not None:
            yield ""
            return
        new = image + self._bases.unfinished
        with self._bases.locks[image]:
            self.images.remove(new)
            yield new
            self.images.rename(new, image)

    def _format(self, volume: VolumeSpec, encryption: VolumeEncryption, image: str) -> None:
        """Create an image with LUKS that has space for the volume in addition to the header."""
        location = self.images.location
        target = f"rbd:{location.pool}/{image}:conf={_escaped(str(location.conf))}:id={location.client}"
        algorithm, mode, vector = encryption.cipher.split("-")
        bits = encryption.key_size // 2 if mode == "xts" else encryption.key_size
        derived = f"key-secret={KEY},iter-time={luks.ITERATIONS}"
        options = f"{derived},cipher-alg={algorithm}-{bits},cipher-mode={mode},ivgen-alg={vector}"
        words = ("-f", "luks", "-o", options, target, f"{volume.size_gb}G")

        def make() -> None:
            try:
                with luks.key_file(encryption, KEY) as secret:
                    self.images.qemu_img("create", "--object", secret, *words)
            except CephError:
                self.images.remove(image)
                raise

        luks.make_header(make)

    def _fill(self, encryption: VolumeEncryption, path: Path, image: str, stopped: Stopped) -> None:
        node = {f"file.{name}": value for name, value in self.images.location.node(image).items()}
        target = ",".join(f"{name}={value}" for name, value in {"driver": "luks", "key-secret": KEY, **node}.items())
        with luks.key_file(encryption, KEY) as secret:
            words = ("--object", secret, *COPY, str(path), "--target-image-opts", target)
            self.images.qemu_img("convert", *words, stopped=stopped)


def _image(volume_id: str) -> str:
    return VOLUME + volume_id


@contextlib.contextmanager
def _missing(what: str = "volume") -> Iterator[None]:
    """Convert Ceph's "not found" into VolumeNotFoundError."""
    try:
        yield
    except CephError as error:
        if error.number == errno.ENOENT:
            raise VolumeNotFoundError(what) from error
        raise


def _opening(node: dict[str, Any], encryption: VolumeEncryption | None, name: str) -> Opening:
    node = {**node, "discard": "unmap", "node-name": name if encryption is None else name + FILE}
    if encryption is None:
        return Opening(node)
    read_only = bool(node.get("read-only"))
    luks = {"driver": "luks", "node-name": name, "key-secret": KEY, "read-only": read_only, "file": node}
    secret = {"qom-type": "secret", "id": KEY, "format": "base64", "data": encryption.key}
    return Opening(luks, (secret,))


def _escaped(text: str) -> str:
    """Escape the characters that have a meaning in QEMU's names of Ceph images."""
    for character in "\\:=@":
        text = text.replace(character, "\\" + character)
    return text


DRIVER = RbdDriver
