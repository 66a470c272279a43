"""Measures operations on volumes over HTTP, each from the request to the report of its end."""

from __future__ import annotations

import base64
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from tools.bench.cloud import Client, Cloud
from tools.bench.volumes import guest
from tools.bench.volumes.records import Records

PAUSE = 0.3
"""Seconds of rest before each measurement."""
Spent = dict[str, list[float]]
"""Operation → seconds of each run."""


class Volumes:
    """A client for a project's volumes, on one connection."""

    def __init__(self, cloud: Cloud) -> None:
        self.client = Client(cloud)
        self.client.microversion = "volume 3.70"  # attached volumes grow
        self.records = Records(cloud.port, self.client.token)
        self._base = f"/volume/v3/{cloud.project('demo').replace('-', '')}"
        self.spent: Spent = defaultdict(list)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        return self.client.call(method, self._base + path, body)

    def timed(self, what: str, method: str, path: str, body: Any, state: str, key: str = "") -> str:
        """Send a request, and record the seconds until a record reaches ``state``. ``key`` is the id of the record; by
        default the id in the answer.

        Returns the record's id. ``path`` is below the project's volumes, or complete if it begins with ``/compute``.
        """
        time.sleep(PAUSE)
        began = time.perf_counter()
        call = self.client.call if path.startswith("/compute") else self.call
        answer = call(method, path, body)
        key = key or str(next(iter(answer.values()))["id"])
        self.spent[what].append(self.records.reached(key, state, began) - began)
        return key

    # ----- single operations ----------------------------------------------------------------------------------------

    def create(self, what: str = "create", size: int = 1, **more: Any) -> str:
        return self.timed(what, "POST", "/volumes", {"volume": {"size": size, **more}}, "available")

    def delete(self, volume: str) -> None:
        began = time.perf_counter()
        self.call("DELETE", f"/volumes/{volume}")
        self.records.reached(volume, "deleted", began)

    def attach(self, server: str, volume: str) -> None:
        body = {"volumeAttachment": {"volumeId": volume}}
        path = f"/compute/v2.1/servers/{server}/os-volume_attachments"
        self.timed("attach", "POST", path, body, "in-use", volume)

    def detach(self, server: str, volume: str) -> None:
        path = f"/compute/v2.1/servers/{server}/os-volume_attachments/{volume}"
        self.timed("detach", "DELETE", path, None, "available", volume)

    def snapshot(self, volume: str) -> str:
        body = {"snapshot": {"volume_id": volume, "force": True}}
        return self.timed("snapshot", "POST", "/snapshots", body, "available")

    def delete_snapshot(self, snapshot: str) -> None:
        began = time.perf_counter()
        self.call("DELETE", f"/snapshots/{snapshot}")
        self.records.reached(snapshot, "deleted", began)

    def grow(self, volume: str, size: int) -> None:
        body = {"os-extend": {"new_size": size}}
        self.timed("grow", "POST", f"/volumes/{volume}/action", body, "in-use", volume)

    def launch(self, name: str, script: str = "", **more: Any) -> str:
        """Launch a server, wait until it is active, and return its id."""
        wanted = self.client.wanted(name) | more
        if script:
            wanted["user_data"] = base64.b64encode(script.encode()).decode()
        path = "/compute/v2.1/servers"
        if "block_device_mapping_v2" in more:
            del wanted["imageRef"]
        return self.timed(name, "POST", path, {"server": wanted}, "active")

    def remove(self, server: str) -> None:
        began = time.perf_counter()
        self.client.call("DELETE", f"/compute/v2.1/servers/{server}")
        self.records.reached(server, "deleted", began)

    # ----- what is measured -----------------------------------------------------------------------------------------

    def life_of_volumes(self, times: int, data: Path) -> float:
        """Create, attach, snapshot, extend, detach and delete ``times`` volumes of a guest that writes to another
        volume.

        Returns the longest time in seconds without output of the guest while that other volume was extended.
        """
        server = self.launch("writer", guest.WRITES)
        watched = self.create("other")
        self.client.call(
            "POST",
            f"/compute/v2.1/servers/{server}/os-volume_attachments",
            {"volumeAttachment": {"volumeId": watched}},
        )
        log = guest.console_log(data, server)
        guest.until(lambda: log.read_text(errors="replace").count(guest.WRITTEN) > 1, "the guest writes")
        for _ in range(times):
            volume = self.create()
            self.attach(server, volume)
            self.delete_snapshot(self.snapshot(volume))
            self.grow(volume, 2)
            self.detach(server, volume)
            self.delete(volume)
        silence = 0.0
        for number in range(min(times, 5)):
            with guest.Silence(log) as heard:
                self.grow(watched, 2 + number)
            silence = max(silence, heard.longest)
        self.remove(server)
        return silence

    def launches(self, times: int) -> None:
        """Launch alternately from the image and from a new volume of the image; the first launch of each kind only
        fills caches.
        """
        image = self.client.wanted("")["imageRef"]
        disk = {
            "boot_index": 0, "uuid": image, "source_type": "image", "destination_type": "volume", "volume_size": 1,
            "delete_on_termination": True,
        }  # fmt: skip
        for number in range(times + 1):
            if number == 1:
                for name in ("ordinary", "from a volume"):
                    self.spent.pop(name)
            self.remove(self.launch("ordinary"))
            self.remove(self.launch("from a volume", block_device_mapping_v2=[disk]))

    def throughput(self, data: Path, turns: int) -> guest.Figures:
        """Return a guest's measurements of its volume."""
        self.client.close()  # an idle connection may have been closed by the server: the client opens another
        server, volume = self.launch("measures", guest.measures(turns, 0)), self.create("other", 1)
        self.attach(server, volume)
        found = guest.figures(guest.console_log(data, server), turns)
        self.remove(server)
        return found

    def clones(self, times: int, sizes: tuple[int, ...], volume_type: str) -> None:
        """Create volumes from the image, with a volume type that clones it instead of copying. The first volume of each
        size is not measured: it imports the image.
        """
        image = self.client.wanted("")["imageRef"]
        for number in range(times + 1):
            for size in sizes:
                what = f"clone {size}" if number else "other"
                self.delete(self.create(what, size, imageRef=image, volume_type=volume_type))

    def close(self) -> None:
        self.records.close()
        self.client.close()


class Operator:
    """An operator, with a separate connection."""

    def __init__(self, cloud: Cloud) -> None:
        self._client = Client(cloud, "admin")
        self._base = f"/volume/v3/{cloud.project('admin').replace('-', '')}"

    def until_pool(self, name: str) -> None:
        """Wait until the cloud has a pool.  Raises BenchError."""
        guest.until(lambda: any(each.endswith(f"#{name}") for each in self._pools()), f"there is a pool {name}")

    def make_type(self, name: str, pool: str) -> None:
        """Create a volume type whose volumes are stored in one pool."""
        body = {"name": name, "extra_specs": {"volume_backend_name": pool}}
        self._client.call("POST", f"{self._base}/types", {"volume_type": body})

    def _pools(self) -> list[str]:
        found = self._client.call("GET", f"{self._base}/scheduler-stats/get_pools")["pools"]
        return [pool["name"] for pool in found]

    def close(self) -> None:
        self._client.close()
