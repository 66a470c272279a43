"""The progress of a copy between hosts, in a file beside it. A new process of the agent continues the copy."""

from pathlib import Path

import msgspec

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class _Progress(msgspec.Struct, frozen=True):
    copy: str
    boot: str
    done: int


class CopyJournal:
    """The bytes of ``path`` that are complete, from its beginning.

    ``copy`` identifies the copied data: the entries of other copies are ignored. So are those from before a restart of
    the machine, because data is not synchronized while it is copied.
    """

    def __init__(self, path: Path, copy: str) -> None:
        self._path = path
        self._file = path.with_name(f"{path.name}.json")
        self._copy, self._boot = copy, BOOT_ID.read_text().strip()

    def done(self) -> int:
        """Return the number of complete bytes; 0 if there is no such copy."""
        try:
            progress = msgspec.json.decode(self._file.read_bytes(), type=_Progress)
        except (OSError, msgspec.DecodeError):
            return 0
        current = (progress.copy, progress.boot) == (self._copy, self._boot) and self._path.exists()
        return progress.done if current else 0

    def record(self, done: int) -> None:
        part = self._file.with_suffix(".part")
        part.touch(mode=0o600)
        part.write_bytes(msgspec.json.encode(_Progress(self._copy, self._boot, done)))
        part.replace(self._file)
