"""The folder of a pool of files, and the check that it is still the same pool.

The folder can be the mount point of another disk or a share. If the disk or share is not mounted, the folder is empty,
and a pool created there would store volumes on the disk under the mount point. Therefore the agent stores the pool's id
outside of the folder, and does not create a second pool.
"""

import json
import os
import secrets
import uuid
from pathlib import Path

from compute_agent.virt.processes.durable import replace
from compute_agent.volumes.driver import SECRET_BYTES, PoolCapacity
from compute_agent.volumes.errors import PoolUnavailableError
from compute_agent.volumes.files.layers import NOT_THERE, POOL_LOCK, Layers

POOL = "pool.json"
POOL_SECRET = "pool.secret"  # noqa: S105 (the name of a file)
UNUSABLE = "The pool's folder cannot be used."


class PoolFolder:
    """``pool.json`` and the files in the same folder. ``remembered`` is the file that stores the pool's id outside of
    the folder, or None.
    """

    def __init__(self, layers: Layers, remembered: Path | None) -> None:
        self._layers = layers
        self._remembered = remembered

    def prepare(self) -> str:
        """Return the pool's id. The pool is created if none was ever seen in this folder."""
        folder = self._layers.folder
        try:
            known = self._known()
            if known and not (folder / POOL).exists():
                message = f"Folder {folder} no longer has the pool {known}: is it mounted?"
                raise PoolUnavailableError(message, detail=f"remembered in {self._remembered}")
            for each in (folder, self._layers.volumes, self._layers.images):
                each.mkdir(mode=0o700, parents=True, exist_ok=True)
            (folder / POOL_LOCK).touch(mode=0o600)
            self._create(POOL, json.dumps({"id": str(uuid.uuid4())}))
            result = str(uuid.UUID(json.loads((folder / POOL).read_bytes())["id"]))
            self._remember(result)
        except (OSError, ValueError, KeyError) as error:
            raise PoolUnavailableError(UNUSABLE, detail=str(error)) from error
        return result

    def check(self) -> None:
        """Raise PoolUnavailableError if the folder does not contain the pool now."""
        if not (self._layers.folder / POOL).exists():
            raise PoolUnavailableError(NOT_THERE, detail=str(self._layers.folder))

    def secret(self) -> str:
        """Return the pool's secret, which the first call creates."""
        try:
            self._create(POOL_SECRET, secrets.token_hex(SECRET_BYTES))
            return (self._layers.folder / POOL_SECRET).read_text().strip()
        except OSError as error:
            raise PoolUnavailableError(UNUSABLE, detail=str(error)) from error

    def capacity(self) -> PoolCapacity:
        """Return the size and the free space of the file system."""
        self.check()
        try:
            room = os.statvfs(self._layers.volumes)
        except OSError as error:
            raise PoolUnavailableError("The pool's folder cannot be read.", detail=str(error)) from error
        return PoolCapacity(room.f_blocks * room.f_frsize, room.f_bavail * room.f_frsize)

    def _create(self, name: str, text: str) -> None:
        """Create a file unless it exists, because another host or an earlier agent has created it."""
        path = self._layers.folder / name
        if not path.exists():
            with self._layers.locked_images():
                if not path.exists():
                    replace(path, text.encode())

    def _known(self) -> str:
        """Return the id of the pool that was seen in this folder; empty if there was none."""
        if self._remembered is None or not self._remembered.exists():
            return ""
        place, _, known = self._remembered.read_text().rpartition("\n")
        return known if place == str(self._layers.folder) else ""

    def _remember(self, pool_id: str) -> None:
        path, text = self._remembered, f"{self._layers.folder}\n{pool_id}"
        if path is None or (path.exists() and path.read_text() == text):
            return
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace(path, text.encode())
