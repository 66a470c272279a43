"""Two hosts that want one image of Ceph at the same time, with a simulated cluster."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from compute_agent.contract.volume import ROOT
from compute_agent.volumes.driver import PoolSettings
from compute_agent.volumes.drivers import rbd
from compute_agent.volumes.drivers.rbd import JOINED, OWNER, VOLUME, RbdDriver
from compute_agent.volumes.errors import VolumeInUseError, VolumeNotFoundError
from compute_agent.volumes.rbd.images import CephError

OLD, NEW = f"{ROOT}guest-1", f"{ROOT}guest-2"
SOURCE, TARGET = "192.0.2.1:0/1", "192.0.2.2:0/2"


class Cluster:
    """One image, its metadata, and the clients that have it open."""

    def __init__(self) -> None:
        self.name = VOLUME + OLD
        self.data = {OWNER: "host-1", JOINED: f"host-2 {TARGET}"}
        self.clients = [SOURCE, TARGET]
        self.location = None
        self.fencing: Callable[[], None] = lambda: None

    def _open(self, image: str) -> None:
        if image != self.name:
            raise CephError("no such image", errno.ENOENT)

    def meta(self, image: str, key: str) -> str:
        self._open(image)
        return self.data.get(key, "")

    def set_meta(self, image: str, key: str, value: str) -> None:
        self._open(image)
        self.data[key] = value

    def forget_meta(self, image: str, key: str) -> None:
        if image == self.name:
            self.data.pop(key, None)

    def rename(self, image: str, name: str) -> None:
        self._open(image)
        self.name = name

    def fence(self, image: str, spared: str = "") -> list[str]:
        self._open(image)
        self.fencing()
        fenced = [client for client in self.clients if client != spared]
        self.clients = [client for client in self.clients if client == spared]
        return fenced


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def drivers(cluster: Cluster) -> tuple[RbdDriver, RbdDriver]:
    made = []
    for number in (1, 2):
        made.append(RbdDriver(PoolSettings("ceph", "rbd", "pool?conf=/none&id=novella", f"host-{number}")))
        made[-1].images = cluster  # type: ignore[assignment]
    return made[0], made[1]


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when a second host waits for the cluster's lock."""
    lock, result = threading.Lock(), threading.Event()

    @contextmanager
    def locked(*_: object) -> Iterator[None]:
        if not lock.acquire(blocking=False):
            result.set()
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    monkeypatch.setattr(rbd, "pool_lock", locked, raising=False)
    return result


def meanwhile(cluster: Cluster, waiting: threading.Event, work: Callable[[], object]) -> threading.Thread:
    """Let another host work when the first one fences, until it has ended or waits."""

    def run() -> None:
        with suppress(VolumeNotFoundError, VolumeInUseError):
            work()
        waiting.set()

    thread = threading.Thread(target=run)

    def fencing() -> None:
        cluster.fencing = lambda: None
        thread.start()
        waiting.wait()

    cluster.fencing = fencing
    return thread


def test_a_disk_with_the_targets_name_is_open_there(
    cluster: Cluster, drivers: tuple[RbdDriver, RbdDriver], waiting: threading.Event
) -> None:
    source, target = drivers
    thread = meanwhile(cluster, waiting, lambda: source.expel(OLD))
    target.acquire(OLD, NEW)
    thread.join()
    assert (cluster.name, cluster.data[OWNER], cluster.clients) == (VOLUME + NEW, "host-2", [TARGET])


@pytest.mark.parametrize("command", [RbdDriver.expel, RbdDriver.hold])
def test_a_disk_that_stays_has_its_name(
    cluster: Cluster,
    drivers: tuple[RbdDriver, RbdDriver],
    waiting: threading.Event,
    command: Callable[[RbdDriver, str], list[int] | None],
) -> None:
    source, target = drivers
    thread = meanwhile(cluster, waiting, lambda: target.acquire(OLD, NEW))
    for descriptor in command(source, OLD) or ():
        os.close(descriptor)
    thread.join()
    assert (cluster.name, cluster.data, cluster.clients) == (VOLUME + OLD, {OWNER: "host-1"}, [])
