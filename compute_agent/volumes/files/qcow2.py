"""The common volume driver of pools of qcow2 files. ``nbd`` and ``dir`` differ in the hosts that can access
the folder.
"""

import contextlib
import functools
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from compute_agent.contract.volume import StoredVolume, UnmanagedDisk, VolumeSpec
from compute_agent.virt.driver import Stopped, never
from compute_agent.virt.errors import ImageUnacceptableError, StoppedError
from compute_agent.virt.processes import progress
from compute_agent.virt.processes.durable import keep
from compute_agent.virt.processes.programs import Limits, ProgramError, run_long, run_program
from compute_agent.virt.processes.rights import Rights
from compute_agent.virt.processes.storage_account import StorageAccount
from compute_agent.volumes.daemons.qmp import DaemonError
from compute_agent.volumes.driver import (
    GIB,
    KEPT_FREE,
    NO_ROOM,
    TOO_LARGE,
    TWO_SNAPSHOTS,
    Extent,
    Opening,
    OpenVolume,
    PoolCapacity,
    PoolSettings,
    VolumeDriver,
)
from compute_agent.volumes.errors import PoolUnavailableError, VolumeInUseError, VolumeNotFoundError
from compute_agent.volumes.files import flattening, luks, merging
from compute_agent.volumes.files.layers import IMAGE, Layers, node_name
from compute_agent.volumes.files.pool_folder import PoolFolder
from compute_agent.volumes.files.records import Layer, State
from compute_agent.volumes.files.unmanaged import UnmanageableError, UnmanagedDisks

log = logging.getLogger(__name__)

SECRET = "luks"  # noqa: S105 (the name of an object)
COPY = Limits(seconds=6 * 3600, cpu_seconds=3 * 3600, memory=2 << 30)


class Qcow2Driver(VolumeDriver):
    """Keeps the pool in ``settings.location``."""

    capabilities: ClassVar[Mapping[str, str]] = {
        "multiattach": "true",
        "online_extend": "true",
        "encryption": "true",
        "fast_clone": "true",
        "thin_provisioning": "true",
        "manage": "true",
    }

    def __init__(self, settings: PoolSettings) -> None:
        super().__init__(settings)
        self.layers = Layers(Path(settings.location), settings.account)
        self._place = PoolFolder(self.layers, settings.remembered)
        self.disks = UnmanagedDisks(self.layers.folder)

    # ----- the pool -------------------------------------------------------------------------------------------------

    def prepare(self) -> str:
        return self._place.prepare()

    def check(self) -> None:
        self._place.check()

    def secret(self) -> str:
        return self._place.secret()

    def capacity(self) -> PoolCapacity:
        return self._place.capacity()

    def contents(self) -> list[StoredVolume]:
        return self.layers.stored()

    def names(self) -> list[str]:
        return self.layers.names()

    def snapshots(self, volume_id: str) -> list[str]:
        state = self.layers.find(volume_id)
        return [] if state is None or state.gone else sorted(state.snapshots)

    def kept(self) -> dict[str, int]:
        return self.layers.kept()

    def sweep(self) -> list[str]:
        removed, needed = [], self.layers.needed()
        for path in sorted(self.layers.volumes.glob("*")):
            if not self.layers.is_tidy(path.name, needed):
                busy = contextlib.suppress(VolumeNotFoundError, VolumeInUseError)
                with busy, self.layers.locked(path.name, wait=False):
                    removed += self.layers.collect(path.name)
        with contextlib.suppress(VolumeInUseError):
            removed += self.layers.collect_images(wait=False)
        return removed

    # ----- making and removing --------------------------------------------------------------------------------------

    def create(self, volume: VolumeSpec) -> None:
        with self.layers.locked(volume.id, make=True):
            self._make(volume, "")

    def create_from_image(self, volume: VolumeSpec, image: Path, stopped: Stopped = never) -> None:
        if image.stat().st_size > volume.size_gb * GIB:
            raise ImageUnacceptableError(TOO_LARGE)
        with self.layers.locked(volume.id, make=True):
            if self.layers.find(volume.id) is not None:
                return
            with self.layers.locked_images():
                self._store_image(image, stopped)
                self._make(volume, IMAGE + image.name)

    def reimage(self, volume: VolumeSpec, image: Path, stopped: Stopped = never) -> bool:
        """Add a new top layer that is based on the image. Earlier data is removed, unless snapshots or
        clones need it.
        """
        with self._changing(volume, None) as state:
            if image.stat().st_size > state.size:
                raise ImageUnacceptableError(TOO_LARGE)
            with self.layers.locked_images():
                self._store_image(image, stopped)
                self._lay(volume, state, IMAGE + image.name, state.size)
            self.layers.collect(volume.id)
        self.layers.collect_images()
        return True

    def _store_image(self, image: Path, stopped: Stopped) -> None:
        """Store the image's file in the pool: as a hard link if possible, otherwise as a copy, with reflinks if
        possible.
        """
        target = self.layers.images / image.name
        if target.exists():
            return
        part = target.with_name(target.name + ".part")
        part.unlink(missing_ok=True)
        try:
            os.link(image, target)
        except OSError:
            try:
                run_long("cp", "--reflink=auto", "--sparse=always", str(image), str(part), limits=COPY, stopped=stopped)
            except ProgramError as error:
                part.unlink(missing_ok=True)
                if stopped():
                    raise StoppedError("The image was not copied completely.") from error
                raise PoolUnavailableError("The pool has no space for the image.", detail=str(error)) from error
            part.chmod(0o400)
            keep(part, target)

    def unmanaged(self) -> list[UnmanagedDisk]:
        return self.disks.listed()

    def adopt(self, volume: VolumeSpec, name: str) -> None:
        image = f"adopted-{volume.id}"
        first, below = self.layers.path(f"{volume.id}/1"), self.layers.path(IMAGE + image)
        with self.layers.locked(volume.id, make=True), self.layers.locked_images():
            if self.layers.find(volume.id) is None:
                for unfinished in (first, below):
                    unfinished.unlink(missing_ok=True)
                kind, size = self.disks.look(name)
                if size > volume.size_gb * GIB:
                    raise UnmanageableError("The disk is larger than the volume.")
                if kind == "raw":
                    self.disks.link(name, below)
                    self._make(volume, IMAGE + image)
                else:
                    self.disks.link(name, first)
                    state = State(size=size, layers={1: Layer()})
                    self.layers.save(volume.id, state)
                    if size < volume.size_gb * GIB:
                        self._push(volume, state, volume.size_gb * GIB)
            self.disks.forget(name, below if below.exists() else first)

    def leave(self, volume: VolumeSpec, name: str, write: Callable[[Path], None]) -> None:
        if self.layers.find(volume.id) is not None:
            self.disks.put(name, write)
            self.delete(volume.id)

    def create_from_snapshot(self, volume: VolumeSpec, source_id: str, snapshot_id: str) -> None:
        with self.layers.locked(volume.id, make=True):
            if self.layers.find(volume.id) is not None:
                return
            with self.layers.locked(source_id), self.layers.referring():
                source = self.layers.get(source_id)
                if snapshot_id not in source.snapshots:
                    raise VolumeNotFoundError("snapshot")
                self._make(volume, f"{source_id}/{source.snapshots[snapshot_id]}")

    def _make(self, volume: VolumeSpec, below: str) -> None:
        """Create the first layer of a volume, and then its state. Does nothing if the volume exists."""
        if self.layers.find(volume.id) is not None:
            return
        state = State(
            size=volume.size_gb * GIB, layers={1: Layer(below=below, encrypted=volume.encryption is not None)}
        )
        self._make_layer(volume, 1, below, state.size)
        self.layers.save(volume.id, state)

    def _make_layer(self, volume: VolumeSpec, number: int, below: str, size: int) -> None:
        path = self.layers.path(f"{volume.id}/{number}")
        path.unlink(missing_ok=True)
        words = ["qemu-img", "create", "-q", "-f", "qcow2"]
        if below:
            words += ["-u", "-b", str(self.layers.path(below)), "-F", "raw" if below.startswith(IMAGE) else "qcow2"]
        try:
            with _key(volume) as key:
                options = f"encrypt.format=luks,encrypt.key-secret={SECRET},encrypt.iter-time={luks.ITERATIONS}"
                words += [*key, *(("-o", options) if key else ()), str(path), str(size)]
                luks.make_header(functools.partial(run_program, *words))
            path.chmod(0o600)
        except (ProgramError, OSError) as error:
            path.unlink(missing_ok=True)
            raise PoolUnavailableError("The pool could not create the volume's file.", detail=str(error)) from error

    def delete(self, volume_id: str) -> None:
        try:
            with self.layers.locked(volume_id):
                state = self.layers.find(volume_id)
                below: list[str] = []
                if state is not None:
                    os.close(self.layers.hold(volume_id, self.settings.host))
                    with contextlib.suppress(PoolUnavailableError):
                        below = self.layers.chain(f"{volume_id}/{state.top}")
                    state.gone, state.snapshots = True, {}
                    self.layers.save(volume_id, state)
                self.layers.collect(volume_id)
        except VolumeNotFoundError:
            return
        self._collect_others(below, volume_id)
        if any(name.startswith(IMAGE) for name in below):
            self.layers.collect_images()

    def rename(self, volume_id: str, new_id: str) -> None:
        """Rename the folder of the volume. A volume that a daemon has open, here or on another host, is not renamed."""
        with self.layers.locked(volume_id):
            descriptor = self.layers.hold(volume_id, self.settings.host)
            try:
                self.layers.rename(volume_id, new_id)
            finally:
                os.close(descriptor)

    def previous_id(self, volume_id: str) -> str:
        return self.layers.get(volume_id).previous

    def size(self, volume_id: str) -> int:
        return self.layers.get(volume_id).size

    # ----- snapshots and size ---------------------------------------------------------------------------------------

    def grow(self, volume: VolumeSpec, daemon: OpenVolume | None = None) -> None:
        size = volume.size_gb * GIB
        with self._changing(volume, daemon) as state:
            if state.size < size:
                self._push(volume, state, size)
            self._follow(volume, state, daemon)

    def snapshot(self, volume: VolumeSpec, snapshot_id: str, daemon: OpenVolume | None = None) -> None:
        with self._changing(volume, daemon) as state:
            if snapshot_id not in state.snapshots:
                frozen = state.top
                state.snapshots[snapshot_id] = frozen
                self._push(volume, state, state.size)
            self._follow(volume, state, daemon)

    def _push(self, volume: VolumeSpec, state: State, size: int) -> None:
        """Add an empty layer as the new top, based on the present top, and save the state."""
        self._lay(volume, state, f"{volume.id}/{state.top}", size)

    def _lay(self, volume: VolumeSpec, state: State, below: str, size: int) -> None:
        """Create an empty layer based on ``below``, which becomes the top, and save the state."""
        number = state.next
        self._make_layer(volume, number, below, size)
        state.layers[number] = Layer(below=below, encrypted=volume.encryption is not None)
        state.top, state.size = number, size
        self.layers.save(volume.id, state)

    def _follow(self, volume: VolumeSpec, state: State, daemon: OpenVolume | None) -> None:
        """Switch the daemon to the top of the state, because it may still write to a layer that is frozen now.

        A node without a layer below it was opened by an agent that was killed before it based the node on the other
        layers; such nodes are removed and opened again.
        """
        if daemon is None:
            return
        nodes = daemon.execute("query-named-block-nodes", flat=True)
        below = {each["node-name"]: each.get("backing_file") for each in nodes}
        missing, chain = [], self.layers.chain(f"{volume.id}/{state.top}")
        for name in chain:
            if node_name(name) in below:
                if below[node_name(name)] or name == chain[-1]:
                    break
                daemon.execute("blockdev-del", node_name=node_name(name))
            missing.append(name)
        else:
            raise VolumeInUseError("The volume's storage daemon has another volume open.")
        for name in reversed(missing):
            old = self.layers.chain(name)[1]
            daemon.execute("blockdev-add", **self._node(name, volume), backing=None)
            daemon.execute("blockdev-snapshot", node=node_name(old), overlay=node_name(name))

    def delete_snapshot(
        self, volume: VolumeSpec, snapshot_id: str, daemon: OpenVolume | None = None, stopped: Stopped = never
    ) -> None:
        try:
            with self._changing(volume, daemon) as state:
                if snapshot_id in state.snapshots:
                    del state.snapshots[snapshot_id]
                    self.layers.save(volume.id, state)
                if daemon is not None:
                    self._follow(volume, state, daemon)
                    self._merge(volume.id, state, daemon, stopped)
                self.layers.collect(volume.id)
        except VolumeNotFoundError:
            return

    def rename_snapshot(self, volume: VolumeSpec, name: str, new_name: str) -> None:
        with self.layers.locked(volume.id):
            state = self.layers.get(volume.id)
            if name in state.snapshots and new_name in state.snapshots:
                raise VolumeInUseError(TWO_SNAPSHOTS)
            if name in state.snapshots:
                state.snapshots[new_name] = state.snapshots.pop(name)
                self.layers.save(volume.id, state)
            elif new_name not in state.snapshots:
                raise VolumeNotFoundError("snapshot")

    def forget_snapshot(self, volume: VolumeSpec, snapshot_id: str) -> None:
        with contextlib.suppress(VolumeNotFoundError), self.layers.locked(volume.id):
            state = self.layers.get(volume.id)
            if state.snapshots.pop(snapshot_id, None) is not None:
                self.layers.save(volume.id, state)

    def can_merge(self, volume_id: str) -> bool:
        return merging.mergeable(self.layers, volume_id, self.layers.get(volume_id)) is not None

    def merge(self, volume: VolumeSpec, daemon: OpenVolume, stopped: Stopped) -> None:
        with self._changing(volume, daemon) as state:
            self._merge(volume.id, state, daemon, stopped)
            self.layers.collect(volume.id)

    def depth(self, volume_id: str) -> int:
        return flattening.depth(self.layers, volume_id, self.layers.get(volume_id))

    def crowded(self) -> list[str]:
        readers = flattening.readers_of(self.layers)
        return [name for name, state in self.layers.states().items() if self._lone_below(name, state, readers)]

    def _lone_below(self, volume_id: str, state: State, readers: Mapping[str, set[str]]) -> flattening.Run | None:
        if state.gone:
            return None
        with contextlib.suppress(PoolUnavailableError):  # a layer is missing: nothing can be read
            return flattening.lone_below(self.layers, volume_id, state, readers)
        return None

    def flatten(
        self, volume: VolumeSpec, daemon: OpenVolume | None, stopped: Stopped, *, everything: bool = False
    ) -> None:
        if daemon is None:  # pragma: no cover (a contract of callers)
            raise VolumeInUseError("The volume's storage daemon does not run.")
        with self._changing(volume, daemon) as state:
            if everything:
                run = flattening.all_below(self.layers, volume.id, state)
            else:
                run = self._lone_below(volume.id, state, flattening.readers_of(self.layers))
            if run is None:
                return
            self._check_room(run.layers)
            if run.number == state.top:
                self._push(volume, state, state.size)
            self._follow(volume, state, daemon)
            flattening.flatten(self.layers, volume.id, state, run, daemon, stopped)
            self.layers.collect(volume.id)
        self._collect_others(run.layers, volume.id)

    def _check_room(self, names: Sequence[str]) -> None:
        """Refuse to copy layers that would fill the pool."""
        capacity = self.capacity()
        if self.layers.used(names) > capacity.free - capacity.total * KEPT_FREE:
            raise PoolUnavailableError(NO_ROOM)

    def _collect_others(self, names: Iterable[str], volume_id: str) -> None:
        """Remove unneeded layers of other volumes."""
        for owner in sorted({name.partition("/")[0] for name in names if not name.startswith(IMAGE)} - {volume_id}):
            with contextlib.suppress(VolumeNotFoundError), self.layers.locked(owner):
                self.layers.collect(owner)

    def _merge(self, volume_id: str, state: State, daemon: OpenVolume, stopped: Stopped) -> None:
        """Merge the layers that can be merged now. Layers that are being read are merged by a later call."""
        try:
            merging.merge(self.layers, volume_id, state, daemon, stopped)
        except DaemonError as error:
            if not error.kind:
                raise
            log.info("Layers of volume %s cannot be removed yet: %s", volume_id, error.detail)

    def revert(self, volume: VolumeSpec, snapshot_id: str) -> None:
        with self._changing(volume, None) as state:
            if snapshot_id not in state.snapshots:
                raise VolumeNotFoundError("snapshot")
            state.top = state.snapshots[snapshot_id]
            self._push(volume, state, state.size)
            self.layers.collect(volume.id)

    @contextlib.contextmanager
    def _changing(self, volume: VolumeSpec, daemon: OpenVolume | None) -> Iterator[State]:
        """Yield the state of a volume, with its lock. The volume is open in ``daemon``, or closed if that is None.
        Raises VolumeInUseError.
        """
        with self.layers.locked(volume.id):
            state = self.layers.get(volume.id)
            if daemon is not None:
                flattening.settle(daemon)
                merging.settle(self.layers, volume.id, state, daemon)
                yield state
                return
            descriptor = self.layers.hold(volume.id, self.settings.host)
            try:
                yield state
            finally:
                os.close(descriptor)

    # ----- opening --------------------------------------------------------------------------------------------------

    def hold(self, volume_id: str, *, again: bool = False) -> list[int]:
        return [self.layers.hold(volume_id, self.settings.host)]

    def top(self, volume: VolumeSpec) -> str:
        return node_name(f"{volume.id}/{self.layers.get(volume.id).top}")

    def followed(self, volume: VolumeSpec, daemon: OpenVolume) -> str:
        with self._changing(volume, daemon) as state:
            self._follow(volume, state, daemon)
        return self.top(volume)

    def opening(self, volume: VolumeSpec) -> Opening:
        state = self.layers.get(volume.id)
        return self._opening(volume, f"{volume.id}/{state.top}", read_only=False)

    def snapshot_opening(self, volume: VolumeSpec, snapshot_id: str) -> Opening:
        return self._opening(volume, self._snapshot(volume.id, snapshot_id), read_only=True)

    def _snapshot(self, volume_id: str, snapshot_id: str) -> str:
        state = self.layers.get(volume_id)
        if snapshot_id not in state.snapshots:
            raise VolumeNotFoundError("snapshot")
        return f"{volume_id}/{state.snapshots[snapshot_id]}"

    def _opening(self, volume: VolumeSpec, name: str, *, read_only: bool) -> Opening:
        node: dict[str, Any] | None = None
        chain = self.layers.chain(name)
        as_root = not all(self.layers.lend(each) for each in chain)
        for each in reversed(chain):
            above = each == name
            current = self._node(each, volume, read_only=read_only or not above)
            if not each.startswith(IMAGE):
                current["backing"] = node
            node = current
        if node is None:  # pragma: no cover (a chain has its top)
            raise VolumeNotFoundError
        secret = {"qom-type": "secret", "id": SECRET, "format": "base64"}
        objects = [secret | {"data": volume.encryption.key}] if volume.encryption is not None else []
        return Opening(node, objects, as_root=as_root)

    def _node(self, name: str, volume: VolumeSpec, *, read_only: bool = False) -> dict[str, Any]:
        """Return the arguments to open one layer, without the layers below it."""
        self.layers.lend(name)
        file: dict[str, Any] = {"driver": "file", "filename": str(self.layers.path(name)), "discard": "unmap"}
        if name.startswith(IMAGE):
            file["locking"] = "off"  # it is never written
            return {"driver": "raw", "node-name": node_name(name), "read-only": True, "file": file}
        owner, _, number = name.partition("/")
        state = self.layers.find(owner)
        node: dict[str, Any] = {"driver": "qcow2", "node-name": node_name(name), "discard": "unmap", "file": file}
        if read_only:
            node["read-only"] = True
        if state is not None and int(number) in state.layers and state.layers[int(number)].encrypted:
            if volume.encryption is None:
                raise PoolUnavailableError("The key of the volume is missing.")
            node["encrypt"] = {"format": "luks", "key-secret": SECRET}
        return node

    # ----- increments -----------------------------------------------------------------------------------------------

    def changes(self, volume: VolumeSpec, snapshot_id: str, since: str = "") -> list[Extent]:
        name = self._snapshot(volume.id, snapshot_id)
        depth = len(self.layers.chain(name))
        if since:
            chain = self.layers.chain(name)
            older = self._snapshot(volume.id, since)
            if older not in chain:
                raise VolumeNotFoundError("older snapshot")
            depth = chain.index(older)
        opening = self._opening(volume, name, read_only=True)
        rights = Rights() if opening.as_root else Rights(self.settings.account, [self.layers.folder.absolute()])
        words = ["qemu-img", "map", "-U", "--output=json"]
        try:
            with _key(volume, rights.account) as key:
                text = run_program(*words, *key, "json:" + json.dumps(opening.blockdev), limits=COPY, rights=rights)
        except ProgramError as error:
            raise PoolUnavailableError("The volume cannot be read.", detail=str(error)) from error
        return list(_extents(json.loads(text), depth, all_of_it=not since))


def _extents(pieces: list[dict[str, Any]], depth: int, *, all_of_it: bool) -> Iterator[Extent]:
    """Yield the pieces whose data is in one of the top ``depth`` layers, and join adjacent ones."""
    last: Extent | None = None
    for piece in pieces:
        progress.moved()
        here = piece["present"] if "present" in piece else piece["data"] or piece["zero"]
        if piece["depth"] >= depth or not here or (all_of_it and piece["zero"]):
            continue
        extent = Extent(piece["start"], piece["length"], piece["zero"])
        if last is not None and last.offset + last.length == extent.offset and last.zero == extent.zero:
            last = Extent(last.offset, last.length + extent.length, last.zero)
            continue
        if last is not None:
            yield last
        last = extent
    if last is not None:
        yield last


@contextlib.contextmanager
def _key(volume: VolumeSpec, account: StorageAccount | None = None) -> Iterator[tuple[str, ...]]:
    """Yield the arguments with which QEMU's programs get the key of an encrypted volume; none for an unencrypted
    volume.
    """
    if volume.encryption is None:
        yield ()
        return
    with luks.key_file(volume.encryption, SECRET, account) as secret:
        yield "--object", secret
