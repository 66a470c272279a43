"""A volume of a shared pool that another host has opened since the copy of the records that was put back.

Both hosts report what they know.  Until one of them has no clients, neither is told to open, close or delete anything.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import pytest
from django.utils import timezone

from compute_agent.contract.messages import Command
from compute_agent.contract.volume import ConnectVolumeRequest, KnownVolume, VolumeClient
from provisioning.common.context import RequestContext
from provisioning.common.errors import NovellaError
from provisioning.hosts import audits
from provisioning.hosts.models import Host, Restore
from provisioning.volumes.inbound import kept_open, older_records
from provisioning.volumes.models import Attachment, PoolHost, StoragePool, Volume
from provisioning.volumes.records import holds
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.services import (
    Create,
    CreateSnapshot,
    Delete,
    Extend,
    Migrate,
    SnapshotRequest,
    VolumeDeletion,
)
from provisioning.volumes.services.catalogue.pools import remove_host
from provisioning.volumes.services.connections import attachments
from provisioning.volumes.upkeep.upkeep import forget_copies
from tests.core.doctor.findings import look
from tests.support.landing import diagonal
from tests.support.scripted_agent import ScriptedAgent
from tests.support.scripted_pool import ScriptedPool
from tests.volumes.conftest import Town
from tests.volumes.test_host_pools import keys_in, secret_type
from tests.volumes.test_older_records import Copy, after_restore, back

Restored = Callable[[], None]


@dataclass
class Moved:
    """A volume that kelvin's guest has in the copy, and nadel's guest has now."""

    town: Town
    nadel: ScriptedAgent
    copy: Copy
    volume: Volume
    before: uuid.UUID
    now: uuid.UUID

    def fresh(self) -> Volume:
        return self.town.fresh(self.volume)

    def attachment(self) -> Attachment:
        return Attachment.objects.get(id=self.now)

    def notified(self) -> list[Command]:
        return [*self.town.agent.take(), *self.nadel.take()]

    def opened(self) -> list[Command]:
        """Return the commands that would have a host open the volume, or change its data."""
        bodies = [(command, command.body) for command in self.notified()]
        return [command for command, body in bodies if not isinstance(body, ConnectVolumeRequest) or body.clients]


def second(town: Town, name: str = "nadel") -> ScriptedAgent:
    """Let another host serve the pool."""
    town.pool.shared = True
    town.agent.measured()
    agent = town.cloud.add_host(name)
    agent.serve(ScriptedPool(id=town.pool.id, shared=True, secret=town.pool.secret))
    return agent


def attach_at(town: Town, agent: ScriptedAgent, volume: Volume) -> Attachment:
    made = attachments.reserve(town.alice, volume.id, uuid.uuid4())
    attachments.connect(made, agent.host)
    town.agent.work()
    agent.work()
    return Attachment.objects.get(id=made.id)


def release(town: Town, attachment_id: uuid.UUID, *agents: ScriptedAgent) -> None:
    attachments.release(attachment_id)
    for agent in (town.agent, *agents):
        agent.work()


def move(town: Town, *, attached: bool = True, volume_type: str = "") -> Moved:
    volume = town.make(volume_type=volume_type) if volume_type else town.make()
    nadel = second(town)
    before = town.attach(volume)
    if not attached:
        release(town, before.id)
    copy = Copy()
    if attached:
        release(town, before.id, nadel)
    else:
        release(town, town.attach(town.fresh(volume)).id, nadel)
    now = attach_at(town, nadel, town.fresh(volume))
    assert (now.status, town.fresh(volume).daemon_host_id) == ("attached", nadel.host.id)
    return Moved(town, nadel, copy, volume, before.id, now.id)


@pytest.fixture(params=[pytest.param("forgotten", marks=pytest.mark.deep), "run"])
def notified(request: pytest.FixtureRequest) -> bool:
    """Return whether the operator has run ``manage.py after_restore``."""
    return bool(request.param == "run")


def put_back(moved: Moved, monkeypatch: pytest.MonkeyPatch, *, notified: bool) -> None:
    moved.copy.put_back()
    if notified:
        after_restore(monkeypatch)


def refusals(moved: Moved, operator: RequestContext) -> list[str]:
    """Return what is refused of what would endanger the guest's disk."""
    town, volume, other = moved.town, moved.fresh(), ScriptedPool(name="other")
    town.cloud.add_host("other").serve(other)
    requested: dict[str, Callable[[], object]] = {
        "attach": lambda: attachments.connect(attachments.reserve(town.alice, volume.id, uuid.uuid4()), town.host),
        "delete": lambda: Delete.begin(town.alice, volume.id, VolumeDeletion()),
        "extend": lambda: Extend.begin(town.alice, volume.id, 5),
        "move": lambda: Migrate.begin(operator, volume.id, uuid.UUID(other.id)),
        "snapshot": lambda: CreateSnapshot.begin(town.alice, volume.id, SnapshotRequest(force=True)),
    }
    refused = []
    for name, ask in requested.items():
        try:
            ask()
        except NovellaError:
            refused.append(name)
    return refused


ALL = ["attach", "delete", "extend", "move", "snapshot"]


@pytest.mark.slow
@pytest.mark.both_databases
@diagonal(first=["kelvin", "nadel"], attached=[True, False], notified=[False, True])
def test_a_volume_opened_elsewhere_since_the_copy_is_left_to_its_guest(
    town: Town, operator: RequestContext, monkeypatch: pytest.MonkeyPatch, first: str, *, attached: bool, notified: bool
) -> None:
    moved = move(town, attached=attached)
    put_back(moved, monkeypatch, notified=notified)
    hosts = [town.agent, moved.nadel]
    for agent in hosts if first == "kelvin" else reversed(hosts):
        back(agent)
    kept = moved.attachment()
    assert (kept.host_id, kept.instance_id, moved.fresh().status) == (moved.nadel.host.id, None, "in-use")
    assert any("nadel" in finding.sentence for finding in look("newer_volumes"))
    assert refusals(moved, operator)[:2] == ["attach", "delete"]
    moved.opened()
    assert [each.attachment_id for each in moved.nadel.pools[town.pool.id].clients[str(moved.volume.id)]] == [
        str(moved.now)
    ]
    assert moved.fresh().daemon_host_id == moved.nadel.host.id, "kelvin has said that it has no clients"


@pytest.mark.slow
@pytest.mark.both_databases
def test_nothing_is_sent_while_the_daemons_host_is_silent(
    town: Town, operator: RequestContext, monkeypatch: pytest.MonkeyPatch, *, notified: bool
) -> None:
    """The records say that kelvin has it open."""
    moved = move(town)
    put_back(moved, monkeypatch, notified=notified)
    back(moved.nadel)
    assert refusals(moved, operator) == ALL
    with pytest.raises(NovellaError):
        Delete.begin(operator, moved.volume.id, VolumeDeletion(force=True))
    assert moved.notified() == []
    assert kept_open.held_on(moved.nadel.host.id).keys() == {moved.volume.id}
    for _ in range(2):
        back(moved.nadel)
        moved.nadel.measured(volumes=moved.nadel.memory.listed())
    assert Attachment.objects.count() == 2


@pytest.mark.slow
@pytest.mark.both_databases
def test_nobody_opens_or_deletes_a_volume_before_every_host_of_its_pool_was_heard(
    town: Town, operator: RequestContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = move(town, attached=False)
    put_back(moved, monkeypatch, notified=True)
    back(town.agent)
    assert refusals(moved, operator) == ALL
    assert "nadel" in holds.reason(moved.fresh())
    assert older_records.is_unheard(moved.fresh())
    assert any("nadel" in finding.subject for finding in look("restored_hosts"))
    Host.objects.filter(name="nadel").update(forced_down=True)
    assert holds.reason(moved.fresh()) == ""
    Host.objects.filter(name="nadel").update(forced_down=False)
    remove_host(StoragePool.objects.get(id=town.pool.id), moved.nadel.host)
    assert holds.reason(moved.fresh()) == ""
    assert moved.notified() == []


@pytest.mark.slow
def test_volumes_made_since_a_restore_wait_for_nobody(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    nadel = second(town)
    after_restore(monkeypatch)
    volume = Create.begin(town.alice, VolumeRequest(size_gb=1))
    town.agent.work()
    nadel.work()
    assert attach_at(town, nadel, volume).status == "attached"


@pytest.mark.both_databases("sql")
def test_what_the_copy_says_is_forgotten_when_all_hosts_were_heard(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = move(town)
    put_back(moved, monkeypatch, notified=True)
    Restore.objects.update(at=timezone.now() - timedelta(days=2))
    for agent, copied in ((town.agent, False), (moved.nadel, True)):
        back(agent)
        forget_copies()
        assert (moved.fresh().copied is None) is copied
    assert not PoolHost.objects.filter(heard=False).exists()


@pytest.mark.slow
def test_a_host_whose_admission_was_lost_is_heard_when_it_is_admitted_again(
    town: Town, operator: RequestContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = move(town, attached=False)
    put_back(moved, monkeypatch, notified=True)
    PoolHost.objects.filter(host=moved.nadel.host).delete()
    back(town.agent)
    for _ in range(2):
        moved.nadel.measured(volumes=moved.nadel.memory.listed())
    assert moved.attachment().host_id == moved.nadel.host.id
    assert refusals(moved, operator)[:2] == ["attach", "delete"]


# ----- the end of a hold ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.both_databases
@pytest.mark.parametrize("report", ["nobody", "nothing", "gone"])
def test_the_hold_ends_when_the_host_has_no_clients(
    town: Town, monkeypatch: pytest.MonkeyPatch, report: str, *, notified: bool
) -> None:
    moved = move(town)
    put_back(moved, monkeypatch, notified=notified)
    back(moved.nadel)
    (known,) = moved.nadel.memory.listed()
    closed = KnownVolume(data_id=known.data_id, version=known.version + 1, size_gb=1, clients=[], gone=report == "gone")
    audits.compare_volumes(moved.nadel.host.id, [closed] if report != "nothing" else [])
    assert set(Attachment.objects.values_list("id", flat=True)) == {moved.before}
    assert holds.reason(moved.fresh()) in ("", holds.UNHEARD.format(moved.volume.id, "kelvin"))
    back(town.agent)
    release(town, moved.before, moved.nadel)
    assert (moved.fresh().status, moved.fresh().daemon_host_id) == ("available", None)
    assert town.attach(moved.fresh()).status == "attached"


@pytest.mark.both_databases("sql")
def test_the_volume_is_its_servers_again_and_its_host_has_the_daemon(
    town: Town, monkeypatch: pytest.MonkeyPatch, *, notified: bool
) -> None:
    moved, server = move(town), uuid.uuid4()
    put_back(moved, monkeypatch, notified=notified)
    back(moved.nadel)
    assert kept_open.assign(kept_open.held_on(moved.nadel.host.id)[moved.volume.id], server, "/dev/vdb")
    assert moved.notified() == [], "kelvin may still have it open"
    back(town.agent)
    assert moved.fresh().daemon_host_id == moved.nadel.host.id
    release(town, moved.before, moved.nadel)
    row = moved.attachment()
    assert (row.instance_id, row.status, "held_by" in row.connector) == (server, "attached", False)
    clients = moved.nadel.pools[town.pool.id].clients[str(moved.volume.id)]
    assert [each.attachment_id for each in clients] == [str(moved.now)]
    release(town, moved.now, moved.nadel)
    assert (moved.fresh().status, moved.fresh().daemon_host_id) == ("available", None)


@pytest.mark.slow
@pytest.mark.both_databases
def test_an_operator_who_deletes_the_attachment_has_that_daemon_end_first(
    town: Town, monkeypatch: pytest.MonkeyPatch, *, notified: bool
) -> None:
    moved = move(town, attached=False)
    put_back(moved, monkeypatch, notified=notified)
    back(town.agent)
    back(moved.nadel)
    attachments.release(moved.now)
    other = attachments.reserve(town.alice, moved.volume.id, uuid.uuid4())
    attachments.connect(other, town.host)
    assert [command.subject_id for command in town.agent.take()] == [], "nadel may have it open"
    moved.nadel.work()
    town.agent.work()
    assert Attachment.objects.get(id=other.id).status == "attached"


@pytest.mark.slow
def test_a_server_that_moved_with_its_attachment_is_kept_where_it_is(
    town: Town, operator: RequestContext, monkeypatch: pytest.MonkeyPatch, *, notified: bool
) -> None:
    """Off its host and onto another one by its shelf: the attachment is the same."""
    volume, nadel, server = town.make(), second(town), uuid.uuid4()
    row = town.attach(volume, server)
    copy = Copy()
    attachments.disconnect(row.id)
    town.agent.work()
    attachments.connect(Attachment.objects.get(id=row.id), nadel.host)
    nadel.work()
    moved = Moved(town, nadel, copy, volume, row.id, row.id)
    put_back(moved, monkeypatch, notified=notified)
    back(nadel)
    assert moved.attachment().host_id == town.host.id
    assert refusals(moved, operator) == ALL
    with pytest.raises(NovellaError):
        attachments.begin_detaching(row.id)
    assert moved.notified() == []
    held = kept_open.held_on(nadel.host.id)[volume.id]
    assert not kept_open.assign(held, uuid.uuid4(), "/dev/vdb"), "it is another server's"
    back(town.agent)
    assert kept_open.assign(held, server, "/dev/vdb")
    nadel.work()
    result = moved.attachment()
    assert (result.host_id, result.status, result.connector) == (nadel.host.id, "attached", {})
    assert result.connection.get("socket")
    assert moved.fresh().daemon_host_id == nadel.host.id


# ----- whose word counts ----------------------------------------------------------------------------------------------


def claim(moved: Moved, host: Host, version: int) -> None:
    client = VolumeClient(attachment_id=str(uuid.uuid4()), host_id=str(host.id), local=True)
    data = str(moved.volume.id)
    audits.compare_volumes(host.id, [KnownVolume(data_id=data, version=version, size_gb=1, clients=[client])])


@pytest.mark.slow
def test_a_host_that_is_not_admitted_has_no_say(town: Town, monkeypatch: pytest.MonkeyPatch, *, notified: bool) -> None:
    moved = move(town)
    evil = town.cloud.add_host("evil")
    put_back(moved, monkeypatch, notified=notified)
    claim(moved, evil.host, moved.fresh().version + 1)
    assert set(Attachment.objects.values_list("id", flat=True)) == {moved.before}
    assert holds.elsewhere(moved.fresh()) == []


@pytest.mark.slow
def test_an_admitted_host_that_lies_is_named_and_removed(town: Town, operator: RequestContext) -> None:
    volume, evil = town.make(), second(town, "evil")
    moved = Moved(town, evil, Copy(), volume, uuid.uuid4(), uuid.uuid4())
    row = town.attach(volume)
    claim(moved, evil.host, 900)
    assert any("evil" in finding.sentence for finding in look("newer_volumes"))
    assert moved.fresh().daemon_host_id == town.host.id
    assert moved.notified() == [], "the guest keeps its disk"
    remove_host(StoragePool.objects.get(id=town.pool.id), evil.host)
    assert set(Attachment.objects.values_list("id", flat=True)) == {row.id}
    back(town.agent)
    release(town, row.id)
    assert town.attach(moved.fresh()).status == "attached"


@pytest.mark.slow
def test_a_host_that_was_shut_out_since_keeps_nobody_out(
    town: Town, monkeypatch: pytest.MonkeyPatch, *, notified: bool
) -> None:
    """It was forced down while it had the volume open, and its agent does not know so yet."""
    moved = move(town)
    put_back(moved, monkeypatch, notified=notified)
    stale = moved.nadel.memory.listed()
    (known,) = town.agent.memory.listed()
    client = VolumeClient(attachment_id=str(uuid.uuid4()), host_id=str(town.host.id), local=True)
    newest = KnownVolume(data_id=known.data_id, version=stale[0].version + 2, size_gb=1, clients=[client])
    audits.compare_volumes(moved.nadel.host.id, stale)
    assert holds.elsewhere(moved.fresh())
    audits.compare_volumes(town.host.id, [newest])
    assert holds.elsewhere(moved.fresh()) == []
    audits.compare_volumes(moved.nadel.host.id, stale)
    assert holds.elsewhere(moved.fresh()) == []
    assert Attachment.objects.filter(id=client.attachment_id).exists()


@pytest.mark.slow
@pytest.mark.parametrize("multiattach", [False, True])
def test_no_host_gets_the_key_of_an_encrypted_volume_by_its_word(
    town: Town, monkeypatch: pytest.MonkeyPatch, *, multiattach: bool, notified: bool
) -> None:
    secret_type()
    moved = move(town, volume_type="secret")
    put_back(moved, monkeypatch, notified=notified)
    Volume.objects.update(multiattach=multiattach)
    back(moved.nadel)
    back(town.agent)
    moved.nadel.pools[town.pool.id].unserved = [str(moved.volume.id)]
    moved.nadel.measured()
    assert kept_open.held_on(moved.nadel.host.id) == {}
    with pytest.raises(NovellaError):
        attachments.reserve(town.alice, moved.volume.id, uuid.uuid4())
    assert moved.fresh().daemon_host_id != moved.nadel.host.id
    assert keys_in(moved.notified()) == []
