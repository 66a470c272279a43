"""A pool of qcow2 files in one folder: the common part of the drivers ``nbd`` and ``dir``.

A volume is a chain of **layers**. Each layer is a qcow2 file that is based on another layer or on an image. The top
layer is written, the others are frozen. ``volumes/ID/state.json`` lists the layers of a volume, the base of each, and
the layers that are its snapshots. It is replaced in one step; files that it does not name are garbage.

- A snapshot adds a new top above the old one. The state is written before the daemon switches to the new top: if the
  daemon dies in between, the next daemon opens the new top, and nothing is lost.
- The first layer of a clone is based on a layer of its source. A layer is needed while the state of any volume refers
  to it. The folder of a deleted volume is kept while its layers are needed, and is marked as ``gone``.
- A state gets a reference to a layer of another volume only when a clone is created. While this happens, the agent
  holds the lock of the pool shared. A thread that removes files holds this lock exclusively, from before it reads the
  states. Locks are acquired in this order: volume, images, pool.
- A live extension is a new, larger top. A layer that is not a snapshot is merged downwards (``block-commit``) once
  another layer is above it, unless clones need it. Only frozen layers are merged, so no crash can lose a write.
- Layers of deleted volumes that only one layer reads are copied into that layer (``flattening``).
"""

import contextlib
import errno
import fcntl
import hashlib
import logging
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from compute_agent.contract.volume import StoredVolume, is_unmanaged
from compute_agent.disk_formats import qcow2
from compute_agent.disk_formats.reading import DiskFormatError
from compute_agent.virt.processes.durable import replace, sync
from compute_agent.virt.processes.storage_account import StorageAccount
from compute_agent.volumes.errors import PoolUnavailableError, VolumeInUseError, VolumeNotFoundError
from compute_agent.volumes.files.records import State

log = logging.getLogger(__name__)

STATE, LOCK, DAEMON_LOCK, HOLDER = "state.json", "lock", "daemon.lock", "holder"
POOL_LOCK = "pool.lock"
NOT_THERE = "The folder of the pool does not contain the pool: is it mounted?"
IMAGE = "image/"
"""The prefix of ``Layer.below`` for an image; for a layer it is ``VOLUME/NUMBER``."""
TRIES, PAUSE = 25, 0.02
"""The number of attempts, and the seconds between them, for a lock that is held elsewhere."""


class Layers:
    """The folder of a pool: ``pool.json``, ``images/``, ``volumes/``."""

    def __init__(self, folder: Path, account: StorageAccount | None = None) -> None:
        """``account``: the account of the host's storage daemons."""
        self.folder, self._account = folder, account
        self.volumes = folder / "volumes"
        self.images = folder / "images"

    def path(self, name: str) -> Path:
        """Return the file of ``VOLUME/NUMBER`` or ``image/NAME``."""
        if name.startswith(IMAGE):
            return self.images / name.removeprefix(IMAGE)
        volume_id, _, number = name.partition("/")
        return self.volumes / volume_id / f"{number}.qcow2"

    def lend(self, name: str) -> bool:
        """Grant the account of storage daemons access to a layer, which it may have to write, or to an image, which is
        never written. Return whether it has access.

        Permissions are granted when files are opened, because another host or an earlier agent may have created them.
        An image may be a hard link to a file of the image cache. Its group is that of guests, and other accounts have
        no access to the cache's folders.
        """
        if self._account is None:
            return True
        path = self.path(name)
        try:
            for folder in (self.folder, path.parent.parent, path.parent):
                self._account.show(folder, 0o710)
            if name.startswith(IMAGE):
                path.chmod(0o444)
            else:
                self._account.change_owner(path, 0o600)
        except FileNotFoundError:  # opening it says so
            return True
        except OSError as error:  # on NFS, root may not be root
            log.warning("Storage daemons of pool %s run as root: %s", self.folder, error)
            return False
        return True

    # ----- states ---------------------------------------------------------------------------------------------------

    def find(self, volume_id: str) -> State | None:
        """Return the state of a volume, even of a deleted one; None if it does not exist."""
        try:
            state = msgspec.json.decode((self.volumes / volume_id / STATE).read_bytes(), type=State)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise PoolUnavailableError("The volume's record in its pool cannot be read.", detail=str(error)) from error
        if state.previous:
            state.rename(volume_id)
        return state

    def get(self, volume_id: str) -> State:
        """Return the state of a volume. Raises VolumeNotFoundError when it does not exist, or is deleted."""
        state = self.find(volume_id)
        if state is None or state.gone:
            raise VolumeNotFoundError
        return state

    def save(self, volume_id: str, state: State) -> None:
        """Replace the state in one step, durably: a crash of the machine does not undo it."""
        replace(self.volumes / volume_id / STATE, msgspec.json.encode(state))

    def rename(self, volume_id: str, new_id: str) -> None:
        """Rename the folder of a closed volume, durably and in one step for all hosts. Its lock and its daemon's lock
        are files in the folder, so a daemon on another host keeps them.

        Raises VolumeInUseError if there is a volume with the new id.
        """
        state = self.get(volume_id)
        before, state.previous = state.previous, volume_id
        self.save(volume_id, state)
        with self.referring():  # no thread that removes files misses the volume between the two names
            try:
                (self.volumes / volume_id).rename(self.volumes / new_id)
            except OSError as error:
                state.previous = before
                self.save(volume_id, state)
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise PoolUnavailableError("The volume cannot be renamed.", detail=str(error)) from error
                raise VolumeInUseError("There is already a volume with this id.") from error
            sync(self.volumes)

    def names(self) -> list[str]:
        """Return the ids of the volumes that are not deleted, also of those that another host has just renamed."""
        self._refresh()
        return [volume_id for volume_id, state in self.states().items() if not state.gone]

    def states(self) -> dict[str, State]:
        """Return the state of every volume of the pool."""
        try:
            names = sorted(path.name for path in self.volumes.iterdir())
        except OSError as error:
            raise PoolUnavailableError("The pool's folder cannot be read.", detail=str(error)) from error
        return {name: state for name in names if (state := self.find(name)) is not None}

    def stored(self) -> list[StoredVolume]:
        """Return every volume of the pool in the form of a pool's contents."""
        return [
            StoredVolume(
                id=volume_id,
                snapshots=sorted(state.snapshots),
                gone=state.gone,
                unmanaged=self._unmanaged(volume_id, state),
            )
            for volume_id, state in self.states().items()
        ]

    def _unmanaged(self, volume_id: str, state: State) -> dict[str, int]:
        """Return name → bytes of a volume's unmanaged snapshots whose layers can be read."""
        result: dict[str, int] = {}
        for name in filter(is_unmanaged, state.snapshots):
            with (
                contextlib.suppress(FileNotFoundError, DiskFormatError),
                self.path(f"{volume_id}/{state.snapshots[name]}").open("rb") as file,
            ):
                result[name] = qcow2.virtual_size(file)
        return result

    def kept(self) -> dict[str, int]:
        """Return the bytes on the disk that each deleted volume's layers use: id → bytes."""
        return {
            volume_id: self.used(f"{volume_id}/{path.stem}" for path in (self.volumes / volume_id).glob("*.qcow2"))
            for volume_id, state in self.states().items()
            if state.gone
        }

    # ----- needed layers --------------------------------------------------------------------------------------------

    def chain(self, name: str) -> list[str]:
        """Return ``name`` and all layers below it, from the top down; an image can be the last one."""
        chain = [name]
        while not (name := chain[-1]).startswith(IMAGE):
            volume_id, _, number = name.partition("/")
            state = self.find(volume_id)
            if state is None or int(number) not in state.layers:
                raise PoolUnavailableError("A layer of the volume is missing.", detail=name)
            if not (below := state.layers[int(number)].below):
                break
            chain.append(below)
        return chain

    def needed(self, *, but: str = "") -> set[str]:
        """Return the layers and images that volumes of the pool refer to, except the volume ``but``."""
        states, result = self.states(), set[str]()
        for volume_id, state in states.items():
            if state.gone or volume_id == but:
                continue
            for number in {state.top, *state.snapshots.values()}:
                name = f"{volume_id}/{number}"
                while name and name not in result:
                    result.add(name)
                    owner, _, below = name.partition("/")
                    layer = states[owner].layers.get(int(below)) if owner in states else None
                    name = layer.below if layer is not None else ""
        return result

    def used(self, names: Iterable[str]) -> int:
        """Return the bytes on the disk that these layers use."""
        result = 0
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                result += self.path(name).stat().st_blocks * 512
        return result

    def is_tidy(self, volume_id: str, needed: set[str]) -> bool:
        """Return whether ``collect`` would find nothing to remove from a volume, given the needed layers."""
        state, files = self.find(volume_id), list((self.volumes / volume_id).glob("*.qcow2"))
        if state is None or (state.gone and not files):
            return False
        there = {path.stem for path in files} | {str(number) for number in state.layers}
        return all(f"{volume_id}/{number}" in needed for number in there)

    def collect(self, volume_id: str) -> list[str]:
        """Remove the unneeded files of a volume's folder. The folder of a deleted volume is removed with its last file.

        The caller holds the volume's lock. Returns a line for each removed file or folder.
        """
        if not (self.volumes / volume_id).is_dir():
            return []
        with self.removing():
            return self._collect(volume_id, self.needed())

    def _collect(self, volume_id: str, needed: set[str]) -> list[str]:
        folder, state = self.volumes / volume_id, self.find(volume_id)
        removed = []
        for path in sorted(folder.glob("*.qcow2")):
            if f"{volume_id}/{path.stem}" not in needed:
                path.unlink(missing_ok=True)
                removed.append(f"layer {path.stem} of volume {volume_id}")
        if state is None or (state.gone and not any(folder.glob("*.qcow2"))):
            for path in folder.iterdir():
                path.unlink(missing_ok=True)
            folder.rmdir()
            removed.append(f"volume {volume_id}")
        else:
            kept = {number: each for number, each in state.layers.items() if f"{volume_id}/{number}" in needed}
            if kept and kept.keys() != state.layers.keys():
                state.layers = kept
                self.save(volume_id, state)
        return removed

    def collect_images(self, *, wait: bool = True) -> list[str]:
        """Remove unused images, and return a line for each. Raises VolumeInUseError if ``wait`` is False and the lock
        is held.
        """
        removed = []
        with self.locked_images(wait=wait), self.removing():
            needed = self.needed()
            for path in sorted(self.images.glob("*")):
                if path.name != LOCK and IMAGE + path.name not in needed:
                    path.unlink(missing_ok=True)
                    removed.append(f"image {path.name}")
        return removed

    # ----- locks ----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def locked(self, volume_id: str, *, make: bool = False, wait: bool = True) -> Iterator[None]:
        """Lock the volume against other threads, processes and hosts while the block runs. With ``make``, create its
        folder.

        Raises VolumeNotFoundError. Raises VolumeInUseError if ``wait`` is False and the lock is held elsewhere.
        """
        folder = self.volumes / volume_id
        if make:
            try:
                folder.mkdir(mode=0o700, exist_ok=True)
            except FileNotFoundError as error:  # never created again: the new file would be outside the pool
                raise PoolUnavailableError(NOT_THERE, detail=str(error)) from error
        while True:
            try:
                descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except FileNotFoundError as error:
                raise VolumeNotFoundError from error
            try:
                _lock(descriptor, wait=wait)
                if (folder / LOCK).exists() and os.fstat(descriptor).st_ino == (folder / LOCK).stat().st_ino:
                    yield
                    return
                if not make:
                    raise VolumeNotFoundError
                folder.mkdir(mode=0o700, exist_ok=True)
            finally:
                os.close(descriptor)

    @contextlib.contextmanager
    def locked_images(self, *, wait: bool = True) -> Iterator[None]:
        """Lock the pool's images. Raises VolumeInUseError if ``wait`` is False and the lock is held elsewhere."""
        with (self.images / LOCK).open("w") as file:
            _lock(file.fileno(), wait=wait)
            yield

    @contextlib.contextmanager
    def referring(self) -> Iterator[None]:
        """Prevent the removal of the pool's files while a state gets a reference to a layer of another volume.

        Enter the block before the other volume's state is read, and leave it after the new state is saved.
        """
        with self._pool_lock(fcntl.LOCK_SH):
            yield

    @contextlib.contextmanager
    def removing(self) -> Iterator[None]:
        """Prevent states from getting references to layers of other volumes, here and on other hosts, while files are
        removed.
        """
        with self._pool_lock(fcntl.LOCK_EX):
            self._refresh()
            yield

    def _refresh(self) -> None:
        """Change the folder, so that this host lists the current volumes: a client of NFS lists a folder from its cache
        until it changes the folder itself.
        """
        with contextlib.suppress(OSError):
            os.utime(self.volumes)

    @contextlib.contextmanager
    def _pool_lock(self, kind: int) -> Iterator[None]:
        try:
            descriptor = os.open(self.folder / POOL_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise PoolUnavailableError("The pool's folder cannot be used.", detail=str(error)) from error
        try:
            fcntl.flock(descriptor, kind)
            yield
        finally:
            os.close(descriptor)

    def hold(self, volume_id: str, holder: str) -> int:
        """Acquire the lock of the daemon that has the volume open, and return its descriptor.

        Raises VolumeInUseError, whose detail names the host that has the lock.
        """
        descriptor = self.lock_file(volume_id)
        try:
            self.lock_for_daemon(volume_id, holder, descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def lock_file(self, volume_id: str) -> int:
        """Return a descriptor of the file that the daemon of a volume locks."""
        try:
            return os.open(self.volumes / volume_id / DAEMON_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError as error:
            raise VolumeNotFoundError from error

    def lock_for_daemon(self, volume_id: str, holder: str, descriptor: int) -> None:
        """Lock a descriptor of ``lock_file``, as ``hold`` does."""
        folder = self.volumes / volume_id
        try:
            _lock_for_daemon(descriptor)
        except OSError as error:
            with contextlib.suppress(OSError):
                holder = (folder / HOLDER).read_text()
            raise VolumeInUseError("The volume is open elsewhere.", detail=f"by {holder}") from error
        try:
            if not os.path.samestat(os.fstat(descriptor), (folder / DAEMON_LOCK).stat()):
                raise VolumeNotFoundError  # it was deleted, and created again
            (folder / HOLDER).write_text(holder)
        except FileNotFoundError as error:  # it was renamed before the lock was acquired
            raise VolumeNotFoundError from error


def _lock_for_daemon(descriptor: int) -> None:
    """Lock a file for a daemon. Raises OSError if it is locked already.

    A released lock can stay locked for a moment: a program that another thread is starting has a copy of each open
    descriptor until it is loaded. Therefore this is tried several times.
    """
    for _ in range(TRIES - 1):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(PAUSE)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _lock(descriptor: int, *, wait: bool) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise VolumeInUseError("Another process is changing it now.") from error


def node_name(name: str) -> str:
    """Return the name of a layer's node in QEMU, which allows at most 31 characters."""
    return "l-" + hashlib.sha256(name.encode()).hexdigest()[:24]
