"""The parameters of new volumes and backups."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class VolumeRequest:
    """A request for a volume, with at most one source; ids are text as callers sent them.

    ``size_gb`` None: the size of the source. ``volume_type``: a name or an id; empty: the project's default.
    ``scheduler_hints``: ``same_host`` and ``different_host``, each the id of a volume or a list of ids.
    """

    size_gb: int | None = None
    name: str = ""
    description: str = ""
    volume_type: str = ""
    availability_zone: str = ""
    image_id: str = ""
    snapshot_id: str = ""
    source_volume_id: str = ""
    backup_id: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    scheduler_hints: Mapping[str, Any] = field(default_factory=dict)
    group_id: str = ""
    multiattach: bool = False
    """A parameter of older clients. It has no effect, because the volume type determines ``Volume.multiattach``."""


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
