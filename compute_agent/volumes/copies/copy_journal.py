"""The progress of a copy between hosts, in a file beside it. A new process of the agent continues the copy."""

from pathlib import Path

import msgspec

from compute_agent.virt.processes import durable


class _Progress(msgspec.Struct, frozen=True):
    copy: str
    stored: int


class CopyJournal:
    """The bytes of ``path`` that are complete, from its beginning.

    ``copy`` identifies the copied data: the entries of other copies are ignored. The bytes are on the disk before they
    are recorded, so that the copy also continues after a restart of the machine.
    """

    def __init__(self, path: Path, copy: str) -> None:
        self._path = path
        self._file = path.with_name(f"{path.name}.json")
        self._copy = copy

    def done(self) -> int:
        """Return the number of complete bytes; 0 if there is no such copy."""
        try:
            progress = msgspec.json.decode(self._file.read_bytes(), type=_Progress)
        except (OSError, msgspec.DecodeError):
            return 0
        return progress.stored if progress.copy == self._copy and self._path.exists() else 0

    def record(self, done: int) -> None:
        """Write the copied data to the disk, then the number of complete bytes."""
        durable.sync(self._path)
        durable.replace(self._file, msgspec.json.encode(_Progress(self._copy, done)))
