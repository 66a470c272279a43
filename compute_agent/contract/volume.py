"""Commands and calls about volumes, and hosts' reports about their pools.

A **pool** stores the data of volumes and has one driver: ``nbd`` (qcow2 files on one host's disk), ``dir`` (qcow2 files
in a directory that several hosts have mounted), ``rbd`` (a pool of a Ceph cluster). A **shared** pool is accessible
from every host that serves it. A volume in use is opened by one storage daemon, which exports it by NBD: for a shared
pool on the guest's own host, otherwise on the pool's host. Therefore a guest always has an NBD disk: over a unix socket
if the daemon runs on the same host, otherwise over TCP with TLS.

Sizes are in GiB if the name ends in ``_gb``, else in bytes. UUIDs are text with dashes.
"""

import re
from typing import ClassVar

from compute_agent.contract.base import Message
from compute_agent.contract.build import Frozen, ImageRef, VolumeConnection
from compute_agent.contract.migration import LIVE_MIGRATION

VOLUME = "volume"
"""The kind of subject of commands that change a volume, which the host executes one at a time."""
VOLUME_COPY = "volume_copy"
"""The kind of subject of a long copy of a volume's data, parallel to other commands of the volume. The id of the
subject is the id of the image or backup that is written.
"""
ROOT = "root-"
"""The prefix of the ids of guests' root disks in a pool, which are not volumes of the cloud."""


class VolumeEncryption(Frozen, frozen=True):
    """LUKS encryption of a volume. The storage daemon has the key while the volume is open."""

    key: str  # base64 of a passphrase in UTF-8; stored encrypted in the portal
    cipher: str = "aes-xts-plain64"
    key_size: int = 256  # bits


class VolumeSpec(Frozen, frozen=True):
    """One volume in its pool."""

    id: str
    pool_id: str
    size_gb: int
    encryption: VolumeEncryption | None = None
    multiattach: bool = False  # several guests, also on other hosts, may open the volume
    version: int = 0  # of the volume in the database when the command was sent; 0: not sent


class VolumeSource(Frozen, frozen=True):
    """The initial data of a new volume. With ``image``, all other fields are unset."""

    image: ImageRef | None = None
    snapshot_id: str = ""  # of ``volume_id``, in the same pool
    volume_id: str = ""  # a volume of the same pool; its current data if there is no ``snapshot_id``
    unmanaged: str = ""  # the name of an unmanaged disk in the same pool, which becomes the volume's data


class VolumeClient(Frozen, frozen=True):
    """A client that may open an exported volume.

    An attachment has two clients while its guest is migrated live: one on each host, with different ``move``.
    """

    attachment_id: str
    host_id: str  # the guest's host, whose certificate contains this id
    local: bool  # the guest runs on the host that gets the command
    read_only: bool = False
    move: int = 0  # number of the guest's live migration to this host, part of the export's name; 0: none


class KnownVolume(Frozen, frozen=True):
    """The state of a volume that a host knows from its commands.

    A command with an older ``VolumeSpec.version`` than the newest seen is rejected with the code ``superseded``. A
    ``ConnectVolumeRequest`` with the same version that omits a client is rejected as well. ``detail["known"]`` is then
    the JSON of this struct. A version above that in the database proves that the database has lost data.
    """

    data_id: str  # ``VolumeSpec.id``
    version: int  # the newest version that the host has seen
    volume_id: str = ""  # the subject of the last command
    pool_id: str = ""
    size_gb: int = 0
    clients: list[VolumeClient] | None = None  # clients that the last command allowed; None: unknown
    gone: bool = False  # this host has deleted the volume
    encrypted: bool = False


MOST_KNOWN = 5_000
"""Limit of the volumes in one message."""


class CreateVolumeRequest(Message, frozen=True):
    """Create the volume, empty (it reads as zeros) or from ``source``.

    Fails with ``image_unacceptable`` if the image's data is larger than the volume. Idempotent.
    """

    volume: VolumeSpec
    source: VolumeSource = VolumeSource()


def client_export(export: str, attachment_id: str, *, multiattach: bool = True, move: int = 0) -> str:
    """Return the name of one client's export, which can be ended separately.

    ``export`` is the name in the connection that the daemon's host reports. Clients of a multiattach volume, and the
    two hosts of a live migration, have different exports.
    """
    name = f"{export}.{attachment_id}" if multiattach else export
    return f"{name}.{move}" if move else name


class DeleteVolumeRequest(Message, frozen=True):
    """Stop the volume's daemon and delete its data.

    Data that clones still need is kept until they are deleted, although the volume no longer exists. The command then
    ends with the size of that data in bytes in ``detail["kept"]`` (later in ``PoolState.kept``). Succeeds if nothing
    exists.
    """

    volume: VolumeSpec


class ConnectVolumeRequest(Message, frozen=True):
    """Allow exactly these clients to open the volume. Without clients, stop the volume's daemon.

    Ends with ``detail["connection"]``, the JSON of a ``VolumeConnection``. It is the same for all clients, but the name
    of a client's export may be longer (``client_export``). A connection with ``socket`` and ``port`` is for clients on
    the same host and on other hosts. Connections of clients that are still included stay valid.
    """

    volume: VolumeSpec
    clients: list[VolumeClient]

    def needed_version(self) -> int:
        return LIVE_MIGRATION if any(client.move for client in self.clients) else self.since


class GrowVolumeRequest(Message, frozen=True):
    """Extend the volume to the size in ``volume``. A volume is never shrunk.

    An exported volume gets a second export with the new size, and the command ends with the connection to it in
    ``detail["connection"]``. The portal then sends commands to the clients' hosts, which switch the clients to the
    second export. The next ``ConnectVolumeRequest`` ends the first export.
    """

    volume: VolumeSpec


class SnapshotCommand(Message, frozen=True):
    """Base class of commands about one snapshot of a volume."""

    volume: VolumeSpec
    snapshot_id: str


class SnapshotVolumeRequest(SnapshotCommand, frozen=True):
    """Create a snapshot of the volume's current data, whether or not it is in use."""


class DeleteSnapshotRequest(SnapshotCommand, frozen=True):
    """Delete a snapshot; volumes created from it stay intact.  Succeeds if it does not exist."""


class ManageSnapshotRequest(SnapshotCommand, frozen=True):
    """Rename the volume's unmanaged snapshot ``name`` to ``snapshot_id``, whether or not the volume is in use.

    Succeeds if it was renamed before.
    """

    since: ClassVar[int] = 5
    name: str


class UnmanageSnapshotRequest(SnapshotCommand, frozen=True):
    """Rename a snapshot to ``name``, whether or not the volume is in use. Its data is unchanged.

    Succeeds if it was renamed before.
    """

    since: ClassVar[int] = 5
    name: str


class RevertVolumeRequest(SnapshotCommand, frozen=True):
    """Revert a volume that is not open to its newest snapshot."""


class FetchVolumeRequest(Message, frozen=True):
    """Create the volume in this host's pool as a copy of a volume that another host exports for this host's
    certificate.
    """

    volume: VolumeSpec
    origin: VolumeConnection


class ReimageVolumeRequest(Message, frozen=True):
    """Write the data of ``image`` over a volume that is closed, or open only for stopped servers.

    The rest of the volume reads as zeros; snapshots, size, key and the names of exports are unchanged. If the image's
    data is larger than the volume, the command fails with ``image_unacceptable`` and changes nothing. After any other
    failure the volume may contain a part of the image. Idempotent.
    """

    volume: VolumeSpec
    image: ImageRef


class UnmanageVolumeRequest(Message, frozen=True):
    """Turn a closed volume into an unmanaged disk of its pool with the name ``name``.

    The volume no longer exists then. Idempotent. Ends like ``DeleteVolumeRequest``.
    """

    volume: VolumeSpec
    name: str


class UploadVolumeRequest(Message, frozen=True):
    """Send a consistent copy of the volume to the portal as the data of an image.  Subject: ``volume_copy``."""

    volume: VolumeSpec
    image_id: str
    disk_format: str = "qcow2"


class BackupVolumeRequest(Message, frozen=True):
    """Send the volume's data, or its changes since ``parent_id``, to the portal as a backup.

    Subject: ``volume_copy``. Data and results are described in ``compute_agent.volumes.backups.backups``. If the host
    no longer knows the changes, it sends all data, and the command ends with ``detail["full"] = "true"``.
    """

    volume: VolumeSpec
    backup_id: str
    parent_id: str = ""
    snapshot_id: str = ""  # back up this snapshot's data


class RestoreVolumeRequest(Message, frozen=True):
    """Write a chain of backups, oldest first, over a volume that is not open."""

    volume: VolumeSpec
    backup_ids: list[str]


VolumeCommand = (
    CreateVolumeRequest
    | DeleteVolumeRequest
    | ConnectVolumeRequest
    | GrowVolumeRequest
    | SnapshotVolumeRequest
    | DeleteSnapshotRequest
    | ManageSnapshotRequest
    | UnmanageSnapshotRequest
    | RevertVolumeRequest
    | FetchVolumeRequest
    | ReimageVolumeRequest
    | UnmanageVolumeRequest
    | UploadVolumeRequest
    | BackupVolumeRequest
    | RestoreVolumeRequest
)


MOST_KEPT = 1000
"""Limit of the deleted volumes of one pool that a host reports."""


class PoolState(Frozen, frozen=True):
    """A pool that a host serves. It is part of the audit, which is sent immediately when a pool is added or removed."""

    id: str  # stored in the pool itself, so all hosts of a shared pool report the same id
    name: str
    driver: str  # "nbd", "dir", "rbd", "fake"
    shared: bool
    total_gb: float
    free_gb: float
    capabilities: dict[str, str] = {}  # "multiattach", "online_extend", "encryption", "fast_clone" … → "true"
    warning: str = ""  # why the pool cannot be used now, in a sentence for operators
    unserved: list[str] = []  # encrypted volumes that were open here before the machine restarted, without their keys
    secret: str = ""  # stored in the pool itself: proves that the host has access to the pool
    kept: dict[str, int] | None = None  # deleted volumes whose data other volumes need: id → bytes, 0: not measured
    # now; at most MOST_KEPT, the largest; None: not sent


class StoredVolume(Frozen, frozen=True):
    """A volume in a pool."""

    id: str
    snapshots: list[str] = []
    attachments: list[str] = []  # clients that may open the volume through a daemon on this host
    daemon: bool = False  # a daemon on this host has the volume open
    gone: bool = False  # deleted: its data is needed only by clones
    unmanaged: dict[str, int] = {}  # its unmanaged snapshots (is_unmanaged): name → bytes


COPY_SNAPSHOTS = re.compile(
    r"(?P<what>clone|image|unmanaged|backup)-(?P<id>[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})(-[0-9a-f]{8})?"
)
"""Names of the snapshots that hosts create for copies (``compute_agent.volumes.copies.moments``, ``backup_copies``)."""
_RECORDED = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_UNMANAGED = re.compile(r"[^/@\x00-\x20\x7f][^/@\x00-\x1f\x7f]{0,254}")


def is_unmanaged(name: str) -> bool:
    """Return whether a snapshot in a pool can be managed: its name is neither an id nor the name of a copy."""
    known = _RECORDED.fullmatch(name) or COPY_SNAPSHOTS.fullmatch(name)
    return known is None and _UNMANAGED.fullmatch(name) is not None


class PoolContentsCall(Message, frozen=True):
    """List the volumes of a pool and its daemons on this host.  The answer is ``PoolContents``."""

    pool_id: str


class UnmanagedDisk(Frozen, frozen=True):
    """A disk in a pool that belongs to no volume."""

    name: str
    size: int = 0  # bytes
    reason: str = ""  # why it cannot become a volume


class UnmanagedDisksCall(Message, frozen=True):
    """List the disks in a pool that belong to no volume.  The answer is ``UnmanagedDisks``."""

    pool_id: str


class UnmanagedDisks(Message, frozen=True):
    """The disks in a pool that belong to no volume. A disk with a ``reason`` cannot become a volume."""

    disks: list[UnmanagedDisk]


class PoolContents(Message, frozen=True):
    """All volumes in a pool."""

    volumes: list[StoredVolume]


class GuestVolumesCall(Message, frozen=True):
    """List the volumes that are disks of this host's guests.  The answer is ``GuestVolumes``."""


class GuestVolumes(Message, frozen=True):
    """The volumes of a host's guests. For a running guest these are the volumes in use, for a stopped guest the volumes
    in its definition.
    """

    guests: dict[str, list[str]]  # the server's id → ids of volumes
