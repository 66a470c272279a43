"""A Ceph of one node that the whole run of the tests shares; ``tests/conftest.py`` loads this module as a plugin.

The worker that needs it first starts it; it ends with the run.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.ceph_server import FAILED, READY
from tools.ceph import CLIENT, POOL, Cluster

CHECKOUT = Path(__file__).resolve().parents[2]
START_WITHIN = 400.0


@dataclass(frozen=True)
class CephForTests:
    """Where the cluster is, and how its client signs in."""

    folder: Path
    pool: str = POOL
    client: str = CLIENT

    @property
    def conf(self) -> Path:
        return self.folder / "ceph.conf"

    def pid(self, daemon: str) -> int:
        """The process of ``mon.a``, ``mgr.x`` or ``osd.0``; one that is killed is started again after a second."""
        return int((self.folder / f"{daemon}.pid").read_text())


@pytest.fixture(scope="session")
def ceph() -> CephForTests:
    """The run's Ceph, and a pool in it for the tests of this worker: they empty it after themselves."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    session = os.getppid() if worker else os.getpid()
    folder = Path(tempfile.gettempdir()) / f"nv-ceph-{session}"
    with Path(f"{folder}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / READY).exists():
            _start(folder, session)
        cluster = CephForTests(folder, f"{POOL}-{worker}" if worker else POOL)
        _create_pool(cluster)
    return cluster


def _create_pool(cluster: CephForTests) -> None:
    """Create the worker's pool unless it is there; the client may use all pools of the run."""
    administrator = Cluster(cluster.folder)
    pools = administrator.run("ceph", "osd", "pool", "ls").split()
    if cluster.pool in pools:
        return
    administrator.run("ceph", "osd", "pool", "create", cluster.pool, "8")
    administrator.run("rbd", "pool", "init", cluster.pool)
    allowed = ", ".join(f"profile rbd pool={pool}" for pool in [*pools, cluster.pool] if not pool.startswith("."))
    caps = ("mon", "profile rbd", "osd", allowed, "mgr", allowed)
    administrator.run("ceph", "auth", "caps", f"client.{cluster.client}", *caps)
    administrator.wait_until_measured(cluster.pool)


@contextmanager
def ceph_of_its_own(inside: Sequence[str] = (), address: Sequence[str] = ()) -> Iterator[CephForTests]:
    """A Ceph of the test's own, which may do with it what it wants; it ends with the block."""
    folder = Path(tempfile.mkdtemp(prefix="nv-ceph-")) / "ceph"
    with subprocess.Popen(["sleep", "infinity"]) as life:
        try:
            _start(folder, life.pid, inside, address)
            yield CephForTests(folder)
        finally:
            life.kill()
    deadline = time.monotonic() + START_WITHIN
    while folder.exists():
        assert time.monotonic() < deadline, "Ceph did not end"
        time.sleep(0.05)
    folder.parent.rmdir()


def ceph_in(space: Path, address: str) -> AbstractContextManager[CephForTests]:
    """A Ceph of the test's own in a network namespace, at an address that is there."""
    return ceph_of_its_own(["nsenter", f"--net={space}"], [address])


def _start(folder: Path, session: int, inside: Sequence[str] = (), address: Sequence[str] = ()) -> None:
    server = [sys.executable, "-m", "tests.support.ceph_server", str(folder), str(session), *address]
    start = ["setsid", "--fork", *inside, *server]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT / "bin" / "libexec")}
    subprocess.run(start, cwd=CHECKOUT, env=environment, stdin=subprocess.DEVNULL, check=True)
    deadline = time.monotonic() + START_WITHIN
    while not (folder / READY).exists():
        failed = folder / FAILED
        assert not failed.exists(), failed.read_text()
        assert time.monotonic() < deadline, "Ceph did not start"
        time.sleep(0.05)
