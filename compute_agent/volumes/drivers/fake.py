"""``fake``: a pool of a simulated host. Its volumes have no data and are recorded in one file. LOCATION is its folder.

The clients that may open a volume are recorded as well, because a real storage daemon outlives the agent, too.
``LOCATION?fault=OPERATION[:KIND]`` causes every call of the driver method OPERATION to fail.
KIND is ``retryable`` or ``fatal``.
"""

import json
import secrets
import threading
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from compute_agent.contract.volume import StoredVolume, UnmanagedDisk, VolumeClient, VolumeSpec, is_unmanaged
from compute_agent.virt.driver import Stopped, never
from compute_agent.virt.errors import FatalBuildError, ImageUnacceptableError, RetryableHostError
from compute_agent.volumes.driver import (
    GIB,
    SECRET_BYTES,
    TOO_LARGE,
    TWO_SNAPSHOTS,
    Extent,
    Opening,
    OpenVolume,
    PoolCapacity,
    PoolSettings,
    VolumeDriver,
)
from compute_agent.volumes.errors import VolumeInUseError, VolumeNotFoundError

FILE = "pool.json"
TOTAL = 1000 * GIB


class FakeDriver(VolumeDriver):
    """A simulated pool: stores names and sizes of volumes, but no data."""

    name = "fake"
    daemons_needed = False
    capabilities: ClassVar[dict[str, str]] = {
        "multiattach": "true",
        "online_extend": "true",
        "encryption": "true",
        "manage": "true",
    }

    def __init__(self, settings: PoolSettings) -> None:
        super().__init__(settings)
        location, _, options = settings.location.partition("?")
        self._path = Path(location) / FILE
        self._fault, _, self._kind = options.removeprefix("fault=").partition(":")
        self._lock = threading.Lock()
        self._kept: dict[str, Any] = {"id": str(uuid.uuid4()), "volumes": {}}

    def prepare(self) -> str:
        with self._lock:
            if self._path.exists():
                self._kept = json.loads(self._path.read_bytes())
            else:
                self._save()
            return str(self._kept["id"])

    def secret(self) -> str:
        with self._lock:
            if "secret" not in self._kept:
                self._kept["secret"] = secrets.token_hex(SECRET_BYTES)
                self._save()
            return str(self._kept["secret"])

    def capacity(self) -> PoolCapacity:
        used = sum(volume["size"] for volume in self._volumes.values())
        return PoolCapacity(TOTAL, max(0, TOTAL - used))

    def contents(self) -> list[StoredVolume]:
        with self._lock:
            return [
                StoredVolume(
                    id=key,
                    snapshots=sorted(each["snapshots"]),
                    unmanaged={name: size for name, size in each["snapshots"].items() if is_unmanaged(name)},
                )
                for key, each in self._volumes.items()
            ]

    def sweep(self) -> list[str]:
        return []

    def create(self, volume: VolumeSpec) -> None:
        self._strike("create")
        with self._lock:
            self._volumes.setdefault(volume.id, {"size": volume.size_gb * GIB, "snapshots": {}})
            self._save()

    def create_from_image(self, volume: VolumeSpec, image: Path, stopped: Stopped = never) -> None:
        if image.is_file() and image.stat().st_size > volume.size_gb * GIB:
            raise ImageUnacceptableError(TOO_LARGE)
        self.create(volume)

    def reimage(self, volume: VolumeSpec, image: Path, stopped: Stopped = never) -> bool:
        self._strike("reimage")
        if image.is_file() and image.stat().st_size > self.size(volume.id):
            raise ImageUnacceptableError(TOO_LARGE)
        return True

    def unmanaged(self) -> list[UnmanagedDisk]:
        with self._lock:
            return [UnmanagedDisk(name=name, size=size) for name, size in sorted(self._beside.items())]

    def adopt(self, volume: VolumeSpec, name: str) -> None:
        self._strike("adopt")
        if volume.id not in self._volumes and self._beside.pop(name, None) is None:
            raise VolumeNotFoundError("disk")
        self.create(volume)

    def leave(self, volume: VolumeSpec, name: str, write: Callable[[Path], None]) -> None:
        self._strike("leave")
        if volume.id in self._volumes:
            self._beside[name] = self.size(volume.id)
            self.delete(volume.id)

    @property
    def _beside(self) -> dict[str, int]:
        result: dict[str, int] = self._kept.setdefault("unmanaged", {})
        return result

    def create_from_snapshot(self, volume: VolumeSpec, source_id: str, snapshot_id: str) -> None:
        if snapshot_id not in self._get(source_id)["snapshots"]:
            raise VolumeNotFoundError("snapshot")
        self.create(volume)

    def delete(self, volume_id: str) -> None:
        self._strike("delete")
        with self._lock:
            self._volumes.pop(volume_id, None)
            self._save()

    def grow(self, volume: VolumeSpec, daemon: OpenVolume | None = None) -> None:
        self._strike("grow")
        with self._lock:
            record = self._get(volume.id)
            record["size"] = max(record["size"], volume.size_gb * GIB)
            self._save()

    def size(self, volume_id: str) -> int:
        return int(self._get(volume_id)["size"])

    def snapshot(self, volume: VolumeSpec, snapshot_id: str, daemon: OpenVolume | None = None) -> None:
        self._strike("snapshot")
        with self._lock:
            record = self._get(volume.id)
            record["snapshots"].setdefault(snapshot_id, record["size"])
            self._save()

    def delete_snapshot(
        self, volume: VolumeSpec, snapshot_id: str, daemon: OpenVolume | None = None, stopped: Stopped = never
    ) -> None:
        self._strike("delete_snapshot")
        with self._lock:
            if volume.id in self._volumes:
                self._volumes[volume.id]["snapshots"].pop(snapshot_id, None)
                self._save()

    def rename_snapshot(self, volume: VolumeSpec, name: str, new_name: str) -> None:
        self._strike("rename_snapshot")
        with self._lock:
            snapshots = self._get(volume.id)["snapshots"]
            if name in snapshots and new_name in snapshots:
                raise VolumeInUseError(TWO_SNAPSHOTS)
            if name in snapshots:
                snapshots[new_name] = snapshots.pop(name)
                self._save()
            elif new_name not in snapshots:
                raise VolumeNotFoundError("snapshot")

    def revert(self, volume: VolumeSpec, snapshot_id: str) -> None:
        self._strike("revert")
        if snapshot_id not in self._get(volume.id)["snapshots"]:
            raise VolumeNotFoundError("snapshot")

    def clients(self, volume_id: str) -> list[VolumeClient]:
        return msgspec.convert(self._volumes.get(volume_id, {}).get("clients", []), list[VolumeClient])

    def let_in(self, volume_id: str, clients: Sequence[VolumeClient]) -> None:
        with self._lock:
            if clients or volume_id in self._volumes:
                self._get(volume_id)["clients"] = msgspec.to_builtins(list(clients))
                self._save()

    def opening(self, volume: VolumeSpec) -> Opening:
        self._get(volume.id)
        return Opening({"driver": "null-co", "node-name": "fake", "size": self.size(volume.id), "read-zeroes": True})

    def snapshot_opening(self, volume: VolumeSpec, snapshot_id: str) -> Opening:
        return self.opening(volume)

    def top(self, volume: VolumeSpec) -> str:
        return "fake"

    def changes(self, volume: VolumeSpec, snapshot_id: str, since: str = "") -> list[Extent]:
        self._get(volume.id)
        return []

    @property
    def _volumes(self) -> dict[str, Any]:
        volumes: dict[str, Any] = self._kept["volumes"]
        return volumes

    def _get(self, volume_id: str) -> dict[str, Any]:
        if volume_id not in self._volumes:
            raise VolumeNotFoundError
        result: dict[str, Any] = self._volumes[volume_id]
        return result

    def _save(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps(self._kept))
        part.replace(self._path)

    def _strike(self, operation: str) -> None:
        """Raise the simulated fault if it is configured for this operation."""
        if operation != self._fault:
            return
        if self._kind == "fatal":
            raise FatalBuildError(f"Simulated fault: no host can {operation}.")
        raise RetryableHostError(f"Simulated fault: this host failed to {operation}.")


DRIVER = FakeDriver
