"""What is asked for of backups, as one value."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class BackupRequest:
    """A new backup of a volume, or of what one of its snapshots has; ids are text as callers sent them.

    ``force`` lets a volume be backed up that is in use; ``incremental``: only what has changed since the newest backup.
    """

    volume_id: str
    name: str = ""
    description: str = ""
    container: str = ""
    snapshot_id: str = ""
    incremental: bool = False
    force: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict)
    availability_zone: str = ""
