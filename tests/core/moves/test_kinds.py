"""Servers of each kind that move: with several interfaces, a config drive, a CD, a shared volume; paused ones. And
servers whose state keeps them where they are.
"""

from __future__ import annotations

import pytest

from compute_agent.contract.build import InstanceSpec
from compute_agent.contract.commands import ReceiveGuestRequest
from compute_agent.contract.migration import RECEIVER_TRAIT, ReceiveLiveRequest
from compute_agent.contract.power import PowerState
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError
from provisioning.compute.actions.attach_volume import VolumeToAttach, attach_volume
from provisioning.compute.actions.interfaces import attach_interface
from provisioning.compute.actions.live_migrate import LiveMigrate, LiveMigration
from provisioning.compute.actions.migrate import migrate
from provisioning.compute.actions.power import Pause
from provisioning.compute.actions.resize import ConfirmResize
from provisioning.compute.launch.request import DiskRequest, NetworkRequest
from provisioning.compute.models import Instance, Migration, MoveAllocation
from provisioning.compute.moves.obstacles import cold_obstacles, live_obstacles
from provisioning.compute.states import VmState
from provisioning.hosts.models import Host
from provisioning.network.models import Port
from provisioning.volumes.models import Attachment, Volume
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.services import Create
from tests.support import invariants
from tests.support.clouds import ADMIN, Cloud, context, state_of
from tests.support.jobs import drain
from tests.support.scripted_agent import ScriptedAgent

pytestmark = pytest.mark.django_db

INTERFACES = 4
RECEIVES = (ReceiveGuestRequest, ReceiveLiveRequest)
both_ways = pytest.mark.parametrize("live", [False, True], ids=["cold", "live"])


@pytest.fixture(autouse=True)
def hosts(cloud: Cloud) -> dict[str, ScriptedAgent]:
    result = {name: cloud.add_host(name, documents=True) for name in ("one", "two")}
    for number, agent in enumerate(result.values(), 1):
        agent.host.host_ip = f"192.0.2.{number}"
        Host.objects.filter(id=agent.host.id).update(host_ip=agent.host.host_ip, traits=[RECEIVER_TRAIT])
    return result


def begin(server: Instance, *, live: bool) -> None:
    operator = context("operator", ADMIN)
    if live:
        LiveMigrate.begin(operator, server.id, LiveMigration())
    else:
        migrate(operator, server.id)


def moved(cloud: Cloud, server: Instance, *, live: bool) -> InstanceSpec:
    """Move the server, and confirm that; return what the other host was told of its guest."""
    before = cloud.fresh(server)
    target = next(agent for name, agent in cloud.agents.items() if name != before.host_name)
    begin(server, live=live)
    received: list[InstanceSpec] = []
    for _ in range(10):
        drain()
        for agent in cloud.agents.values():
            for command in agent.take(begin=False):
                if isinstance(command.body, RECEIVES):
                    assert agent is target
                    received.append(command.body.instance)
                agent.carry_out(command)
    if not live:
        ConfirmResize.begin(context("operator", ADMIN), server.id)
        cloud.run()
    now = cloud.fresh(server)
    assert (state_of(now), now.host_name) == ((before.vm_state, None), target.host.name)
    assert [name for name, agent in cloud.agents.items() if str(server.id) in agent.guests] == [target.host.name]
    assert not MoveAllocation.objects.exists()
    invariants.check()
    [spec] = received
    return spec


@both_ways
def test_all_interfaces_and_the_config_drive_go_with_a_server(
    cloud: Cloud, alice: RequestContext, *, live: bool
) -> None:
    server = cloud.running(alice, config_drive=True)
    for _ in range(INTERFACES - 1):
        attach_interface(alice, server.id, NetworkRequest())
        cloud.run()
    before = list(Port.objects.filter(device_id=server.id).order_by("id").values_list("id", "mac_address"))
    spec = moved(cloud, server, live=live)
    assert len(spec.ports) == INTERFACES
    assert sorted(port.mac_address for port in spec.ports) == sorted(mac for _, mac in before)
    assert spec.config_drive
    ports = Port.objects.filter(device_id=server.id).order_by("id")
    assert list(ports.values_list("id", "mac_address")) == before
    assert {port.host for port in ports} == {cloud.fresh(server).host_name}


@pytest.mark.slow
@both_ways
def test_a_cd_and_a_shared_volume_go_with_a_server(cloud: Cloud, alice: RequestContext, *, live: bool) -> None:
    cloud.agents["one"].serve()
    made = [Create.begin(alice, VolumeRequest(size_gb=1)) for _ in range(2)]
    cloud.run()
    cd, shared = (str(each.id) for each in made)
    Volume.objects.filter(id=shared).update(multiattach=True)
    disk = DiskRequest("volume", "volume", source_id=cd, boot_index=-1, device_type="cdrom", disk_bus="sata")
    server, other = cloud.running(alice, disks=(disk,)), cloud.running(alice, name="other")
    for each in (server, other):
        attach_volume(alice, each.id, VolumeToAttach(shared))
        cloud.run()
    kept = Attachment.objects.get(instance_id=other.id)
    spec = moved(cloud, server, live=live)
    assert {disk.id: (disk.kind, disk.shareable) for disk in spec.volumes} == {
        cd: ("cdrom", False),
        shared: ("disk", True),
    }
    here = cloud.fresh(server).host_id
    assert set(Attachment.objects.filter(instance_id=server.id).values_list("host_id", "status")) == {
        (here, "attached")
    }
    assert Attachment.objects.get(id=kept.id).host_id == kept.host_id


def test_a_paused_server_moves_live_and_stays_paused(cloud: Cloud, alice: RequestContext) -> None:
    server = cloud.running(alice)
    Pause.begin(alice, server.id)
    cloud.run()
    assert state_of(server) == ("paused", None)
    moved(cloud, server, live=True)
    [(_, power)] = [guest for agent in cloud.agents.values() for guest in agent.guests.values()]
    assert (power, cloud.fresh(server).power_state) == (PowerState.PAUSED, PowerState.PAUSED)


@both_ways
@pytest.mark.parametrize(
    "state",
    [
        VmState.PAUSED,
        VmState.SUSPENDED,
        VmState.RESCUED,
        VmState.SHELVED,
        VmState.SHELVED_OFFLOADED,
        VmState.SOFT_DELETED,
        VmState.RESIZED,
        VmState.ERROR,
        VmState.STOPPED,
    ],
)
def test_a_server_in_another_state_stays_and_the_plan_says_so(
    cloud: Cloud, alice: RequestContext, state: VmState, *, live: bool
) -> None:
    moves = {(VmState.PAUSED, True), (VmState.STOPPED, False)}
    server = cloud.running(alice)
    Instance.objects.filter(id=server.id).update(vm_state=state)
    obstacles = live_obstacles if live else cold_obstacles
    assert (server.id in obstacles([cloud.fresh(server)])) is ((state, live) not in moves)
    if (state, live) not in moves:
        with pytest.raises(ConflictError):
            begin(server, live=live)
    assert state_of(server) == (state, None)
    assert not Migration.objects.exists()
    assert not MoveAllocation.objects.exists()
    Instance.objects.filter(id=server.id).update(vm_state=VmState.ACTIVE)
