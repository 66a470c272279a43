"""The parameters of a new backup."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class BackupRequest:
    """A request for a backup of a volume or of one of its snapshots; ids are text as callers sent them.

    ``force`` allows a volume that is in use; ``incremental``: only the changes since the newest backup.
    """

    name: str = ""
    description: str = ""
    container: str = ""
    snapshot_id: str = ""
    incremental: bool = False
    force: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict)
    availability_zone: str = ""
