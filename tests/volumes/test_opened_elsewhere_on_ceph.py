"""A guest keeps its disk in Ceph when a copy of the records says that another host has the volume open.

Slow: a Ceph of one node, and storage daemons of two hosts.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from compute_agent.contract.volume import ConnectVolumeRequest, CreateVolumeRequest, DeleteVolumeRequest, VolumeSource
from compute_agent.virt.driver import never
from compute_agent.volumes.daemons.daemon import Daemons
from compute_agent.volumes.daemons.export_address import Address
from compute_agent.volumes.driver import PoolSettings
from compute_agent.volumes.drivers.rbd import VOLUME, RbdDriver
from compute_agent.volumes.services import Outside, Volumes
from provisioning.common.errors import NovellaError
from provisioning.volumes.models import Attachment, StoragePool, Volume
from provisioning.volumes.services import Delete, VolumeDeletion
from provisioning.volumes.services.connections import attachments
from tests.agent.volumes.conftest import MIB, qemu_io
from tests.support.ceph import CephForTests
from tests.support.one_machine import wait_for
from tests.support.scripted_agent import ScriptedAgent
from tests.support.scripted_pool import ScriptedPool, plain
from tests.volumes.conftest import Town
from tests.volumes.test_older_records import Copy, after_restore, back

pytestmark = pytest.mark.ceph


class NoImages:
    """An image cache that nobody asks."""

    def get(self, *_: Any) -> Any:
        raise AssertionError


@dataclass
class CephPool(ScriptedPool):
    """A pool in Ceph as one host serves it, with the agent's own driver and daemons."""

    real: Volumes | None = None

    def carry_out(self, body: Any) -> dict[str, str]:
        assert self.real is not None
        match body:
            case CreateVolumeRequest():
                self.real.create(body.volume, VolumeSource(), never)
            case DeleteVolumeRequest():
                self.real.delete(body.volume)
            case ConnectVolumeRequest():
                made = self.real.connect(body.volume, body.clients)
                return {"connection": plain(made)} if made is not None else {}
        return {}


@dataclass
class Ceph:
    """Hosts that serve one pool."""

    location: str
    folder: Path
    drivers: list[RbdDriver]
    daemons: list[Daemons]

    def serve(self, agent: ScriptedAgent) -> CephPool:
        number = len(self.drivers)
        driver = RbdDriver(PoolSettings("ceph", "rbd", self.location, f"host-{number}"))
        here = [self.folder / f"{name}{number}" for name in ("run", "sockets", "kept")]
        daemons = Daemons(here[0], here[1], Address(lambda: "127.0.0.1"), here[2])
        self.drivers.append(driver)
        self.daemons.append(daemons)
        volumes = Volumes([driver], daemons, Outside(NoImages()))
        (state,) = wait_for("the pool answers", volumes.states)
        pool = CephPool(id=state.id, driver="rbd", shared=True, secret=state.secret, real=volumes)
        agent.pools = {pool.id: pool}
        agent.serve(pool)
        return pool


@pytest.fixture
def hosts(ceph: CephForTests) -> Iterator[Ceph]:
    folder = Path(tempfile.mkdtemp(prefix="nv-", dir="/tmp"))
    made = Ceph(f"{ceph.pool}?conf={ceph.conf}&id={ceph.client}", folder, [], [])
    yield made
    for daemons in made.daemons:
        daemons.end_all()
    for image in made.drivers[0].images.names():
        if image.startswith(VOLUME):
            made.drivers[0].images.remove(image)
    shutil.rmtree(folder)


def uri(attachment: Attachment) -> str:
    place = attachment.connection
    return f"nbd+unix:///{place['export']}?socket={place['socket']}"


def attach(town: Town, agent: ScriptedAgent, volume: Volume) -> Attachment:
    made = attachments.reserve(town.alice, volume.id, uuid.uuid4())
    attachments.connect(made, agent.host)
    town.agent.work()
    agent.work()
    return Attachment.objects.get(id=made.id)


@pytest.mark.deep
@pytest.mark.parametrize(
    "notified", [True, pytest.param(False, marks=pytest.mark.deep)], ids=["after_restore", "without the command"]
)
def test_a_guest_writes_on_while_the_copy_says_that_another_host_has_its_disk(
    town: Town, hosts: Ceph, monkeypatch: pytest.MonkeyPatch, *, notified: bool
) -> None:
    StoragePool.objects.all().delete()
    hosts.serve(town.agent)
    volume = town.make()
    nadel = town.cloud.add_host("nadel")
    hosts.serve(nadel)
    before = attach(town, town.agent, volume)
    copy = Copy()
    attachments.release(before.id)
    town.agent.work()
    now = attach(town, nadel, town.fresh(volume))
    assert "wrote" in qemu_io(uri(now), f"write -P 7 0 {MIB}")
    copy.put_back()
    if notified:
        after_restore(monkeypatch)
        back(town.agent)
    else:
        back(nadel)
    with contextlib.suppress(NovellaError):
        attachments.release(before.id)
        town.agent.work()
        other = attach(town, town.agent, town.fresh(volume))
        assert other.status != "attached"
    with contextlib.suppress(NovellaError):
        Delete.begin(town.alice, volume.id, VolumeDeletion(force=True))
    for agent in (town.agent, nadel):
        back(agent)
        agent.work()
    output = qemu_io(uri(now), f"read -P 7 0 {MIB}", f"write -P 8 0 {MIB}", "flush", f"read -P 8 0 {MIB}")
    assert "failed" not in output.lower(), output
    assert "wrote" in output
    assert Attachment.objects.get(id=now.id).host_id == nadel.host.id
