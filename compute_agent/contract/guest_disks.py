"""Messages about disks in a guest, which its guest agent examines, formats, mounts and extends.

A disk is named by its serial number, of which a guest shows the first ``SHOWN_SERIAL`` characters.
"""

from typing import ClassVar, Literal

from compute_agent.contract.base import Message

GUEST_DISKS = 5
"""From this version, agents mount the disks of guests."""
SHOWN_SERIAL = 20
DIRECTORY = r"(/[A-Za-z0-9._-]+){1,16}"
"""Regular expression of a directory at which a disk can be mounted; its parts are not ``.`` or ``..``."""
LONGEST_DIRECTORY = 200
Content = Literal["empty", "filesystem", "other"]


class InspectDiskCall(Message, frozen=True):
    """Examine a disk of a running guest; changes nothing. The answer is ``InspectedDisk``, or a ``CallError`` with the
    code ``unsupported`` (no guest agent answers), ``guest_programs_disabled`` or ``guest_disk``.
    """

    since: ClassVar[int] = GUEST_DISKS
    instance_id: str
    serial: str


class InspectedDisk(Message, frozen=True):
    """The answer of the guest; untrusted. ``content``: ``other`` has partitions, or data that is not a file system."""

    device: str  # "/dev/vdb"
    content: Content
    kind: str = ""  # "ext4", "LVM2_member", "gpt"; empty: unknown
    mount_point: str = ""  # empty: not mounted


class MountDiskRequest(Message, frozen=True):
    """Mount a disk of a running guest at ``directory``, now and at each start. An empty disk is formatted with ext4
    before; a disk with a signature or other data is never formatted.
    """

    since: ClassVar[int] = GUEST_DISKS
    serial: str
    directory: str
    timeout: int = 150  # s, for the guest's programs


class ExtendFileSystemRequest(Message, frozen=True):
    """Extend the mounted file system of a disk to the size of the disk."""

    since: ClassVar[int] = GUEST_DISKS
    serial: str
    timeout: int = 150  # s, for the guest's programs
