"""What hosts are told and asked about volumes, and what they say of their pools.

A **pool** is where the data of volumes lies, run by one driver: ``nbd`` (qcow2 files of this host alone), ``dir``
(qcow2 files in a directory that several hosts have mounted), ``rbd`` (a pool of a Ceph cluster).  A **shared** pool is
reached from every host that serves it.  A volume in use is held open by one storage daemon, which exports it by NBD:
that of a shared pool runs on the guest's own host, that of another one on the pool's host.  A guest therefore always
has an NBD disk: over a unix socket when the daemon runs beside it, else over TCP with TLS.

Sizes are in GiB where the name ends in ``_gb``, else in bytes.  UUIDs are text with dashes.
"""

from compute_agent.contract.base import Message
from compute_agent.contract.build import Frozen, ImageRef, VolumeConnection

VOLUME = "volume"
"""The kind of subject of commands that change a volume: the host carries them out one at a time."""
VOLUME_COPY = "volume_copy"
"""The kind of subject of a copy of a volume's data that goes on for long beside other commands of the volume: its id is
that of the image or the backup that is written.
"""


class VolumeEncryption(Frozen, frozen=True):
    """LUKS under a volume; the storage daemon has the key while it holds the volume open."""

    key: str  # base64 of a passphrase in UTF-8; sealed while it is kept in the portal
    cipher: str = "aes-xts-plain64"
    key_size: int = 256  # bits


class VolumeSpec(Frozen, frozen=True):
    """One volume as its pool keeps it."""

    id: str
    pool_id: str
    size_gb: int
    encryption: VolumeEncryption | None = None
    multiattach: bool = False  # several guests may have it open: it is exported so that other hosts reach it, too
    version: int = 0  # of the record when the command was sent; 0: not said


class VolumeSource(Frozen, frozen=True):
    """What a new volume begins with.  ``image`` excludes the others."""

    image: ImageRef | None = None
    snapshot_id: str = ""  # of ``volume_id``, in the same pool
    volume_id: str = ""  # a volume of the same pool, as it is now when there is no ``snapshot_id``
    unmanaged: str = ""  # the name of a disk in the same pool that is nobody's: it becomes the volume's data


class VolumeClient(Frozen, frozen=True):
    """Somebody who may open an exported volume."""

    attachment_id: str
    host_id: str  # of the guest; its certificate bears this id
    local: bool  # the guest runs on the host that gets the command
    read_only: bool = False


class KnownVolume(Frozen, frozen=True):
    """The data of a volume as a host knows it by the commands that it was given.

    A command of an older ``VolumeSpec.version`` than the newest seen is refused with the code ``superseded``, and so is
    a ``ConnectVolumeRequest`` of the same version that leaves somebody out: ``detail["known"]`` is then the JSON of
    this struct.  A version above that of the record proves that records are lost.
    """

    data_id: str  # ``VolumeSpec.id``
    version: int  # the newest that was seen
    volume_id: str = ""  # the subject of the last command
    pool_id: str = ""
    size_gb: int = 0
    clients: list[VolumeClient] | None = None  # None: not known
    gone: bool = False  # it was deleted here
    encrypted: bool = False


MOST_KNOWN = 5_000
"""Volumes that one message lists."""


class CreateVolumeRequest(Message, frozen=True):
    """Make the volume, empty (it reads as zeros) or from ``source``.

    An image whose data is larger than the volume fails with ``image_unacceptable``.  Idempotent.
    """

    volume: VolumeSpec
    source: VolumeSource = VolumeSource()


def client_export(export: str, attachment_id: str) -> str:
    """Return the name of the export that one client of a multiattach volume has: it ends without the others'."""
    return f"{export}.{attachment_id}"


class DeleteVolumeRequest(Message, frozen=True):
    """Stop the volume's daemon and remove its data.

    Data that clones still need stays until they are gone, and is nobody's volume any more: then it ends with
    ``detail["kept"]``, the bytes of that (``PoolState.kept`` has them later).  Succeeds when there is nothing.
    """

    volume: VolumeSpec


class ConnectVolumeRequest(Message, frozen=True):
    """Let exactly these clients open the volume, and nobody when there are none: then its daemon ends.

    Ends with ``detail["connection"]`` (JSON of a ``VolumeConnection``, the same for all clients, but that each of a
    multiattach volume has its own export: ``client_export``); what an earlier command of the same kind has promised to
    a client that is still named stays as it is.
    """

    volume: VolumeSpec
    clients: list[VolumeClient]


class GrowVolumeRequest(Message, frozen=True):
    """Give the volume the size that ``volume`` says, never a smaller one.

    One that is exported gets a second export with the new size, and ends with its ``detail["connection"]``; clients
    are moved to it by commands to their hosts, and the next ``ConnectVolumeRequest`` ends the older export.
    """

    volume: VolumeSpec


class SnapshotVolumeRequest(Message, frozen=True):
    """Freeze what the volume has now under the id of a snapshot, whether or not it is in use."""

    volume: VolumeSpec
    snapshot_id: str


class DeleteSnapshotRequest(Message, frozen=True):
    """Remove a snapshot; volumes made from it stay whole.  Succeeds when there is none."""

    volume: VolumeSpec
    snapshot_id: str


class RevertVolumeRequest(Message, frozen=True):
    """Give a volume that nobody has open what its newest snapshot has."""

    volume: VolumeSpec
    snapshot_id: str


class FetchVolumeRequest(Message, frozen=True):
    """Make the volume in this host's pool as a copy of one that another host exports (to this host's certificate)."""

    volume: VolumeSpec
    origin: VolumeConnection


class ReimageVolumeRequest(Message, frozen=True):
    """Write the data of ``image`` over a volume that nobody has open, or only servers that are stopped.

    What is beyond the image reads as zeros; snapshots, the size and the key stay as they are, and exports go on under
    their names.  An image whose data is larger than the volume fails with ``image_unacceptable`` and changes nothing;
    a volume whose command failed otherwise may have some of the image.  Idempotent.
    """

    volume: VolumeSpec
    image: ImageRef


class UnmanageVolumeRequest(Message, frozen=True):
    """Leave the data of a volume that nobody has open in its pool as a disk that is nobody's, called ``name``.

    The volume is not there any more then.  Idempotent.  Ends as ``DeleteVolumeRequest`` does.
    """

    volume: VolumeSpec
    name: str


class UploadVolumeRequest(Message, frozen=True):
    """Send a consistent copy of the volume to the portal as the data of an image.  Subject: ``volume_copy``."""

    volume: VolumeSpec
    image_id: str
    disk_format: str = "qcow2"


class BackupVolumeRequest(Message, frozen=True):
    """Send the volume's data, or what has changed since ``parent_id``, to the portal as a backup.

    Subject: ``volume_copy``.  The stream and the ends are those of ``compute_agent.volumes.backups``; a host that
    does not know any more what has changed sends all and says ``detail["full"] = "true"``.
    """

    volume: VolumeSpec
    backup_id: str
    parent_id: str = ""
    snapshot_id: str = ""  # back up what this snapshot has


class RestoreVolumeRequest(Message, frozen=True):
    """Write a chain of backups, oldest first, over a volume that nobody has open."""

    volume: VolumeSpec
    backup_ids: list[str]


VolumeCommand = (
    CreateVolumeRequest
    | DeleteVolumeRequest
    | ConnectVolumeRequest
    | GrowVolumeRequest
    | SnapshotVolumeRequest
    | DeleteSnapshotRequest
    | RevertVolumeRequest
    | FetchVolumeRequest
    | ReimageVolumeRequest
    | UnmanageVolumeRequest
    | UploadVolumeRequest
    | BackupVolumeRequest
    | RestoreVolumeRequest
)


MOST_KEPT = 1000
"""Deleted volumes of one pool that a host reports."""


class PoolState(Frozen, frozen=True):
    """A pool that a host serves, as it is now; part of the audit, which is sent at once when a pool comes or goes."""

    id: str  # kept in the pool itself: two hosts that serve one shared pool say the same
    name: str
    driver: str  # "nbd", "dir", "rbd", "fake"
    shared: bool
    total_gb: float
    free_gb: float
    capabilities: dict[str, str] = {}  # "multiattach", "online_extend", "encryption", "fast_clone" … → "true"
    warning: str = ""  # why it cannot be used now, in a sentence for operators
    unserved: list[
        str
    ] = []  # encrypted volumes that were open here before the machine started anew, without their keys
    secret: str = ""  # kept in the pool itself: proves that the host reaches its storage
    kept: dict[str, int] | None = None  # deleted volumes whose data others need: id → bytes, 0: not measured now; at
    # most MOST_KEPT, the largest; None: it does not say


class StoredVolume(Frozen, frozen=True):
    """A volume that is in a pool."""

    id: str
    snapshots: list[str] = []
    attachments: list[str] = []  # clients that may open it through a daemon on this host
    daemon: bool = False  # a daemon on this host holds it open
    gone: bool = False  # deleted: only clones need its data


class PoolContentsCall(Message, frozen=True):
    """List what a pool has and which daemons run for it on this host; answers ``PoolContents``."""

    pool_id: str


class UnmanagedDisk(Frozen, frozen=True):
    """A disk in a pool that is nobody's."""

    name: str
    size: int = 0  # bytes
    reason: str = ""  # why it cannot be taken over


class UnmanagedDisksCall(Message, frozen=True):
    """List the disks in a pool that are nobody's; answers ``UnmanagedDisks``."""

    pool_id: str


class UnmanagedDisks(Message, frozen=True):
    """What could be taken over as volumes."""

    disks: list[UnmanagedDisk]


class PoolContents(Message, frozen=True):
    """Everything in a pool."""

    volumes: list[StoredVolume]


class GuestVolumesCall(Message, frozen=True):
    """List the volumes that the guests of this host have as disks; answers ``GuestVolumes``."""


class GuestVolumes(Message, frozen=True):
    """The guests of a host: those that are on with what they run with, others with what they are defined with."""

    guests: dict[str, list[str]]  # the server's id → ids of volumes
