"""Measures clones of an image in a complete Ceph of one node, with Novella and with the command ``rbd``.

Ceph runs in its own network namespace, because the machine does not accept packets from the namespace of the guests,
where their storage daemons run.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path

from tools import ceph
from tools.bench.cloud import BenchError, Cloud
from tools.bench.volumes.operations import Operator, Spent, Volumes

SIZES = (1, 50)
"""GiB of the clones."""
NAME = "ceph"
START_WITHIN = 180.0
STOP_WITHIN = 30.0
PROGRAMS = ("ceph-mon", "ceph-mgr", "ceph-osd", "rbd")


def missing() -> str:
    """Return the reason why Ceph cannot run here; empty if it can."""
    if all(shutil.which(program) for program in PROGRAMS):
        return ""
    return f"Ceph is not installed (apt install {ceph.PACKAGES} qemu-block-extra)."


class Place:
    """A network namespace with one link to the machine. The machine is its default gateway, and routes to the hosts'
    namespaces.
    """

    def __init__(self) -> None:
        number = os.getpid() % 16384  # of the range for measurements, RFC 2544
        high, low = divmod(number * 4, 256)
        self.name, self.cable = f"nvb-{os.getpid()}", f"nvb{os.getpid()}"
        self.near, self.address = f"198.18.{high}.{low + 1}", f"198.18.{high}.{low + 2}"

    def make(self) -> None:
        """Create the namespace. Raises BenchError."""
        inside = ("-n", self.name)
        for words in (
            ("netns", "add", self.name),
            ("link", "add", self.cable, "type", "veth", "peer", "name", "eth0", "netns", self.name),
            ("address", "add", f"{self.near}/30", "dev", self.cable),
            ("link", "set", self.cable, "up"),
            (*inside, "address", "add", f"{self.address}/30", "dev", "eth0"),
            (*inside, "link", "set", "eth0", "up"),
            (*inside, "link", "set", "lo", "up"),
            (*inside, "route", "add", "default", "via", self.near),
        ):
            done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise BenchError(f"ip {' '.join(words)}: {done.stderr.strip()}")

    def inside(self, *command: str) -> list[str]:
        return ["ip", "netns", "exec", self.name, *command]

    def remove(self) -> None:
        subprocess.run(["ip", "netns", "delete", self.name], capture_output=True, check=False)


class Cluster:
    """A Ceph cluster in a ``Place``."""

    def __init__(self, folder: Path, place: Place) -> None:
        self._place = place
        self._files = ceph.Cluster(folder, place.address)

    @property
    def pool(self) -> str:
        """The location of its pool, in the format of a host's setting."""
        return f"rbd:{ceph.POOL}?conf={self._files.conf}&id={ceph.CLIENT}"

    def rbd(self, *words: str) -> None:
        """Run ``rbd`` as the administrator.  Raises BenchError."""
        command = self._place.inside("rbd", "-c", str(self._files.conf), *words)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BenchError(f"rbd {' '.join(words)}: {done.stderr.strip()[-500:]}")

    def clones(self, times: int) -> Spent:
        """Return the seconds of ``rbd clone`` and ``rbd resize`` together, for each size."""
        self.rbd("create", f"{ceph.POOL}/bare", "--size", "64M")
        self.rbd("snap", "create", f"{ceph.POOL}/bare@one")
        spent: Spent = {}
        for number in range(times):
            for size in SIZES:
                copy = f"{ceph.POOL}/bare-{size}-{number}"
                began = time.perf_counter()
                self.rbd("clone", f"{ceph.POOL}/bare@one", copy, "--rbd-default-clone-format", "2")
                self.rbd("resize", copy, "--size", f"{size}G", "--no-progress")
                spent.setdefault(f"clone {size}", []).append(time.perf_counter() - began)
        return spent


@contextlib.contextmanager
def running(folder: Path, place: Place | None = None) -> Generator[Cluster]:
    """Run a Ceph cluster until the end of the block, in a place of its own by default. Raises BenchError."""
    place = place or Place()
    program = str(Path(ceph.__file__))
    process: subprocess.Popen[str] | None = None
    try:
        place.make()
        command = place.inside(sys.executable, program, str(folder), place.address)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        watch = threading.Timer(START_WITHIN, process.kill)
        watch.start()
        assert process.stdout is not None  # noqa: S101 - asked for above
        line = process.stdout.readline()
        watch.cancel()
        if not line.startswith("Ceph runs"):
            raise BenchError(f"Ceph does not start: {line.strip()} {process.communicate()[0].strip()[-500:]}")
        yield Cluster(folder, place)
    finally:
        if process is not None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=STOP_WITHIN)
            process.kill()
            process.wait()
        place.remove()


def clones(folder: Path, times: int, say: Callable[[str], None]) -> tuple[Spent, Spent]:
    """Return the seconds of clones of each size, with Novella and with ``rbd``. Raises BenchError."""
    say("a Ceph of one node")
    (folder / NAME).mkdir(parents=True)
    with running(folder / NAME) as cluster:
        cloud = Cloud(folder / "cloud", 0, NOVELLA_AGENT_VOLUME_POOL=f"local=nbd: {NAME}={cluster.pool}")
        try:
            say("bin/up with it")
            cloud.up()
            volumes, operator = Volumes(cloud), Operator(cloud)
            operator.until_pool(NAME)
            operator.make_type(NAME, NAME)
            say("clones")
            volumes.clones(times, SIZES, NAME)
            ours = {name: spent for name, spent in volumes.spent.items() if name.startswith("clone")}
            volumes.close()
            operator.close()
            return ours, cluster.clones(times)
        finally:
            cloud.clean()
