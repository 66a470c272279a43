"""Evacuations: a server whose host is down is built on another host, once, with what it had."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone

from compute_agent.contract.commands import BuildRequest, DestroyRequest
from compute_agent.contract.moves import ROOT_POOL_TRAIT, root_pool_trait
from compute_agent.contract.power import PowerState
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError
from provisioning.compute.actions.attach_volume import VolumeToAttach, attach_volume
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.evacuate import Evacuate, Evacuation
from provisioning.compute.actions.power import Stop
from provisioning.compute.actions.reset_state import ResetState
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.models import Allocation, Instance, InstanceAction, Migration
from provisioning.compute.plans.deaths import deaths_for
from provisioning.compute.plans.moves import plan_host
from provisioning.compute.upkeep.reaper import reap
from provisioning.hosts.models import Host, HostCommand
from provisioning.images.models import Image
from provisioning.network.models import Port
from provisioning.volumes.models import Volume
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.services import Create, Extend
from tests.support import invariants
from tests.support.clouds import ADMIN, Cloud, context, state_of
from tests.support.jobs import drain
from tests.support.scripted_agent import ScriptedAgent

pytestmark = pytest.mark.django_db


@pytest.fixture
def hosts(cloud: Cloud) -> dict[str, ScriptedAgent]:
    return {name: cloud.add_host(name) for name in ("one", "two")}


@pytest.fixture
def server(cloud: Cloud, hosts: dict[str, ScriptedAgent], alice: RequestContext) -> Instance:
    return cloud.running(alice)


def dies(server: Instance, *, forced: bool = False) -> str:
    """The host of a server no longer answers; return its name."""
    rows = Host.objects.filter(id=server.host_id)
    rows.update(last_seen_at=timezone.now() - timedelta(hours=1), connected=False, forced_down=forced)
    return rows.get().name


def returns(cloud: Cloud, name: str) -> None:
    Host.objects.filter(name=name).update(forced_down=False)
    cloud.agents[name].hello()
    cloud.run()


def evacuate(server: Instance, **wanted: Any) -> Instance:
    return Evacuate.begin(context("operator", ADMIN), server.id, Evacuation(**wanted))


def work(cloud: Cloud, *names: str) -> None:
    """Let the cloud work with these hosts only."""
    every, cloud.agents = cloud.agents, {name: cloud.agents[name] for name in names}
    cloud.run()
    cloud.agents = every


def test_the_server_runs_on_another_host_with_its_ports(cloud: Cloud, server: Instance) -> None:
    addresses = list(Port.objects.filter(device_id=str(server.id)).values_list("id", "mac_address"))
    source = dies(server)
    target = ({"one", "two"} - {source}).pop()
    moving = evacuate(server)
    assert state_of(moving) == ("active", "evacuating")
    invariants.check()
    work(cloud, target)
    now = cloud.fresh(server)
    assert (state_of(now), now.host_name) == (("active", None), target)
    assert list(Port.objects.filter(device_id=str(server.id)).values_list("id", "mac_address")) == addresses
    assert list(cloud.agents[target].guests) == [str(server.id)]
    [row] = Migration.objects.all()
    assert (row.migration_type, row.status, row.source_compute, row.dest_compute) == (
        "evacuation", "done", source, target,
    )  # fmt: skip
    action = InstanceAction.objects.get(action="evacuate")
    assert action.message is None
    assert action.finished_at is not None
    invariants.check()


def test_a_root_disk_in_a_pool_is_taken_over(
    cloud: Cloud, server: Instance, hosts: dict[str, ScriptedAgent], alice: RequestContext
) -> None:
    """Only a host of the pool, and only after the old host is certainly off. The image is not needed."""
    pool = [ROOT_POOL_TRAIT, root_pool_trait("00000000-0000-4000-8000-00000000ceff")]
    source = dies(server)
    [target] = {"one", "two"} - {source}
    Host.objects.filter(name=source).update(traits=pool)
    with pytest.raises(ConflictError, match="root disk in a pool"):
        evacuate(server)
    dies(server, forced=True)
    [death] = deaths_for(context("operator", ADMIN))
    assert (death.going, death.staying, "the pool of its root disk" in death.reason) == (0, 1, True)
    with pytest.raises(InvalidInputError, match="the pool of its root disk"):
        evacuate(server)
    Host.objects.filter(name=target).update(traits=pool)
    Image.objects.update(status=Image.Status.DELETED)
    [move] = plan_host(Host.objects.get(name=source), ["evacuate"], host_up=False).moves
    assert (move.target, move.new_disks) == (target, False)
    [death] = deaths_for(context("operator", ADMIN))
    assert (death.going, death.staying) == (1, 0)
    evacuate(server)
    drain()
    [build] = [each for each in hosts[target].take() if isinstance(each.body, BuildRequest)]
    assert isinstance(build.body, BuildRequest)
    assert build.body.take_root
    hosts[target].carry_out(build)
    assert state_of(server) == ("active", None)
    removals = HostCommand.objects.filter(kind="destroy_request")
    assert '"keep_root":true' in removals.get(host_id=Host.objects.get(name=source).id).body
    returns(cloud, source)
    delete(alice, server.id)
    assert '"keep_root":false' in removals.get(host_id=Host.objects.get(name=target).id).body
    cloud.run()


def test_a_silent_host_returns_the_root_disk_that_it_may_have_taken_over(cloud: Cloud, server: Instance) -> None:
    Host.objects.update(traits=[ROOT_POOL_TRAIT, root_pool_trait("00000000-0000-4000-8000-00000000ceff")])
    [target] = {"one", "two"} - {dies(server, forced=True)}
    evacuate(server)
    for _ in range(settings.MAX_SCHEDULE_ATTEMPTS):
        drain()
        [build] = cloud.agents[target].take()
        assert isinstance(build.body, BuildRequest)
        assert build.body.take_root
        Instance.objects.filter(id=server.id).update(task_deadline=timezone.now() - timedelta(seconds=1))
        reap()
        [destroy] = cloud.agents[target].take()
        assert destroy.body == DestroyRequest(keep_root=True)
        cloud.agents[target].carry_out(destroy)
    assert state_of(server) == ("error", None)


def test_the_old_host_removes_its_guest_when_it_is_back(cloud: Cloud, server: Instance) -> None:
    source = dies(server)
    evacuate(server)
    work(cloud, ({"one", "two"} - {source}).pop())
    assert str(server.id) in cloud.agents[source].guests
    returns(cloud, source)
    assert cloud.agents[source].guests == {}
    assert list(cloud.agents[cloud.fresh(server).host_name].guests) == [str(server.id)]
    assert Migration.objects.get().status == "completed"
    invariants.check()


def test_the_old_host_removes_its_guest_before_the_new_one_is_built(cloud: Cloud, server: Instance) -> None:
    source = cloud.fresh(server).host_name
    Host.objects.filter(name=source).update(forced_down=True)
    evacuate(server)
    drain()
    cloud.agents[source].hello()
    work(cloud, source)
    assert cloud.agents[source].guests == {}
    assert Migration.objects.get().status == "pre-migrating"
    work(cloud, ({"one", "two"} - {source}).pop())
    assert Migration.objects.get().status == "completed"
    invariants.check()


def test_the_old_host_keeps_its_guest_until_another_host_is_claimed(cloud: Cloud, server: Instance) -> None:
    source = dies(server)
    evacuate(server)
    cloud.agents[source].hello()  # back before the server is scheduled
    assert str(server.id) in cloud.agents[source].guests
    cloud.run()
    target = ({"one", "two"} - {source}).pop()
    assert [name for name, agent in cloud.agents.items() if agent.guests] == [target]
    assert (state_of(server), cloud.fresh(server).host_name) == (("active", None), target)
    assert Migration.objects.get().status == "completed"
    invariants.check()


def test_a_volume_whose_extension_the_dead_host_did_not_report_has_its_new_size(
    cloud: Cloud, server: Instance, alice: RequestContext
) -> None:
    source = cloud.fresh(server).host_name
    target = ({"one", "two"} - {source}).pop()
    cloud.agents[target].serve()
    volume = Create.begin(alice, VolumeRequest(size_gb=1))
    cloud.run()
    attach_volume(alice, server.id, VolumeToAttach(str(volume.id)))
    cloud.run()
    Extend.begin(alice, volume.id, 2)
    work(cloud, target)
    assert Volume.objects.get().status == "extending"
    dies(server, forced=True)
    evacuate(server)
    work(cloud, target)
    assert (state_of(server), cloud.fresh(server).host_name) == (("active", None), target)
    assert (Volume.objects.get().status, Volume.objects.get().size_gb) == ("in-use", 2)
    assert not InstanceAction.objects.filter(finished_at=None).exists()
    invariants.check()


def test_a_server_is_not_evacuated_to_its_own_host_which_is_back(cloud: Cloud, server: Instance) -> None:
    source = dies(server)
    before = dict(cloud.agents[source].guests)
    evacuate(server)
    Host.objects.exclude(name=source).update(enabled=False)
    cloud.agents[source].hello()
    Host.objects.filter(name=source).update(forced_down=False)
    cloud.run()
    assert (state_of(server), cloud.fresh(server).host_name) == (("error", None), source)
    assert cloud.agents[source].guests == before
    assert Migration.objects.get().status == "error"
    invariants.check()


@pytest.mark.parametrize(("stopped", "start"), [(True, True), (False, False)])
def test_a_server_that_is_stopped_stays_so(cloud: Cloud, server: Instance, *, stopped: bool, start: bool) -> None:
    if stopped:
        Instance.objects.filter(id=server.id).update(vm_state="stopped", power_state=4)
    source = dies(server)
    evacuate(server, start=start)
    work(cloud, ({"one", "two"} - {source}).pop())
    assert state_of(server) == ("stopped", None)
    invariants.check()


def test_nothing_changes_without_a_suitable_host(cloud: Cloud, server: Instance) -> None:
    before = Instance.objects.values().get(id=server.id)
    source = dies(server)
    Host.objects.exclude(name=source).update(enabled=False)
    with pytest.raises(InvalidInputError, match="No valid host was found"):
        evacuate(server)
    assert Instance.objects.values().get(id=server.id) == before
    assert not Migration.objects.exists()


def test_refusals(cloud: Cloud, server: Instance) -> None:
    with pytest.raises(InvalidInputError, match="still in use"):
        evacuate(server)
    source = dies(server)
    with pytest.raises(NotFoundError, match="nowhere"):
        evacuate(server, host="nowhere")
    with pytest.raises(InvalidInputError, match="same one"):
        evacuate(server, host=source)
    evacuate(server)
    with pytest.raises(InstanceBusyError):
        evacuate(server)


def fails(cloud: Cloud, server: Instance, source: str) -> str:
    """Evacuate a server, whose builds all fail; return the name of the other host."""
    target = ({"one", "two"} - {source}).pop()
    evacuate(server)
    for _ in range(settings.MAX_SCHEDULE_ATTEMPTS):
        drain()
        [command] = cloud.agents[target].take()
        cloud.agents[target].fail(command, "It broke.", retryable=True)
    return target


def test_a_failed_build_leaves_the_server_on_its_old_host(cloud: Cloud, server: Instance) -> None:
    source = dies(server)
    target = fails(cloud, server, source)
    now = cloud.fresh(server)
    assert (state_of(now), now.host_name) == (("error", None), source)
    assert Allocation.objects.get().host.name == source
    assert Migration.objects.get().status == "error"
    invariants.check()
    evacuate(server)
    work(cloud, target)
    assert (state_of(server), cloud.fresh(server).host_name) == (("active", None), target)
    invariants.check()


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2])
def test_the_old_host_keeps_the_guest_of_a_failed_evacuation(cloud: Cloud, server: Instance, times: int) -> None:
    source = dies(server)
    before = dict(cloud.agents[source].guests)
    for _ in range(times):
        fails(cloud, server, source)
    returns(cloud, source)
    assert cloud.agents[source].guests == before
    now = cloud.fresh(server)
    assert (state_of(now), now.host_name) == (("error", None), source)
    invariants.check()
    ResetState.begin(context("operator", ADMIN), server.id, "active")
    cloud.agents[source].hello()
    assert (state_of(server), cloud.fresh(server).power_state) == (("active", None), PowerState.RUNNING)
    Stop.begin(context("alice"), server.id)
    cloud.run()
    assert state_of(server) == ("stopped", None)
    invariants.check()


def test_a_guest_that_its_host_may_have_removed_is_not_expected_there(cloud: Cloud, server: Instance) -> None:
    source = dies(server)
    target = ({"one", "two"} - {source}).pop()
    evacuate(server)
    drain()
    [order] = [each for each in cloud.agents[source].take() if isinstance(each.body, DestroyRequest)]
    for _ in range(settings.MAX_SCHEDULE_ATTEMPTS):
        [command] = cloud.agents[target].take()
        cloud.agents[target].fail(command, "It broke.", retryable=True)
        drain()
    assert cloud.fresh(server).guest_attempt is None
    cloud.agents[source].carry_out(order)
    returns(cloud, source)
    assert cloud.agents[source].guests == {}
    invariants.check()


@pytest.mark.parametrize("scheduled", [False, True])
def test_a_delete_on_the_way_leaves_nothing(cloud: Cloud, server: Instance, *, scheduled: bool) -> None:
    source = dies(server)
    evacuate(server)
    if scheduled:
        work(cloud)
    delete(context("alice"), server.id, force=True)
    cloud.run()
    returns(cloud, source)
    assert state_of(server) == ("deleted", None)
    assert all(agent.guests == {} for agent in cloud.agents.values())
    invariants.check()
    invariants.check_empty()


def test_the_old_host_keeps_its_guest_when_a_silent_host_has_removed_the_new_one(
    cloud: Cloud, server: Instance
) -> None:
    source = dies(server)
    target = ({"one", "two"} - {source}).pop()
    before = dict(cloud.agents[source].guests)
    evacuate(server)
    for _ in range(settings.MAX_SCHEDULE_ATTEMPTS):
        drain()
        [build] = cloud.agents[target].take()
        assert isinstance(build.body, BuildRequest)
        past = timezone.now() - timedelta(seconds=1)
        HostCommand.objects.filter(id=build.id).update(deadline=past)
        Instance.objects.filter(id=server.id).update(task_deadline=past)
        reap()
        [destroy] = cloud.agents[target].take()
        assert destroy.body == DestroyRequest(), "a root disk that the failed build has created is not kept"
        cloud.agents[target].carry_out(destroy)
    now = cloud.fresh(server)
    assert (state_of(now), now.host_name) == (("error", None), source)
    returns(cloud, source)
    assert cloud.agents[source].guests == before
    invariants.check()
