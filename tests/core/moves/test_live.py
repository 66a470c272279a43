"""Live migrations: volumes and ports are on both hosts until the guest runs on one of them, then only on that one."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from compute_agent.contract.commands import DetachInterfaceRequest
from compute_agent.contract.hardware_properties import TPM_MODEL, TPM_VERSION
from compute_agent.contract.messages import Command
from compute_agent.contract.migration import (
    RECEIVER_TRAIT,
    UNDECIDED,
    KeepLiveRequest,
    ReceiveLiveRequest,
    SendLiveRequest,
)
from compute_agent.contract.moves import LIVE_POOL_TRAIT, ROOT_POOL_TRAIT, root_pool_trait
from compute_agent.contract.network import ApplyNetworkRequest, ApplySecurityGroupRequest
from compute_agent.contract.power import PowerState
from compute_agent.contract.volume import ConnectVolumeRequest
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError
from provisioning.compute.actions.attach_volume import VolumeToAttach, attach_volume
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.interfaces import detach_interface
from provisioning.compute.actions.live_migrate import LiveMigrate, LiveMigration, abort_live_migration
from provisioning.compute.models import BlockDevice, Instance, InstanceAction, InstanceFault, Migration, MoveAllocation
from provisioning.compute.moves.fitness import NOT_LIVE_IN_POOL
from provisioning.compute.moves.obstacles import live_obstacles
from provisioning.compute.plans.moves import plan_servers
from provisioning.compute.upkeep.reaper import reap
from provisioning.hosts.models import Host
from provisioning.images.models import Image
from provisioning.network.delivery.needs import Needs
from provisioning.network.models import FloatingIP, Port
from provisioning.volumes.models import Attachment, Volume
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.services import Create, Extend
from provisioning.volumes.services.checks import MIGRATING
from tests.core.test_live_migrate import AT_REST, Two, migrate, operator, server, two
from tests.core.test_live_migrate import MIGRATING as ON_ITS_WAY
from tests.support import invariants
from tests.support.clouds import Cloud, context, state_of
from tests.support.jobs import drain
from tests.support.scripted_agent import ScriptedAgent

__all__ = ["server", "two"]
pytestmark = pytest.mark.django_db


@pytest.fixture
def hosts(cloud: Cloud) -> dict[str, ScriptedAgent]:
    """Two hosts that can receive guests, and whose agents support all of it."""
    result = {name: cloud.add_host(name, documents=True) for name in ("one", "two")}
    for number, agent in enumerate(result.values(), 1):
        agent.host.host_ip = f"192.0.2.{number}"
        Host.objects.filter(id=agent.host.id).update(host_ip=agent.host.host_ip, traits=[RECEIVER_TRAIT])
    return result


@pytest.fixture
def storage(request: pytest.FixtureRequest, two: Two) -> ScriptedAgent:
    """The host with the pool: the guest's own, unless a test says otherwise."""
    scripted_agent: ScriptedAgent = getattr(two, getattr(request, "param", "source"))
    scripted_agent.serve()
    return scripted_agent


BROKEN = pytest.mark.doctor_finds("volumes")
each_place = pytest.mark.parametrize("storage", ["source", "target"], indirect=True)


@pytest.fixture
def volumes(cloud: Cloud, alice: RequestContext, two: Two, storage: ScriptedAgent) -> list[Volume]:
    """Two volumes of the server."""
    made = [Create.begin(alice, VolumeRequest(size_gb=1)) for _ in range(2)]
    cloud.run()
    for each in made:
        attach_volume(alice, two.server.id, VolumeToAttach(str(each.id)))
        cloud.run()
    return [Volume.objects.get(id=each.id) for each in made]


class Opened:
    """The hosts that may open the volumes, in the daemons' lists of clients."""

    def __init__(self, storage: ScriptedAgent, volumes: list[Volume]) -> None:
        self.storage, self.volumes = storage, volumes

    def hosts(self) -> list[set[str]]:
        [pool] = self.storage.pools.values()
        return [{client.host_id for client in pool.clients[str(volume.id)]} for volume in self.volumes]

    def moves(self) -> list[set[int]]:
        [pool] = self.storage.pools.values()
        return [{client.move for client in pool.clients[str(volume.id)]} for volume in self.volumes]


@pytest.fixture
def opened(storage: ScriptedAgent, volumes: list[Volume]) -> Opened:
    return Opened(storage, volumes)


def only(two: Two, agent: ScriptedAgent) -> list[set[str]]:
    return [{str(agent.host.id)}] * 2


def both(two: Two) -> list[set[str]]:
    return [{str(two.source.host.id), str(two.target.host.id)}] * 2


def taken(agent: ScriptedAgent, *kinds: type) -> list[Command]:
    """The commands of these kinds that the host gets; it carries out those of networks."""
    drain()
    result = agent.take()
    for each in result:
        if isinstance(each.body, ApplyNetworkRequest | ApplySecurityGroupRequest):
            agent.carry_out(each)
    return [each for each in result if isinstance(each.body, kinds)]


def connect(storage: ScriptedAgent) -> None:
    """Let the storage host carry out its commands about volumes."""
    for command in taken(storage, ConnectVolumeRequest):
        storage.carry_out(command)
    drain()


def receiving(two: Two, storage: ScriptedAgent) -> Command:
    """Begin, and let the storage host connect the volumes; return the target's command."""
    migrate(two.server)
    connect(storage)
    [receive] = taken(two.target, ReceiveLiveRequest)
    return receive


def sending(two: Two, storage: ScriptedAgent) -> tuple[Command, Command]:
    receive = receiving(two, storage)
    two.target.listens(receive)
    [send] = taken(two.source, SendLiveRequest)
    return receive, send


def stays(cloud: Cloud, two: Two, opened: Opened, status: str) -> None:
    """Assert that the server and its volumes are where they were, and that the target has nothing."""
    two.goes_on_at_source(status)
    assert opened.hosts() == only(two, two.source)
    rows = Attachment.objects.all()
    assert {(row.host_id, row.second_host_id, row.status) for row in rows} == {(two.source.host.id, None, "attached")}
    assert all(row.connection and not row.second_connection for row in rows)


# ----- well -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@each_place
def test_volumes_are_open_on_both_hosts_and_then_only_on_the_new_one(
    cloud: Cloud, two: Two, storage: ScriptedAgent, opened: Opened
) -> None:
    receive, _ = sending(two, storage)
    assert opened.hosts() == both(two)
    assert opened.moves() == [{0, 1}, {0, 1}]
    assert isinstance(receive.body, ReceiveLiveRequest)
    names = [disk.connection.export for disk in receive.body.instance.volumes]
    assert sorted(name.rpartition(".")[2] for name in names) == ["1", "1"]
    assert {row.connection["export"] for row in Attachment.objects.all()}.isdisjoint(names)
    local = two.target is storage
    assert all(bool(disk.connection.socket) == local for disk in receive.body.instance.volumes)
    assert all(bool(disk.connection.port) != local for disk in receive.body.instance.volumes)
    two.arrives(receive)
    cloud.run()
    assert (state_of(two.server), cloud.fresh(two.server).host_name) == (AT_REST, two.target.host.name)
    assert opened.hosts() == only(two, two.target)
    rows = Attachment.objects.all()
    assert {(row.host_id, row.second_host_id, row.move) for row in rows} == {(two.target.host.id, None, 1)}
    assert {row.connection["export"] for row in rows} == set(names)
    assert set(Volume.objects.values_list("status", flat=True)) == {"in-use"}
    invariants.check()


@pytest.mark.slow
@each_place
def test_each_migration_has_exports_of_its_own(cloud: Cloud, two: Two, storage: ScriptedAgent, opened: Opened) -> None:
    migrate(two.server)
    cloud.run()
    migrate(two.server)
    cloud.run()
    assert cloud.fresh(two.server).host_name == two.source.host.name
    assert opened.hosts() == only(two, two.source)
    assert opened.moves() == [{2}, {2}]
    invariants.check()


def test_the_target_prepares_nothing_before_all_volumes_are_connected(
    two: Two, storage: ScriptedAgent, volumes: list[Volume]
) -> None:
    migrate(two.server)
    first, second = taken(storage, ConnectVolumeRequest)
    storage.carry_out(first)
    assert not taken(two.target, ReceiveLiveRequest)
    storage.carry_out(second)
    assert len(taken(two.target, ReceiveLiveRequest)) == 1


def test_a_server_without_a_local_disk_copies_none(cloud: Cloud, two: Two, volumes: list[Volume]) -> None:
    with pytest.raises(InvalidInputError, match="shared storage"):
        migrate(two.server, block_migration=False)
    Instance.objects.filter(id=two.server.id).update(image_id=None)
    with pytest.raises(InvalidInputError, match="shared storage"):
        migrate(two.server, block_migration=True)
    LiveMigrate.begin(operator(), two.server.id, LiveMigration("", block_migration=False))
    assert state_of(two.server) == ON_ITS_WAY


# ----- ports ----------------------------------------------------------------------------------------------------------


def test_the_target_has_networks_and_groups_before_the_guest_comes(cloud: Cloud, two: Two) -> None:
    cloud.run()
    [port] = Port.objects.filter(device_id=two.server.id)
    group = port.security_groups.get()
    needs = {("network", port.network_id), ("security_group", group.id)}
    assert not needs & Needs().of_host(two.target.host)
    migrate(two.server)
    port.refresh_from_db()
    assert (port.host, port.second_host) == (two.source.host.name, two.target.host.name)
    assert needs <= Needs().of_host(two.target.host)
    assert two.target.host in Needs().of_group(group.id)
    drain()
    result = two.target.take()
    assert {type(each.body) for each in result} >= {ApplyNetworkRequest, ApplySecurityGroupRequest}
    for each in result:
        two.target.carry_out(each)
    cloud.run()
    port.refresh_from_db()
    assert (port.host, port.second_host) == (two.target.host.name, "")
    assert not needs & Needs().of_host(two.source.host)


def test_an_abort_unbinds_the_ports_from_the_target(cloud: Cloud, two: Two) -> None:
    migrate(two.server)
    abort_live_migration(operator(), two.server.id, str(Migration.objects.get().id))
    two.goes_on_at_source("cancelled")
    [port] = Port.objects.filter(device_id=two.server.id)
    assert (port.host, port.second_host) == (two.source.host.name, "")
    assert not {key for kind, key in Needs().of_host(two.target.host) if kind == "network"}


def test_both_hosts_have_the_floating_ip_during_the_migration(cloud: Cloud, two: Two) -> None:
    """The hosts themselves decide which one answers for it, by where the guest runs."""
    [port] = Port.objects.filter(device_id=two.server.id)
    floating = FloatingIP(fixed_port=port)
    migrate(two.server)
    assert {*Needs().of_floating_ip(floating)} == {two.source.host, two.target.host}
    assert Needs().is_moving(floating)
    cloud.run()
    assert Needs().of_floating_ip(floating) == [two.target.host]
    assert not Needs().is_moving(floating)


# ----- refused before anything starts ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "values", "words"),
    [
        pytest.param(Attachment, {"status": "detaching"}, "is detaching", marks=BROKEN),
        (Attachment, {"refreshing": True}, "has not applied a change"),
        pytest.param(Volume, {"status": "extending"}, "is extending", marks=BROKEN),
        (Volume, {"migration_status": MIGRATING}, "is being moved"),
        (BlockDevice, {"leaving": True}, "attached, detached or replaced"),
        (Host, {"contract_version": 4}, "too old"),
    ],
)
def test_volumes_that_change_keep_the_server(
    two: Two, volumes: list[Volume], model: type, values: dict[str, object], words: str
) -> None:
    model.objects.update(**values)  # type: ignore[attr-defined]
    [obstacle] = live_obstacles([two.server]).values()
    assert words in obstacle
    with pytest.raises(ConflictError) as error:
        migrate(two.server)
    assert error.value.message == obstacle
    assert state_of(two.server) == AT_REST
    assert not Attachment.objects.exclude(second_host=None).exists()


@pytest.mark.slow
def test_volumes_are_not_changed_while_their_server_moves(
    alice: RequestContext, two: Two, storage: ScriptedAgent, volumes: list[Volume]
) -> None:
    receiving(two, storage)
    with pytest.raises(InvalidInputError, match="being migrated"):
        Extend.begin(alice, volumes[0].id, 2)


# ----- failures at each step ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_volume_that_cannot_be_connected_ends_the_migration(
    cloud: Cloud, two: Two, storage: ScriptedAgent, opened: Opened
) -> None:
    migrate(two.server)
    storage.failing["connect_volume_request"] = "All ports are in use."
    connect(storage)
    stays(cloud, two, opened, "error")
    assert "All ports are in use." in InstanceFault.objects.get().message


@pytest.mark.slow
def test_a_storage_host_that_is_silent_ends_the_migration(
    cloud: Cloud, two: Two, storage: ScriptedAgent, opened: Opened
) -> None:
    migrate(two.server)
    drain()
    Instance.objects.filter(id=two.server.id).update(task_deadline=timezone.now() - timedelta(seconds=1))
    reap()
    stays(cloud, two, opened, "error")


def test_a_target_that_cannot_prepare_lets_go_of_the_volumes(
    cloud: Cloud, two: Two, storage: ScriptedAgent, opened: Opened
) -> None:
    receive = receiving(two, storage)
    two.target.report(receive, "failed", error_code="host_failed", message="The host has no room.")
    stays(cloud, two, opened, "error")


@pytest.mark.slow
@pytest.mark.parametrize("when", ["connecting", "preparing"])
def test_an_abort_lets_go_of_the_volumes(
    cloud: Cloud, two: Two, storage: ScriptedAgent, opened: Opened, when: str
) -> None:
    migrate(two.server)
    if when == "preparing":
        connect(storage)
    abort_live_migration(operator(), two.server.id, str(Migration.objects.get().id))
    stays(cloud, two, opened, "cancelled")


@pytest.mark.slow
def test_an_answer_about_an_aborted_migration_changes_nothing(
    cloud: Cloud, two: Two, storage: ScriptedAgent, opened: Opened
) -> None:
    migrate(two.server)
    late = taken(storage, ConnectVolumeRequest)
    abort_live_migration(operator(), two.server.id, str(Migration.objects.get().id))
    for command in late:
        storage.carry_out(command)
    stays(cloud, two, opened, "cancelled")


@pytest.mark.slow
@each_place
def test_a_failed_transfer_keeps_the_volumes_at_the_source(
    cloud: Cloud, two: Two, storage: ScriptedAgent, opened: Opened
) -> None:
    _, send = sending(two, storage)
    two.source.report(send, "failed", error_code="migration_failed", message="Lost.", power_state=PowerState.RUNNING)
    stays(cloud, two, opened, "error")


@pytest.mark.slow
def test_both_hosts_keep_the_volumes_until_it_is_known_where_the_guest_is(
    cloud: Cloud, two: Two, storage: ScriptedAgent, opened: Opened
) -> None:
    receive, send = sending(two, storage)
    two.source.report(send, "failed", error_code=UNDECIDED, message="Lost.")
    assert not taken(storage, ConnectVolumeRequest)
    assert opened.hosts() == both(two)
    two.target.report(receive, "failed", error_code="migration_failed", message="Lost.")
    assert opened.hosts() == both(two)
    [keep] = taken(two.source, KeepLiveRequest)
    two.source.carry_out(keep)
    stays(cloud, two, opened, "error")


@pytest.mark.parametrize("storage", ["target"], indirect=True)
def test_a_source_that_died_loses_the_volumes_when_the_target_reports(
    cloud: Cloud, two: Two, storage: ScriptedAgent, opened: Opened
) -> None:
    receive, _ = sending(two, storage)
    Host.objects.filter(id=two.source.host.id).update(forced_down=True)
    two.arrives(receive)
    assert cloud.fresh(two.server).host_name == two.target.host.name
    rows = Attachment.objects.all()
    assert {(row.host_id, row.second_host_id) for row in rows} == {(two.target.host.id, None)}


@pytest.mark.slow
def test_a_deleted_server_leaves_its_volumes(cloud: Cloud, two: Two, storage: ScriptedAgent, opened: Opened) -> None:
    sending(two, storage)
    delete(operator(), two.server.id)
    cloud.run()
    assert (two.source.guests, two.target.guests) == ({}, {})
    assert not Attachment.objects.exists()
    assert not MoveAllocation.objects.exists()
    assert set(Volume.objects.values_list("status", flat=True)) == {"available"}


@pytest.mark.slow
def test_other_guests_of_a_shared_volume_keep_their_export(
    cloud: Cloud, alice: RequestContext, two: Two, storage: ScriptedAgent
) -> None:
    volume = Create.begin(alice, VolumeRequest(size_gb=1))
    cloud.run()
    Volume.objects.filter(id=volume.id).update(multiattach=True)
    other = cloud.running(alice, name="other")
    for each in (two.server, other):
        attach_volume(alice, each.id, VolumeToAttach(str(volume.id)))
        cloud.run()
    before = Attachment.objects.get(instance_id=other.id)
    migrate(two.server)
    cloud.run()
    after, moved = Attachment.objects.get(id=before.id), Attachment.objects.get(instance_id=two.server.id)
    assert (after.host_id, after.move) == (before.host_id, 0)
    assert (moved.host_id, moved.move) == (two.target.host.id, 1)
    assert moved.connection["export"].endswith(f".{moved.id}.1")
    invariants.check()


@pytest.mark.slow
def test_a_reader_is_refused_nothing_less(
    cloud: Cloud, two: Two, storage: ScriptedAgent, volumes: list[Volume]
) -> None:
    Attachment.objects.update(mode="ro")
    receive = receiving(two, storage)
    assert isinstance(receive.body, ReceiveLiveRequest)
    assert [disk.read_only for disk in receive.body.instance.volumes] == [True, True]
    [pool] = storage.pools.values()
    assert all(client.read_only for clients in pool.clients.values() for client in clients)


def test_another_project_sees_no_second_host(two: Two, storage: ScriptedAgent, volumes: list[Volume]) -> None:
    receiving(two, storage)
    assert not Attachment.objects.filter(project_id=context("charlie").project_id).exists()


def test_a_server_with_a_tpm_moves_live_to_hosts_with_tpms(two: Two) -> None:
    requested = {"hw_tpm_version": "2.0", "hw_tpm_model": "tpm-crb"}
    Instance.objects.filter(id=two.server.id).update(image_properties=requested)
    server = Instance.objects.get(id=two.server.id)
    assert live_obstacles([server]) == {}
    with pytest.raises(InvalidInputError):
        migrate(server)
    Host.objects.filter(id=two.target.host.id).update(
        traits=[RECEIVER_TRAIT, TPM_VERSION.trait_of("2.0"), TPM_MODEL.trait_of("tpm-crb")]
    )
    migrate(server)
    assert state_of(server) == ON_ITS_WAY


def test_an_interface_that_is_detached_when_a_move_begins_is_removed(
    cloud: Cloud, alice: RequestContext, two: Two
) -> None:
    """The command is of the guest's attempt before the move, and the guest is the same."""
    [port] = Port.objects.filter(device_id=two.server.id)
    detach_interface(alice, two.server.id, str(port.id))
    [detach] = taken(two.source, DetachInterfaceRequest)
    migrate(cloud.fresh(two.server))
    two.source.report(detach, "finished")
    assert not Port.objects.filter(id=port.id).exists()
    assert not InstanceAction.objects.filter(instance=two.server, action="detach_interface", finished_at=None).exists()


# ----- root disks in a pool -------------------------------------------------------------------------------------------


def pooled(*agents: ScriptedAgent, live: bool = True) -> None:
    """Let hosts store root disks in one pool, which two hosts can open if it is ``live``."""
    traits = [RECEIVER_TRAIT, ROOT_POOL_TRAIT, root_pool_trait("0b0f36b8-5f26-4f76-a0cf-25b4f1a3f3a1")]
    for agent in agents:
        Host.objects.filter(id=agent.host.id).update(traits=[*traits, *([LIVE_POOL_TRAIT] if live else [])])


def test_a_root_disk_in_a_pool_is_not_copied(cloud: Cloud, two: Two) -> None:
    copied = LiveMigrate.way.estimates()(two.server)
    pooled(two.source)
    server = cloud.fresh(two.server)
    assert LiveMigrate.way.estimates()(server) < copied
    with pytest.raises(InvalidInputError, match="the pool of its root disk"):
        migrate(server)
    pooled(two.source, two.target)
    Image.objects.update(status=Image.Status.DEACTIVATED)  # nothing is created from it
    assert live_obstacles([server]) == {}
    with pytest.raises(InvalidInputError):  # as Nova's InvalidLocalStorage
        migrate(server, block_migration=True)
    receive = receiving(two, two.source)
    two.target.listens(receive)
    [send] = taken(two.source, SendLiveRequest)
    two.source.report(send, "progress", detail={"done": str(1 << 20), "total": str(1 << 20)})
    two.arrives(receive)
    cloud.run()
    assert cloud.fresh(two.server).host_name == two.target.host.name
    assert Migration.objects.get().disk_total_bytes == 0
    invariants.check()


def test_a_pool_that_only_one_host_opens_keeps_the_guest(cloud: Cloud, two: Two) -> None:
    pooled(two.source, two.target, live=False)
    server = cloud.fresh(two.server)
    assert live_obstacles([server]) == {server.id: NOT_LIVE_IN_POOL}
    with pytest.raises(ConflictError, match="pool"):
        migrate(server)


def test_an_older_agent_receives_no_guest_with_its_root_disk_in_a_pool(cloud: Cloud, two: Two) -> None:
    pooled(two.source)
    pooled(two.target, live=False)
    server = cloud.fresh(two.server)
    assert live_obstacles([server]) == {}
    with pytest.raises(InvalidInputError, match="too old to receive"):
        migrate(server)
    [planned] = plan_servers([server], two.source.host, ["live"], host_up=True)
    assert (planned.way, planned.target) == ("", "")
    two.cloud.add_host("three", documents=True)
    Host.objects.filter(name="three").update(traits=Host.objects.get(id=two.source.host.id).traits)
    [planned] = plan_servers([server], two.source.host, ["live"], host_up=True)
    assert (planned.way, planned.target) == ("live", "three")
    Host.objects.filter(name="three").update(enabled=False)
    pooled(two.target)
    migrate(server)
    assert state_of(server) == ON_ITS_WAY
