"""Unmanaged disks and snapshots of a pool: their page, the forms that manage them, and the reverse."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from compute_agent.contract.volume import PoolContentsCall, UnmanagedDisk, UnmanagedDisks
from provisioning.hosts import calls
from provisioning.volumes.models import Snapshot, StoragePool, Volume
from provisioning.volumes.services import Create, CreateSnapshot, SnapshotRequest, VolumeRequest
from tests.dashboard.conftest import SignedIn
from tests.dashboard.test_copy_as import calls_of, send
from tests.support.cast import People
from tests.support.clouds import GIB, Cloud
from tests.support.scripted_agent import ScriptedAgent
from tests.support.scripted_pool import ScriptedPool
from tests.support.standing import standing

DISKS = [
    UnmanagedDisk(name="<i>old/1.raw", size=GIB + 1),
    UnmanagedDisk(name="layer", size=GIB, reason="It has a <b>backing file."),
]


@pytest.fixture
@standing
def agent(cloud: Cloud) -> ScriptedAgent:
    """The host with a pool whose volumes can be unmanaged."""
    agent = cloud.agents["host-1"]
    agent.serve(ScriptedPool(name="files", capabilities={"manage": "true"}))
    return agent


@pytest.fixture
def pool(agent: ScriptedAgent, monkeypatch: pytest.MonkeyPatch) -> ScriptedPool:
    """The pool, whose host lists its contents."""
    [pool] = agent.pools.values()

    def answer(_: object, body: object, *__: object) -> Any:
        return pool.contents() if isinstance(body, PoolContentsCall) else UnmanagedDisks(disks=list(DISKS))

    monkeypatch.setattr(calls, "call", answer)
    return pool


@pytest.fixture
def at(signed_in: SignedIn, people: People) -> Client:
    return signed_in(people.operator)


def page_of(client: Client, follow: str = "") -> str:
    return client.get(f"/pools/{StoragePool.objects.get().id}/unmanaged/{follow}").content.decode()


def addresses(page: str) -> list[str]:
    """Return the addresses of the forms to manage something."""
    return [html.unescape(each) for each in re.findall(r'hx-get="([^"]+)"', page)]


def created(agent: ScriptedAgent, people: People) -> Volume:
    volume = Create.begin(people.operator.context, VolumeRequest(size_gb=2, name="<u>data"))
    agent.work()
    return Volume.objects.get(id=volume.id)


def test_a_disk_becomes_a_volume(at: Client, people: People, agent: ScriptedAgent, pool: ScriptedPool) -> None:
    assert "/unmanaged/" in at.get(f"/pools/{pool.id}/").content.decode()
    page = page_of(at)
    assert "<bdi>&lt;i&gt;old/1.raw</bdi>" in page
    assert "2&nbsp;GiB" in page
    assert "It has a &lt;b&gt;backing file." in page
    [address] = addresses(page)
    assert "Manage &lt;i&gt;old/1.raw" in at.get(address).content.decode()
    answer = at.post(address, {"name": "restored", "volume_type": "", "bootable": "on"})
    agent.work()
    volume = Volume.objects.get()
    assert answer.headers["Location"] == reverse("dashboard:volume", args=[volume.id])
    assert (volume.name, volume.size_gb, volume.bootable, volume.status) == ("restored", 2, True, "available")
    assert volume.project_id == people.operator.project_id
    for call in calls_of(at, address, {"name": "copied"}):
        send(call, Client(), people.operator, {})
    assert set(Volume.objects.values_list("name", flat=True)) == {"restored", "copied"}
    refused = at.post(address.replace("1.raw", "gone"), {"name": "x"})
    assert refused.status_code == 422
    assert "no unmanaged disk" in refused.content.decode()


def test_a_volume_is_unmanaged(
    at: Client, at_alice: Client, people: People, agent: ScriptedAgent, pool: ScriptedPool
) -> None:
    volume = created(agent, people)
    address = f"/volumes/{volume.id}/unmanage/"
    assert address in at.get(f"/volumes/{volume.id}/").content.decode()
    assert f"volume-{volume.id}" in at.get(address).content.decode()
    assert at_alice.post(address).status_code == 404
    at.post(address)
    agent.work()
    assert not Volume.objects.exists()
    assert pool.volumes == {}


def test_a_volume_that_cannot_be_unmanaged_has_no_button(at: Client, people: People, agent: ScriptedAgent) -> None:
    volume = created(agent, people)
    StoragePool.objects.update(capabilities={})
    assert "/unmanage/" not in at.get(f"/volumes/{volume.id}/").content.decode()


def test_a_snapshot_is_unmanaged_and_managed_again(
    at: Client, people: People, agent: ScriptedAgent, pool: ScriptedPool
) -> None:
    volume = created(agent, people)
    snapshot = CreateSnapshot.begin(people.operator.context, volume.id, SnapshotRequest(name="first"))
    agent.work()
    address = f"/volume-snapshots/{snapshot.id}/unmanage/"
    assert address in at.get("/volume-snapshots/").content.decode()
    at.post(address)
    agent.work()
    assert not Snapshot.objects.exists()
    page = page_of(at)
    assert f"<bdi>snapshot-{snapshot.id}</bdi>" in page
    assert "<bdi>&lt;u&gt;data</bdi>" in page
    [_, manage] = addresses(page)
    at.post(manage, {"name": "second", "description": ""})
    agent.work()
    back = Snapshot.objects.get()
    assert (back.name, back.volume_id, back.status) == ("second", volume.id, "available")
    pool.snapshots["taken outside"] = str(volume.id)
    [_, manage] = addresses(page_of(at))
    for call in calls_of(at, manage, {"name": "third"}):
        send(call, Client(), people.operator, {})
    agent.work()
    assert set(Snapshot.objects.values_list("name", flat=True)) == {"second", "third"}


def test_a_silent_host_is_named_on_the_page_of_the_pool(at: Client, agent: ScriptedAgent) -> None:
    answer = at.get(f"/pools/{StoragePool.objects.get().id}/unmanaged/", follow=True)
    assert answer.redirect_chain == [(f"/pools/{StoragePool.objects.get().id}/", 303)]
    assert "host" in " ".join(map(str, answer.context["messages"]))


def test_only_operators_see_it(at_alice: Client, agent: ScriptedAgent) -> None:
    pool = StoragePool.objects.get().id
    paths = (f"/pools/{pool}/unmanaged/", f"/pools/{pool}/unmanaged/x/")
    assert [at_alice.get(path).status_code for path in paths] == [403, 403]


def test_a_pool_without_unmanaged_data_says_what_is_listed(
    at: Client, pool: ScriptedPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        calls,
        "call",
        lambda _, body, *__: UnmanagedDisks(disks=[]) if not isinstance(body, PoolContentsCall) else pool.contents(),
    )
    page = page_of(at)
    assert "A disk file in the folder <code>unmanaged</code>" in page
    assert "A snapshot that was unmanaged" in page
