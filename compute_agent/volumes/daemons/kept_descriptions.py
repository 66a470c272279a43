"""Copies of the descriptions of a host's storage daemons, without keys, that survive a restart of the machine.

The definitions of guests, here and on other hosts, contain the names of exports and the ports of daemons. The
descriptions themselves are in memory only, so after a restart of the machine they are recreated from these copies.
"""

import contextlib
import os
from pathlib import Path

import msgspec

from compute_agent.contract.volume import ROOT, VolumeEncryption
from compute_agent.volumes.daemons.exports import Description


class StoredDescriptions:
    """A folder with a file for each open volume. The folder is created with the first file.

    Root disks have no file: their servers open them.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, description: Description) -> None:
        """Store a daemon's description without its key. It is on the disk when the method returns."""
        volume = description.volume
        if volume.id.startswith(ROOT):
            return
        if volume.encryption is not None:
            volume = msgspec.structs.replace(volume, encryption=VolumeEncryption(key=""))
        text = msgspec.json.encode(msgspec.structs.replace(description, volume=volume))
        path = self._path(volume.id)
        with contextlib.suppress(OSError):
            if path.read_bytes() == text:
                return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)

    def of(self, volume_id: str) -> Description | None:
        """Return the stored description of a volume, with an empty key if it is encrypted; None if there is none."""
        try:
            return msgspec.json.decode(self._path(volume_id).read_bytes(), type=Description)
        except (OSError, msgspec.DecodeError):
            return None

    def all(self) -> list[Description]:
        descriptions = (self.of(path.stem) for path in sorted(self._folder.glob("*.json")))
        return [each for each in descriptions if each is not None]

    def forget(self, volume_id: str) -> None:
        """Remove the stored description of a volume."""
        self._path(volume_id).unlink(missing_ok=True)

    def _path(self, volume_id: str) -> Path:
        return self._folder / f"{volume_id}.json"
