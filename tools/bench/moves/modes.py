"""Places of the root disks of the measured guests, and the clouds that they need."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tools.bench.cloud import BenchError
from tools.bench.volumes import on_ceph
from up.places import UNDERLAY
from up.switch import Switch

MODES = ("local", "volume", "shared", "ceph")
"""Files of the host, volumes of hosts' own pools, a folder that the hosts share, Ceph."""
KEEP_THEIR_DISK = ("shared", "ceph")
"""Modes in which an evacuated server has the disk that it had."""
POOL = "roots"
CEPH = "192.0.2.200"
"""The address of Ceph in the network between the hosts."""


class AtSwitch(on_ceph.Place):
    """The switch's namespace, in the network between the hosts. ``up.switch`` removes it."""

    def __init__(self, switch: Switch, hosts: int) -> None:
        super().__init__()
        self._switch, self._hosts = switch, hosts
        self.name, self.address = switch.middle, CEPH

    def make(self) -> None:
        self._switch.make(self._hosts)
        command = ["ip", "-n", self.name, "address", "replace", f"{CEPH}/24", "dev", UNDERLAY]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BenchError(f"{' '.join(command)}: {done.stderr.strip()}")

    def remove(self) -> None:
        pass


@contextlib.contextmanager
def settings(mode: str, folder: Path, switch: Switch, hosts: int) -> Iterator[dict[str, str]]:
    """Provide the storage of a mode until the end of the block, and return the agents' settings. Raises BenchError."""
    if mode == "ceph":
        (folder / "ceph").mkdir()
        with on_ceph.running(folder / "ceph", AtSwitch(switch, hosts)) as cluster:
            yield _pool(cluster.pool)
    elif mode == "shared":
        (folder / "shared").mkdir(mode=0o755)
        yield _pool(f"dir:{folder}/shared")
    else:
        yield {}


def _pool(where: str) -> dict[str, str]:
    return {"NOVELLA_AGENT_VOLUME_POOL": f"{POOL}={where}", "NOVELLA_AGENT_ROOT_DISKS": POOL}
