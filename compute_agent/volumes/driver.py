"""The contract of every volume driver. Its docstrings are the specification; ``tests/agent/volumes`` checks every
driver against it.

A driver runs one pool. Its methods are synchronous and are called from worker threads: several simultaneously for
different volumes, and also for one volume while it is copied, so a driver locks the objects that it changes. Every
method can be repeated: after a crash it is called again from the start, on the result of the unfinished run.

A volume in use is held open by one storage daemon; methods that change a volume get it as ``daemon`` when it runs on
this host, and use it for their work. All of them raise PoolUnavailableError when the pool cannot be reached,
VolumeNotFoundError when their subject does not exist, VolumeInUseError when another host has it open.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from compute_agent.contract.build import ImageRef
from compute_agent.contract.volume import StoredVolume, UnmanagedDisk, VolumeClient, VolumeSpec
from compute_agent.virt.driver import Stopped, never
from compute_agent.virt.errors import UnsupportedError
from compute_agent.virt.storage_account import StorageAccount

Json = Mapping[str, Any]

GIB = 1 << 30
ROOT = "root-"
"""The prefix of the ids of guests' root disks, which are not volumes of the cloud."""
SECRET_BYTES = 32
"""Random bytes of a pool's secret, which is written in hex."""
TOO_LARGE = "The image is larger than the volume."
NO_ROOM = "The pool has no room for a copy of what the volume reads of other volumes."
KEPT_FREE = 0.05
"""The share of a pool that stays free when data of other volumes is copied: a full pool pauses guests."""


class OpenVolume(Protocol):
    """A storage daemon that holds a volume open, as drivers use it."""

    def execute(self, command: str, /, **arguments: object) -> Any:
        """Carry out a QMP command (``-`` in arguments' names is written ``_``) and return its ``return``.

        Raises DaemonError.
        """


@dataclass(frozen=True)
class Opening:
    """How a storage daemon opens a volume or a snapshot."""

    blockdev: Json
    """Arguments of ``blockdev-add``, with all nodes below; references to other files inside a file are never
    followed.
    """
    objects: Sequence[Json] = ()
    """Arguments of ``object-add``, before it: the secrets."""
    as_root: bool = False
    """The account of storage daemons cannot open it."""

    @property
    def node(self) -> str:
        """Return the name of the node that is exported."""
        return str(self.blockdev["node-name"])


class Extent(NamedTuple):
    """A piece of a volume, in bytes."""

    offset: int
    length: int
    zero: bool
    """It reads as zeros; nothing need be copied."""


@dataclass(frozen=True)
class PoolCapacity:
    """The capacity of a pool, in bytes."""

    total: int
    free: int
    warning: str = ""


@dataclass(frozen=True)
class PoolSettings:
    """One ``--volume-pool NAME=DRIVER:LOCATION`` of a host."""

    name: str
    driver: str
    location: str
    host: str
    """This host's name, for messages of other hosts about who has a volume open."""
    options: Mapping[str, str] = field(default_factory=dict)
    account: StorageAccount | None = None
    """The account of the host's storage daemons; None: they run as the agent does."""
    remembered: Path | None = None
    """A file outside of the pool that keeps its id; None: nothing is remembered."""


class VolumeDriver(abc.ABC):
    """One pool of volumes.

    Another driver is one module of ``compute_agent.volumes.drivers`` with a subclass that has its name.
    """

    name: ClassVar[str]
    shared: ClassVar[bool] = False
    """Whether every host that serves the pool reaches all of its volumes."""
    remote: ClassVar[bool] = False
    """Whether its calls wait for other machines, which may be silent for long."""
    capabilities: ClassVar[Mapping[str, str]] = {}
    """The reported capabilities of the pool (``PoolState.capabilities``)."""
    flattens_alone: ClassVar[bool] = False
    """Whether ``flatten`` needs no storage daemon."""
    daemons_needed: ClassVar[bool] = True
    """False for simulated pools: volumes are never opened by a storage daemon."""

    def __init__(self, settings: PoolSettings) -> None:
        """Take the pool as the host's settings name it; nothing is touched before ``prepare``."""
        self.settings = settings

    # ----- the pool -------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def prepare(self) -> str:
        """Prepare the pool for use and return its UUID, which is kept in the pool: created the first time."""

    def check(self) -> None:  # noqa: B027 - most pools have nothing to check
        """Raise PoolUnavailableError when the pool is known to be away now; asks no other machine."""

    def secret(self) -> str:
        """Return the secret that is kept in the pool, created the first time; empty for a pool without one.

        The secret gives access to the pool's storage: with it the portal admits other hosts to the pool.
        """
        return ""

    @abc.abstractmethod
    def capacity(self) -> PoolCapacity:
        """Measure the pool."""

    @abc.abstractmethod
    def contents(self) -> list[StoredVolume]:
        """List the volumes with their snapshots (``daemon`` and ``attachments`` are left to the caller)."""

    def names(self) -> list[str]:
        """List the ids of all that volumes can be, quickly."""
        return [each.id for each in self.contents() if not each.gone]

    def snapshots(self, volume_id: str) -> list[str]:
        """List the snapshots of one volume; empty when there is none."""
        return [name for each in self.contents() if each.id == volume_id for name in each.snapshots]

    def has_image(self, image: ImageRef) -> bool:
        """Return whether ``clone_image`` needs no file of this image."""
        return False

    @abc.abstractmethod
    def sweep(self) -> list[str]:
        """Remove remnants of unfinished work and objects that are not needed; return a line for each thing removed."""

    def kept(self) -> dict[str, int]:
        """Return the deleted volumes whose data others still need: id → bytes, 0 where that cannot be measured now."""
        return {}

    def prune(self) -> list[str]:
        """Remove images that the pool keeps and that volumes have not needed for a long time, while other work
        continues here and on other hosts; return a line for each thing removed.
        """
        return []

    # ----- volumes --------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def create(self, volume: VolumeSpec) -> None:
        """Create the volume; it reads as zeros. An existing one is left unchanged."""

    @abc.abstractmethod
    def create_from_image(self, volume: VolumeSpec, image: Path, stopped: Stopped = never) -> None:
        """Create the volume with the data of ``image``, a raw file that the caller has checked and that may be removed
        afterwards; the rest of the volume reads as zeros.

        Raises ImageUnacceptableError when it is larger than the volume, StoppedError.
        """

    def reimage(self, volume: VolumeSpec, image: Path, stopped: Stopped = never) -> bool:
        """Replace the data of a closed volume with ``image``, a raw file, in one step; the rest of the volume reads as
        zeros, and snapshots remain. False: the pool cannot do this, and the caller overwrites the existing data.

        Raises ImageUnacceptableError when it is larger than the volume, StoppedError.
        """
        return False

    def clone_image(self, volume: VolumeSpec, image: ImageRef) -> bool:
        """Create the volume of an image that the pool has already, from any host, and return True; False when this host
        has to fetch the image first. Raises ImageUnacceptableError when it is larger than the volume.
        """
        return False

    def unmanaged(self) -> list[UnmanagedDisk]:
        """List the unmanaged disks in the pool that could become volumes."""
        return []

    def adopt(self, volume: VolumeSpec, name: str) -> None:
        """Create the volume from an unmanaged disk, which is then removed; the rest of the volume reads as zeros.

        Data is neither copied nor lost, even if this is interrupted. Raises VolumeNotFoundError, UnmanageableError.
        """
        raise UnsupportedError("A pool of this kind cannot manage existing disks.")

    def leave(self, volume: VolumeSpec, name: str, write: Callable[[Path], None]) -> None:
        """Leave the volume's data as an unmanaged disk, and remove the volume; ``write`` writes all of it as qcow2 to a
        file. Nothing is done for a volume that does not exist.
        """
        raise UnsupportedError("A pool of this kind keeps nothing beside volumes.")

    @abc.abstractmethod
    def create_from_snapshot(self, volume: VolumeSpec, source_id: str, snapshot_id: str) -> None:
        """Create the volume with the data of a snapshot of the volume ``source_id`` in this pool, whether or not that
        is open. The snapshot can be deleted afterwards. The volume is not smaller than the snapshot, and has the key
        of its source if that is encrypted.
        """

    @abc.abstractmethod
    def delete(self, volume_id: str) -> None:
        """Remove the volume with its snapshots; nothing when there is none.  Data that clones need stays for them."""

    @abc.abstractmethod
    def grow(self, volume: VolumeSpec, daemon: OpenVolume | None = None) -> None:
        """Give the volume the size of ``volume``, never a smaller one.

        When it is open, a new export of its node has the new size, and those from before keep theirs.
        """

    @abc.abstractmethod
    def size(self, volume_id: str) -> int:
        """Return the volume's size in bytes."""

    @abc.abstractmethod
    def snapshot(self, volume: VolumeSpec, snapshot_id: str, daemon: OpenVolume | None = None) -> None:
        """Freeze what the volume has now under ``snapshot_id``; one that is there is left as it is.

        Also used for what is frozen for a moment (copies, backups): any name of letters, digits and ``-``.
        """

    @abc.abstractmethod
    def delete_snapshot(
        self, volume: VolumeSpec, snapshot_id: str, daemon: OpenVolume | None = None, stopped: Stopped = never
    ) -> None:
        """Remove a snapshot; nothing when it does not exist. Volumes created from it stay complete.

        Layers in use that could be merged may remain until a later ``sweep``.
        """

    def can_merge(self, volume_id: str) -> bool:
        """Whether data of deleted snapshots could be merged now (``merge``)."""
        return False

    def merge(self, volume: VolumeSpec, daemon: OpenVolume, stopped: Stopped) -> None:  # noqa: B027 - nothing to merge
        """Merge it by a daemon that has the volume open and exports nothing.

        Raises StoppedError when ``stopped`` returns True first; completed merges are kept.
        """

    def depth(self, volume_id: str) -> int:
        """Return how many other volumes, deleted ones included, the volume reads its data from."""
        return 0

    def crowded(self) -> list[str]:
        """List the volumes that alone keep data of several deleted volumes, which could be copied (``flatten``)."""
        return []

    def flatten(  # noqa: B027 - nothing to copy
        self, volume: VolumeSpec, daemon: OpenVolume | None, stopped: Stopped, *, everything: bool = False
    ) -> None:
        """Copy into the volume the data that only it reads from deleted volumes, or ``everything`` that it reads from
        other volumes, so that these are not needed afterwards. The volume can be in use, and reads the same at every
        moment.

        ``daemon`` has the volume open; drivers with ``flattens_alone`` need none. Raises StoppedError when ``stopped``
        returns True first, and continues the next time; PoolUnavailableError when the pool is full.
        """

    @abc.abstractmethod
    def revert(self, volume: VolumeSpec, snapshot_id: str) -> None:
        """Restore a closed volume to its newest snapshot; the snapshot and the size stay."""

    # ----- opening --------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def opening(self, volume: VolumeSpec) -> Opening:
        """Return how a daemon opens the volume for writing."""

    @abc.abstractmethod
    def snapshot_opening(self, volume: VolumeSpec, snapshot_id: str) -> Opening:
        """Return how a daemon opens a snapshot, read-only, beside the one that has the volume open."""

    @abc.abstractmethod
    def top(self, volume: VolumeSpec) -> str:
        """Return the name of the node that is exported of the open volume now: a snapshot may have changed it."""

    def followed(self, volume: VolumeSpec, daemon: OpenVolume) -> str:
        """Let the daemon write to the node that the volume's records name, because an agent that was killed may not
        have switched the daemon; return the name of that node.
        """
        return self.top(volume)

    def hold(self, volume_id: str, *, again: bool = False) -> list[int]:
        """Lock the volume for one daemon and return file descriptors that the daemon inherits: it is free again when
        all copies of them are closed, however the daemon ends. Raises VolumeInUseError when it is locked already.

        ``again``: for a daemon that has died, without an order from the portal: another host may have been given the
        volume.
        """
        return []

    # ----- simulated daemons (``daemons_needed`` False) -------------------------------------------------------------

    def clients(self, volume_id: str) -> list[VolumeClient]:
        """Return who may open a volume of a simulated pool."""
        return []

    def let_in(self, volume_id: str, clients: Sequence[VolumeClient]) -> None:
        """Keep who may open a volume of a simulated pool."""
        raise NotImplementedError

    # ----- increments (backups) -------------------------------------------------------------------------------------

    @abc.abstractmethod
    def changes(self, volume: VolumeSpec, snapshot_id: str, since: str = "") -> list[Extent]:
        """Return in order the parts of a snapshot that may differ from the older snapshot ``since`` of the volume;
        without it, all parts that do not read as zeros. Data in no extent has not changed, or is zeros.

        Both exist while the volume is backed up: a backup keeps its own snapshot (``snapshot`` with a name that
        contains the backup's id) until the next one is created from it.
        """


DriverMaker = Callable[[PoolSettings], VolumeDriver]
