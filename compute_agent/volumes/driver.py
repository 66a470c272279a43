"""The contract of every volume driver. Its docstrings are the specification; ``tests/agent/volumes`` checks every
driver against it.

A driver runs one pool. Its methods are synchronous and are called from worker threads: simultaneously for different
volumes, and also for a volume that is being copied. Therefore a driver locks the objects that it changes. Every method
can be repeated: after a crash it is called again from the start, with the results of the unfinished run in place.

A volume in use is held open by one storage daemon. If the daemon runs on this host, methods that change the volume get
it as ``daemon``, and do their work through it. All methods raise PoolUnavailableError if the pool cannot be reached,
VolumeNotFoundError if the volume or snapshot does not exist, and VolumeInUseError if another host has the volume open.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from compute_agent.contract.build import ImageRef
from compute_agent.contract.volume import StoredVolume, UnmanagedDisk, VolumeClient, VolumeSpec
from compute_agent.virt.driver import Stopped, never
from compute_agent.virt.errors import UnsupportedError
from compute_agent.virt.processes.storage_account import StorageAccount

Json = Mapping[str, Any]

GIB = 1 << 30
SECRET_BYTES = 32
"""Random bytes of a pool's secret, which is written in hex."""
TOO_LARGE = "The image is larger than the volume."
NO_ROOM = "The pool has no space for a copy of the data that the volume shares with other volumes."
TWO_SNAPSHOTS = "The volume has another snapshot with this name."
KEPT_FREE = 0.05
"""The share of a pool that stays free when data of other volumes is copied: a full pool pauses guests."""


class OpenVolume(Protocol):
    """A storage daemon that has a volume open, as drivers use it."""

    def execute(self, command: str, /, **arguments: object) -> Any:
        """Execute a QMP command and return its ``return``. In the names of arguments, ``_`` stands for ``-``.

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
    """Arguments of ``object-add``, which is executed before ``blockdev-add``: the secrets."""
    as_root: bool = False
    """Whether the daemon has to run as root, because the account of storage daemons cannot open the volume."""

    @property
    def node(self) -> str:
        """Return the name of the node that is exported."""
        return str(self.blockdev["node-name"])


class Extent(NamedTuple):
    """A piece of a volume, in bytes."""

    offset: int
    length: int
    zero: bool
    """Whether the extent reads as zeros, so that nothing has to be copied."""


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
    """This host's name, which other hosts show in their messages if it has a volume open."""
    options: Mapping[str, str] = field(default_factory=dict)
    account: StorageAccount | None = None
    """The account of the host's storage daemons; None: the agent's own account."""
    remembered: Path | None = None
    """A file outside of the pool in which the agent stores the pool's id; None: the id is not stored."""


class VolumeDriver(abc.ABC):
    """One pool of volumes.

    To add a driver, add a module to ``compute_agent.volumes.drivers`` with a subclass as ``DRIVER``. The module's name
    is the driver's name.
    """

    name: ClassVar[str]
    shared: ClassVar[bool] = False
    """Whether all volumes of the pool are accessible from every host that serves it."""
    remote: ClassVar[bool] = False
    """Whether calls wait for other machines, which may not answer for a long time."""
    capabilities: ClassVar[Mapping[str, str]] = {}
    """The reported capabilities of the pool (``PoolState.capabilities``)."""
    flattens_alone: ClassVar[bool] = False
    """Whether ``flatten`` needs no storage daemon."""
    can_join: ClassVar[bool] = False
    """Whether a second host can open a volume while another host has it open (``joining``)."""
    hands_over: ClassVar[bool] = False
    """Whether a second host can open a volume as soon as the host that has it open closes it (``take_over``)."""
    daemons_needed: ClassVar[bool] = True
    """False for simulated pools: volumes are never opened by a storage daemon."""

    def __init__(self, settings: PoolSettings) -> None:
        """Store the settings of the pool. The pool is not accessed before ``prepare``."""
        self.settings = settings

    # ----- the pool -------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def prepare(self) -> str:
        """Prepare the pool for use and return its UUID. The UUID is stored in the pool, and created by the
        first call.
        """

    def check(self) -> None:  # noqa: B027 - most pools have nothing to check
        """Raise PoolUnavailableError if the pool is known to be unavailable. Sends no query to another machine."""

    def secret(self) -> str:
        """Return the secret that is stored in the pool, and created by the first call. Empty for pools without a
        secret.

        The secret gives access to the pool's storage: the portal uses it to admit other hosts to the pool.
        """
        return ""

    @abc.abstractmethod
    def capacity(self) -> PoolCapacity:
        """Measure the size and the free space of the pool."""

    @abc.abstractmethod
    def contents(self) -> list[StoredVolume]:
        """List the volumes with their snapshots, with a constant number of calls to a cluster. The caller fills in
        ``daemon`` and ``attachments``.
        """

    def names(self) -> list[str]:
        """List the ids of the volumes, quickly. Deleted volumes are omitted."""
        return [each.id for each in self.contents() if not each.gone]

    def snapshots(self, volume_id: str) -> list[str]:
        """List the snapshots of one volume."""
        return [name for each in self.contents() if each.id == volume_id for name in each.snapshots]

    def has_image(self, image: ImageRef) -> bool:
        """Return whether ``clone_image`` can create a volume from this image without a file."""
        return False

    @abc.abstractmethod
    def sweep(self) -> list[str]:
        """Remove the remnants of unfinished work, and objects that are no longer needed. Return a line for each removed
        object.
        """

    def kept(self) -> dict[str, int]:
        """Return the deleted volumes whose data other volumes still need: id → bytes, 0 if the size cannot be measured
        now.
        """
        return {}

    def prune(self) -> list[str]:
        """Remove images from the pool that no volume has needed for a long time. Other work continues in the meantime,
        on this host and on other hosts. Return a line for each removed image.
        """
        return []

    # ----- volumes --------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def create(self, volume: VolumeSpec) -> None:
        """Create the volume; it reads as zeros. An existing one is left unchanged."""

    @abc.abstractmethod
    def create_from_image(self, volume: VolumeSpec, image: Path, stopped: Stopped = never) -> None:
        """Create the volume with the data of ``image``. The rest of the volume reads as zeros. ``image`` is a raw file
        that the caller has checked, and that may be removed afterwards.

        Raises ImageUnacceptableError if the image is larger than the volume, StoppedError.
        """

    def reimage(self, volume: VolumeSpec, image: Path, stopped: Stopped = never) -> bool:
        """Replace the data of a closed volume with ``image``, a raw file, in one step. The rest of the volume reads as
        zeros, and snapshots remain. Return False if the pool cannot do this; the caller then overwrites the existing
        data.

        Raises ImageUnacceptableError if the image is larger than the volume, StoppedError.
        """
        return False

    def clone_image(self, volume: VolumeSpec, image: ImageRef) -> bool:
        """Create the volume from an image that some host has already stored in the pool, and return True. Return False
        if this host has to fetch the image first. Raises ImageUnacceptableError if the image is larger than the volume.
        """
        return False

    def unmanaged(self) -> list[UnmanagedDisk]:
        """List the unmanaged disks in the pool that could become volumes."""
        return []

    def adopt(self, volume: VolumeSpec, name: str) -> None:
        """Turn an unmanaged disk into the volume. The rest of the volume reads as zeros.

        Data is neither copied nor lost, even if this is interrupted. Raises VolumeNotFoundError, UnmanageableError.
        """
        raise UnsupportedError("A pool of this kind cannot manage existing disks.")

    def leave(self, volume: VolumeSpec, name: str, write: Callable[[Path], None]) -> None:
        """Keep the volume's data as the unmanaged disk ``name``, and remove the volume. ``write`` writes the whole data
        to a file as qcow2. Does nothing if the volume does not exist.
        """
        raise UnsupportedError("A pool of this kind stores only volumes.")

    def rename(self, volume_id: str, new_id: str) -> None:
        """Give the volume another id, in one step for all hosts. Hosts can open it only by the new one from then on.

        Raises VolumeNotFoundError, VolumeInUseError if there is a volume with the new id, or if another host has the
        volume open and the pool cannot prevent that host from writing.
        """
        raise UnsupportedError("Volumes in a pool of this kind keep their ids.")

    def previous_id(self, volume_id: str) -> str:
        """Return the id that the volume had before it was renamed; empty if it was not."""
        return ""

    @abc.abstractmethod
    def create_from_snapshot(self, volume: VolumeSpec, source_id: str, snapshot_id: str) -> None:
        """Create the volume with the data of a snapshot of the volume ``source_id`` in this pool. The source can be
        open.

        The snapshot can be deleted afterwards. The volume is not smaller than the snapshot. If the source is encrypted,
        the volume has the same key.
        """

    @abc.abstractmethod
    def delete(self, volume_id: str) -> None:
        """Remove the volume with its snapshots. Does nothing if the volume does not exist. Data that clones need is
        kept.
        """

    @abc.abstractmethod
    def grow(self, volume: VolumeSpec, daemon: OpenVolume | None = None) -> None:
        """Extend the volume to the size of ``volume``. A volume is never shrunk.

        If the volume is open, new exports of its node have the new size; existing exports keep their size.
        """

    @abc.abstractmethod
    def size(self, volume_id: str) -> int:
        """Return the volume's size in bytes."""

    @abc.abstractmethod
    def snapshot(self, volume: VolumeSpec, snapshot_id: str, daemon: OpenVolume | None = None) -> None:
        """Create the snapshot ``snapshot_id`` of the volume's current data. An existing snapshot is left unchanged.

        Also used for temporary snapshots (copies, backups): the name may be any text of letters, digits and ``-``.
        """

    @abc.abstractmethod
    def delete_snapshot(
        self, volume: VolumeSpec, snapshot_id: str, daemon: OpenVolume | None = None, stopped: Stopped = never
    ) -> None:
        """Remove a snapshot. Does nothing if it does not exist. Volumes created from it stay complete.

        Layers in use that could be merged may remain until a later ``sweep``.
        """

    @abc.abstractmethod
    def rename_snapshot(self, volume: VolumeSpec, name: str, new_name: str) -> None:
        """Rename a snapshot of a volume, open or not, in one step. Does nothing if it was renamed before.

        Raises VolumeInUseError if the volume has both snapshots.
        """

    def forget_snapshot(self, volume: VolumeSpec, snapshot_id: str) -> None:
        """Remove a snapshot of a volume that another host may have open. Its data may remain until that host merges
        it.
        """
        self.delete_snapshot(volume, snapshot_id)

    def can_merge(self, volume_id: str) -> bool:
        """Whether data of deleted snapshots could be merged now (``merge``)."""
        return False

    def merge(self, volume: VolumeSpec, daemon: OpenVolume, stopped: Stopped) -> None:  # noqa: B027 - nothing to merge
        """Merge the data of deleted snapshots, with a daemon that has the volume open and exports nothing.

        Raises StoppedError if ``stopped`` returns True before the end. Completed merges are kept.
        """

    def depth(self, volume_id: str) -> int:
        """Return from how many other volumes, including deleted ones, the volume reads data."""
        return 0

    def crowded(self) -> list[str]:
        """List the volumes that are the only readers of several deleted volumes. ``flatten`` can copy that data."""
        return []

    def flatten(  # noqa: B027 - nothing to copy
        self, volume: VolumeSpec, daemon: OpenVolume | None, stopped: Stopped, *, everything: bool = False
    ) -> None:
        """Copy into the volume the data of deleted volumes that only this volume reads, so that the deleted volumes are
        no longer needed. With ``everything``, copy all data that the volume reads from other volumes. The volume can be
        in use; its data does not change.

        ``daemon`` has the volume open; drivers with ``flattens_alone`` need no daemon. Raises StoppedError if
        ``stopped`` returns True before the end; the next call then continues. Raises PoolUnavailableError if the pool
        is full.
        """

    @abc.abstractmethod
    def revert(self, volume: VolumeSpec, snapshot_id: str) -> None:
        """Revert a closed volume to its newest snapshot. The snapshot and the volume's size stay."""

    # ----- opening --------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def opening(self, volume: VolumeSpec) -> Opening:
        """Return how a daemon opens the volume for writing."""

    @abc.abstractmethod
    def snapshot_opening(self, volume: VolumeSpec, snapshot_id: str) -> Opening:
        """Return how a daemon opens a snapshot, read-only, while another daemon may have the volume open."""

    @abc.abstractmethod
    def top(self, volume: VolumeSpec) -> str:
        """Return the name of the node that is exported for the open volume. A snapshot can change it."""

    def followed(self, volume: VolumeSpec, daemon: OpenVolume) -> str:
        """Switch the daemon to the node that the volume's state names, and return the name of that node. A killed agent
        may have changed the state but not the daemon.
        """
        return self.top(volume)

    def hold(self, volume_id: str, *, again: bool = False) -> list[int]:
        """Lock the volume for one daemon, and return file descriptors that the daemon inherits. The lock is released
        when all copies of the descriptors are closed, however the daemon ends. Raises VolumeInUseError if the volume is
        locked already.

        ``again``: the daemon has died and is started again without a command of the portal. In the meantime the
        portal may have assigned the volume to another host.
        """
        return []

    # ----- two hosts (``can_join``) ---------------------------------------------------------------------------------

    def joining(self, volume_id: str, new_id: str) -> AbstractContextManager[Sequence[int]]:
        """Return a block in which a daemon of this host opens a volume that another host has open: the guest of that
        host is migrated here. Its value are descriptors that the daemon inherits. ``new_id``: the volume's id after
        ``acquire``.

        Only one of the daemons may write at a time; the guest writes through one of them.
        """
        raise UnsupportedError("Only one host at a time can open a volume in a pool of this kind.")

    def acquire(self, volume_id: str, new_id: str) -> None:
        """Rename a volume that this host has joined, and block all other hosts that have it open. The daemon keeps it
        open. Can be repeated until the volume has its new id.

        Raises VolumeInUseError if this host was expelled.
        """
        raise UnsupportedError("Volumes in a pool of this kind keep their ids.")

    def is_joined(self, volume_id: str) -> bool:
        """Return whether another host has joined the volume and has neither acquired it nor been expelled."""
        return False

    def expel(self, volume_id: str) -> None:
        """Block all hosts that have the volume open, and assign it to this host. This host's daemon does not run."""
        raise UnsupportedError("Only one host at a time can open a volume in a pool of this kind.")

    # ----- from one host to another (``hands_over``) ------------------------------------------------------------------

    def lock_file(self, volume_id: str) -> int:
        """Return a descriptor of the file that the daemon of a volume locks. It is not locked yet."""
        raise UnsupportedError("A volume in a pool of this kind stays on its host while it is open.")

    def take_over(self, volume_id: str, new_id: str, descriptor: int) -> None:
        """Lock ``descriptor`` of ``lock_file``, and rename the volume. From then on the daemons that have inherited the
        descriptor have the volume, and no other one on any host.

        Raises VolumeInUseError if a daemon has it open, or another process is changing it.
        """
        raise UnsupportedError("A volume in a pool of this kind stays on its host while it is open.")

    # ----- simulated daemons (``daemons_needed`` False) -------------------------------------------------------------

    def clients(self, volume_id: str) -> list[VolumeClient]:
        """Return the clients that are allowed to open a volume of a simulated pool."""
        return []

    def let_in(self, volume_id: str, clients: Sequence[VolumeClient]) -> None:
        """Store the clients that are allowed to open a volume of a simulated pool."""
        raise NotImplementedError

    # ----- increments (backups) -------------------------------------------------------------------------------------

    @abc.abstractmethod
    def changes(self, volume: VolumeSpec, snapshot_id: str, since: str = "") -> list[Extent]:
        """Return, in order, the parts of a snapshot that may differ from the volume's older snapshot ``since``. Without
        ``since``, return all parts that do not read as zeros. Parts in no extent are unchanged, or zeros without
        ``since``.

        Both snapshots exist while the volume is backed up: a backup keeps its own snapshot (``snapshot`` with a name
        that contains the backup's id) until the next backup is created from it.
        """
