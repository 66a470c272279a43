"""A host dies while a server is evacuated to it: the server is evacuated again, and no two hosts write its data."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from compute_agent.contract.commands import BuildRequest, DestroyRequest, PowerRequest, ReturnGuestRequest
from compute_agent.contract.moves import ROOT_POOL_TRAIT, root_pool_trait
from compute_agent.contract.power import PowerState
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError
from provisioning.compute.actions.attach_volume import VolumeToAttach, attach_volume
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.evacuate import Evacuate, obstacles
from provisioning.compute.actions.power import HardReboot, Start, Stop
from provisioning.compute.models import Allocation, Instance, InstanceAction, Migration
from provisioning.compute.services.hosts import change_host
from provisioning.compute.upkeep.reaper import reap
from provisioning.compute.upkeep.restored import restore_servers
from provisioning.hosts.models import Host, HostCommand
from provisioning.network.models import Port
from provisioning.volumes.models import Attachment
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.services import Create
from tests.core.doctor.findings import look, only, repaired
from tests.support import invariants
from tests.support.clouds import ADMIN, Cloud, context, state_of
from tests.support.jobs import drain
from tests.support.standing import standing

pytestmark = pytest.mark.django_db


@pytest.fixture
@standing
def server(cloud: Cloud, alice: RequestContext) -> Instance:
    """A server on host ``one``."""
    cloud.add_host("one")
    server = cloud.running(alice)
    for name in ("two", "three"):
        cloud.add_host(name)
    return server


def dies(name: str, *, forced: bool = False) -> None:
    long_ago = timezone.now() - timedelta(hours=1)
    Host.objects.filter(name=name).update(last_seen_at=long_ago, connected=False)
    if forced:
        force_down(name)


def force_down(name: str) -> None:
    change_host(context("operator", ADMIN), Host.objects.get(name=name).id, forced_down=True)


def returns(cloud: Cloud, name: str) -> None:
    Host.objects.filter(name=name).update(forced_down=False)
    cloud.agents[name].hello()
    work(cloud, name)


def evacuate(server: Instance) -> None:
    Evacuate.begin(context("operator", ADMIN), server.id)


def work(cloud: Cloud, *names: str) -> None:
    """Let the cloud work with these hosts only."""
    every, cloud.agents = cloud.agents, {name: cloud.agents[name] for name in names}
    cloud.run()
    cloud.agents = every


def expires(server: Instance) -> None:
    Instance.objects.filter(id=server.id).update(task_deadline=timezone.now() - timedelta(seconds=1))
    reap()


def dies_on_the_way(cloud: Cloud, server: Instance, *, forced: bool = False) -> str:
    """Evacuate a server to a host that dies with the new guest, before it reports it. Return the name of the host."""
    evacuate(server)
    work(cloud)  # connects volumes as far as the portal can
    for _ in range(10):
        target = cloud.fresh(server).host_name
        agent = cloud.agents[target]
        for command in agent.take():
            if isinstance(command.body, BuildRequest):
                agent.guests[str(server.id)] = (command.generation, PowerState.RUNNING)
                agent.fences[str(server.id)] = command.generation
                dies(target, forced=forced)
                expires(server)
                assert (state_of(server), cloud.fresh(server).host_name) == (("error", None), "one")
                assert Migration.objects.order_by("-id")[0].status == "error"
                return target
            agent.carry_out(command)
        work(cloud, *(name for name in cloud.agents if name not in ("one", target)))
        drain()
    raise AssertionError("No build was commanded.")


def connected() -> str:
    """The host to which the volume is connected."""
    return Attachment.objects.values_list("host__name", flat=True).get() or ""


def third_of(target: str) -> str:
    [third] = {"two", "three"} - {target}
    return third


@pytest.mark.slow
def test_it_is_on_its_own_host_again_and_evacuated_to_a_third(cloud: Cloud, server: Instance) -> None:
    dies("one")
    target = dies_on_the_way(cloud, server)
    assert Allocation.objects.get().host.name == "one"
    assert set(Port.objects.filter(device_id=str(server.id)).values_list("host", flat=True)) == {"one"}
    invariants.check()
    evacuate(server)
    third = third_of(target)
    work(cloud, third)
    assert (state_of(server), cloud.fresh(server).host_name) == (("active", None), third)
    invariants.check()
    for name in (target, "one"):
        assert str(server.id) in cloud.agents[name].guests
        returns(cloud, name)
        assert cloud.agents[name].guests == {}
    assert list(cloud.agents[third].guests) == [str(server.id)]
    invariants.check()


def test_its_own_host_keeps_the_guest_although_the_other_never_returns(cloud: Cloud, server: Instance) -> None:
    before = dict(cloud.agents["one"].guests)
    dies("one")
    dies_on_the_way(cloud, server)
    returns(cloud, "one")
    assert cloud.agents["one"].guests == before
    assert cloud.fresh(server).guest_attempt == before[str(server.id)][0]
    invariants.check()


def test_forcing_a_host_down_ends_the_evacuations_to_it(cloud: Cloud, server: Instance) -> None:
    dies("one")
    evacuate(server)
    drain()
    target = cloud.fresh(server).host_name
    cloud.agents[target].take()
    reap()
    assert state_of(server) == ("active", "spawning")
    force_down(target)
    reap()
    assert (state_of(server), cloud.fresh(server).host_name) == (("error", None), "one")
    evacuate(server)
    work(cloud, third_of(target))
    assert state_of(server) == ("active", None)
    invariants.check()


def test_the_other_host_removes_its_guest_when_it_is_back(cloud: Cloud, server: Instance) -> None:
    dies("one")
    target = dies_on_the_way(cloud, server)
    returns(cloud, target)
    assert cloud.agents[target].guests == {}
    assert (state_of(server), Allocation.objects.get().host.name) == (("error", None), "one")
    invariants.check()


def test_a_second_host_can_die_as_well(cloud: Cloud, server: Instance) -> None:
    dies("one")
    targets = [dies_on_the_way(cloud, server), dies_on_the_way(cloud, server)]
    assert sorted(targets) == ["three", "two"]
    returns(cloud, "three")
    assert cloud.agents["three"].guests == {}
    evacuate(server)
    work(cloud, "three")
    assert (state_of(server), cloud.fresh(server).host_name) == (("active", None), "three")
    returns(cloud, "one")
    returns(cloud, "two")
    assert [name for name, agent in cloud.agents.items() if agent.guests] == ["three"]
    invariants.check()


def test_a_silent_host_that_is_up_has_to_confirm_first(cloud: Cloud, server: Instance) -> None:
    dies("one")
    evacuate(server)
    drain()
    target = cloud.fresh(server).host_name
    cloud.agents[target].take()
    Instance.objects.filter(id=server.id).update(excluded_hosts=["an attempt"] * 9)
    expires(server)
    assert state_of(server) == ("error", None)
    with pytest.raises(ConflictError, match=f"Host {target}"):
        evacuate(server)
    assert target in obstacles([cloud.fresh(server)])[server.id]
    [destroy] = cloud.agents[target].take()
    assert isinstance(destroy.body, DestroyRequest)
    cloud.agents[target].carry_out(destroy)
    assert obstacles([cloud.fresh(server)]) == {}
    evacuate(server)
    work(cloud, "two", "three")
    assert state_of(server) == ("active", None)
    invariants.check()


def test_a_host_that_lost_the_command_is_asked_again(cloud: Cloud, server: Instance) -> None:
    dies("one")
    evacuate(server)
    drain()
    target = cloud.fresh(server).host_name
    cloud.agents[target].take()
    Instance.objects.filter(id=server.id).update(excluded_hosts=["an attempt"] * 9)
    expires(server)
    [destroy] = cloud.agents[target].take()
    long_ago = timezone.now() - timedelta(hours=1)
    HostCommand.objects.filter(id=destroy.id).update(created_at=long_ago, acknowledged_at=long_ago)
    reap()
    [again] = cloud.agents[target].take()
    assert (again.id != destroy.id, type(again.body)) == (True, DestroyRequest)


# ----- volumes --------------------------------------------------------------------------------------------------------


@pytest.fixture
@standing
def with_volume(cloud: Cloud, server: Instance, alice: RequestContext) -> Instance:
    """The server has a volume, which a fourth host serves."""
    cloud.add_host("storage").serve()
    Host.objects.filter(name="storage").update(enabled=False)
    volume = Create.begin(alice, VolumeRequest(size_gb=1))
    cloud.run()
    attach_volume(alice, server.id, VolumeToAttach(str(volume.id)))
    cloud.run()
    assert connected() == "one"
    return server


@pytest.mark.slow
def test_a_host_that_may_write_to_a_volume_has_to_be_forced_down(cloud: Cloud, with_volume: Instance) -> None:
    server = with_volume
    dies("one", forced=True)
    target = dies_on_the_way(cloud, server)
    with pytest.raises(ConflictError, match=f"host {target} may still have open"):
        evacuate(server)
    assert target in obstacles([cloud.fresh(server)])[server.id]
    assert connected() == target
    force_down(target)
    assert obstacles([cloud.fresh(server)]) == {}
    assert Allocation.objects.get().host.name == "one"
    assert not connected()
    invariants.check()
    evacuate(server)
    third = third_of(target)
    work(cloud, third, "storage")
    assert (state_of(server), cloud.fresh(server).host_name) == (("active", None), third)
    assert connected() == third
    returns(cloud, target)
    returns(cloud, "one")
    assert [name for name, agent in cloud.agents.items() if agent.guests] == [third]
    assert connected() == third
    invariants.check()


def home_again(cloud: Cloud, server: Instance) -> None:
    """Its evacuation has failed for good: the other host never returns, its own host does, and it is stopped."""
    dies("one", forced=True)
    dies_on_the_way(cloud, server, forced=True)
    returns(cloud, "one")
    Stop.begin(context("alice"), server.id)
    work(cloud, "one", "storage")
    assert state_of(server) == ("stopped", None)


@pytest.mark.both_databases("locks")
def test_a_start_on_its_own_host_connects_its_volumes_again(cloud: Cloud, with_volume: Instance) -> None:
    server = with_volume
    home_again(cloud, server)
    assert "its own host" in server.faults.latest("id").message
    assert not connected()
    Start.begin(context("alice"), server.id)
    assert state_of(server) == ("stopped", "powering-on")
    work(cloud, "one", "storage")
    assert (state_of(server), connected()) == (("active", None), "one")
    now = cloud.fresh(server)
    assert cloud.agents["one"].guests == {str(server.id): (now.attempt, PowerState.RUNNING)}
    assert now.guest_attempt is None
    assert InstanceAction.objects.filter(instance=server, action="start", message=None).latest("id").finished_at
    invariants.check()


@pytest.mark.slow
def test_a_later_start_on_its_own_host_finds_its_disks(cloud: Cloud, with_volume: Instance) -> None:
    home_again(cloud, with_volume)
    Start.begin(context("alice"), with_volume.id)
    work(cloud, "one", "storage")
    Stop.begin(context("alice"), with_volume.id)
    work(cloud, "one")
    Start.begin(context("alice"), with_volume.id)
    [start] = cloud.agents["one"].take()
    assert isinstance(start.body, PowerRequest)


@pytest.mark.slow
def test_a_host_that_is_forced_down_during_a_stop_loses_the_allocation_to_the_start(
    cloud: Cloud, with_volume: Instance
) -> None:
    server = with_volume
    dies("one", forced=True)
    target = dies_on_the_way(cloud, server)
    returns(cloud, "one")
    Stop.begin(context("alice"), server.id)
    force_down(target)
    work(cloud, "one", "storage")
    assert (state_of(server), Allocation.objects.get().host.name) == (("stopped", None), target)
    Start.begin(context("alice"), server.id)
    work(cloud, "one", "storage")
    assert (state_of(server), Allocation.objects.get().host.name) == (("active", None), "one")
    returns(cloud, target)
    assert (state_of(server), connected()) == (("active", None), "one"), "its export does not end"
    invariants.check()


def test_a_stopped_server_whose_evacuation_has_failed_gets_its_place_back(cloud: Cloud, with_volume: Instance) -> None:
    server = with_volume
    dies("one", forced=True)
    target = dies_on_the_way(cloud, server)
    returns(cloud, "one")
    Stop.begin(context("alice"), server.id)
    work(cloud, "one", "storage")
    finding = only("allocations")
    assert (finding.repair, "force it down" in finding.sentence) == (None, True)
    Host.objects.filter(name=target).update(last_seen_at=timezone.now(), connected=True)
    assert look("allocations") == [], "it is up, and has the command"
    [lost] = [each for each in cloud.agents[target].take() if isinstance(each.body, DestroyRequest)]
    long_ago = timezone.now() - timedelta(hours=1)
    HostCommand.objects.filter(id=lost.id).update(created_at=long_ago, acknowledged_at=long_ago)
    assert only("allocations").remedy == "Ask the host."
    reap()
    assert look("allocations") == []
    [again] = [each for each in cloud.agents[target].take() if isinstance(each.body, DestroyRequest)]
    cloud.agents[target].carry_out(again)
    assert Allocation.objects.get().host.name == "one"
    invariants.check()


@pytest.mark.doctor_finds("allocations", "bound_ports")
def test_a_guest_on_another_host_than_the_records_say_is_left_alone(cloud: Cloud, server: Instance) -> None:
    """Only the doctor reports it: an operator has to look where the guest is."""
    Instance.objects.filter(id=server.id).update(host=Host.objects.get(name="two"))
    reap()
    assert cloud.agents["one"].take() == []
    assert "Check where its guest is" in only("allocations").sentence


@pytest.mark.parametrize("state", ["stopped", "error"])
def test_a_server_of_a_host_that_was_forced_down_during_a_stop_is_returned_by_the_doctor(
    cloud: Cloud, with_volume: Instance, state: str
) -> None:
    server = with_volume
    dies("one", forced=True)
    target = dies_on_the_way(cloud, server)
    returns(cloud, "one")
    Stop.begin(context("alice"), server.id)
    force_down(target)
    assert look("allocations") == [], "its task is in progress"
    if state == "error":
        [stop] = [each for each in cloud.agents["one"].take() if isinstance(each.body, PowerRequest)]
        cloud.agents["one"].fail(stop, "The guest does not stop.", retryable=False)
    work(cloud, "one", "storage")
    assert (state_of(server), Allocation.objects.get().host.name) == ((state, None), target)
    repaired("allocations")
    assert Allocation.objects.get().host.name == "one"


@pytest.mark.slow
def test_a_guest_that_was_started_again_is_reset_after_a_restore(cloud: Cloud, with_volume: Instance) -> None:
    server = with_volume
    home_again(cloud, server)
    with pytest.raises(ConflictError, match="Stop it, then start it"):
        HardReboot.begin(context("alice"), server.id)
    Start.begin(context("alice"), server.id)
    work(cloud, "one", "storage")
    restore_servers()
    assert cloud.fresh(server).guest_attempt is not None
    HardReboot.begin(context("alice"), server.id)
    assert state_of(server) == ("active", "rebooting_hard")


def test_a_root_disk_in_a_pool_is_taken_back_by_a_start(cloud: Cloud, server: Instance) -> None:
    Host.objects.update(traits=[ROOT_POOL_TRAIT, root_pool_trait("00000000-0000-4000-8000-00000000ceff")])
    dies("one", forced=True)
    target = dies_on_the_way(cloud, server)
    returns(cloud, "one")
    with pytest.raises(ConflictError, match="Stop it"):
        HardReboot.begin(context("alice"), server.id)
    Stop.begin(context("alice"), server.id)
    work(cloud, "one")
    with pytest.raises(ConflictError):
        Start.begin(context("alice"), server.id)
    force_down(target)
    Start.begin(context("alice"), server.id)
    drain()
    [back] = cloud.agents["one"].take()
    assert isinstance(back.body, ReturnGuestRequest)
    assert back.body.start
    cloud.agents["one"].carry_out(back)
    assert state_of(server) == ("active", None)
    invariants.check()


@pytest.mark.slow
def test_a_start_whose_volumes_cannot_be_connected_can_be_repeated(cloud: Cloud, with_volume: Instance) -> None:
    server = with_volume
    home_again(cloud, server)
    cloud.agents["storage"].failing["connect_volume_request"] = "It has no room."
    Start.begin(context("alice"), server.id)
    work(cloud, "one", "storage")
    assert state_of(server) == ("stopped", None)
    assert "no room" in server.faults.latest("id").message
    assert InstanceAction.objects.filter(instance=server, action="start").latest("id").message
    invariants.check()
    Start.begin(context("alice"), server.id)
    work(cloud, "one", "storage")
    assert (state_of(server), connected()) == (("active", None), "one")
    invariants.check()


@pytest.mark.slow
def test_a_start_on_its_own_host_that_gets_no_answer_ends(cloud: Cloud, with_volume: Instance) -> None:
    server = with_volume
    home_again(cloud, server)
    Start.begin(context("alice"), server.id)
    drain()
    expires(server)
    assert state_of(server) == ("stopped", None)
    work(cloud, "one", "storage")
    assert state_of(server) == ("stopped", None)
    Start.begin(context("alice"), server.id)
    work(cloud, "one", "storage")
    assert (state_of(server), connected()) == (("active", None), "one")
    invariants.check()


def test_a_host_that_was_forced_down_before_is_not_awaited(cloud: Cloud, with_volume: Instance) -> None:
    server = with_volume
    dies("one", forced=True)
    third = third_of(dies_on_the_way(cloud, server, forced=True))
    evacuate(server)
    work(cloud, third, "storage")
    assert (state_of(server), connected()) == (("active", None), third)
    invariants.check()


@pytest.mark.slow
def test_a_server_that_is_deleted_after_the_failure_leaves_nothing(cloud: Cloud, with_volume: Instance) -> None:
    dies("one", forced=True)
    target = dies_on_the_way(cloud, with_volume)
    delete(context("alice"), with_volume.id, force=True)
    for name in ("one", target):
        returns(cloud, name)
    assert state_of(with_volume) == ("deleted", None)
    assert all(agent.guests == {} for agent in cloud.agents.values())
    invariants.check()
    invariants.check_empty()
