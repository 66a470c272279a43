"""Live migrations whose source or target is forced down: they end then, unless the guest may run on the other host."""

from __future__ import annotations

import pytest
from django.utils import timezone

from compute_agent.contract.commands import MOVES, DestroyRequest
from compute_agent.contract.messages import Command
from compute_agent.contract.migration import UNDECIDED, KeepLiveRequest
from compute_agent.contract.power import PowerState
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.migrate import migrate as cold_migrate
from provisioning.compute.models import Migration, MoveAllocation
from provisioning.compute.moves import obstacles
from provisioning.compute.moves.hosts import leave_second
from provisioning.compute.services.hosts import change_host
from provisioning.compute.upkeep.reaper import reap
from provisioning.hosts.models import Host, HostCommand
from tests.core.moves.test_forced_down import Dies, can_be_evacuated, each_way, forced_down, off
from tests.core.test_live_migrate import AT_REST, MIGRATING, Two, hosts, migrate, operator, server, two
from tests.support.clouds import Cloud, state_of
from tests.support.jobs import drain

__all__ = ["hosts", "server", "two"]
pytestmark = pytest.mark.django_db
without_documents = pytest.mark.doctor_finds("deliveries")
"""The hosts of these tests get no documents."""


@pytest.mark.both_databases("locks")
@each_way
@pytest.mark.parametrize("lost", ["source", "target"])
def test_a_migration_ends_before_the_guest_is_sent(cloud: Cloud, two: Two, dies: Dies, lost: str) -> None:
    migrate(two.server)
    drain()
    [receive] = two.target.take()
    dies(getattr(two, lost))
    assert (state_of(two.server), cloud.fresh(two.server).host_name) == (AT_REST, two.source.host.name)
    two.target.listens(receive)
    assert not two.source.take()


def paused(two: Two, send: Command) -> None:
    """The source has sent the guest, and has it paused: the target has not answered."""
    key = str(two.server.id)
    two.source.guests[key] = (two.source.guests[key][0], PowerState.PAUSED)
    two.source.report(send, "failed", error_code=UNDECIDED, message="Lost.")


@each_way
def test_a_source_that_is_lost_ends_the_migration_when_the_target_has_nothing(
    cloud: Cloud, two: Two, dies: Dies
) -> None:
    """The guest may run on the target until that host has reported."""
    receive, _ = two.sending()
    dies(two.source)
    assert state_of(two.server) == MIGRATING
    two.target.report(receive, "failed", error_code="migration_failed", message="Lost.")
    assert (state_of(two.server), cloud.fresh(two.server).host_name) == (AT_REST, two.source.host.name)
    assert Migration.objects.get().status == "error"
    assert can_be_evacuated(two.server)


@each_way
def test_a_source_that_is_lost_after_the_target_has_failed_ends_the_migration(two: Two, dies: Dies) -> None:
    receive, _ = two.sending()
    two.target.report(receive, "failed", error_code="migration_failed", message="Lost.")
    assert state_of(two.server) == MIGRATING
    dies(two.source)
    assert state_of(two.server) == AT_REST
    assert can_be_evacuated(two.server)


@each_way
def test_a_guest_that_has_arrived_stays_where_it_runs(cloud: Cloud, two: Two, dies: Dies) -> None:
    receive, _ = two.sending()
    dies(two.source)
    two.arrives(receive)
    assert (state_of(two.server), cloud.fresh(two.server).host_name) == (AT_REST, two.target.host.name)


@each_way
def test_a_target_that_is_lost_lets_the_source_resume_the_guest(cloud: Cloud, two: Two, dies: Dies) -> None:
    _, send = two.sending()
    paused(two, send)
    assert not two.source.take()
    dies(two.target)
    [keep] = two.source.take()
    assert isinstance(keep.body, KeepLiveRequest)
    two.source.carry_out(keep)
    assert (state_of(two.server), cloud.fresh(two.server).host_name) == (AT_REST, two.source.host.name)
    assert two.source.guests[str(two.server.id)][1] == PowerState.RUNNING


@each_way
def test_a_source_that_reports_after_its_target_was_lost_resumes_the_guest(two: Two, dies: Dies) -> None:
    """Until then nobody knows whether the guest is paused there."""
    _, send = two.sending()
    dies(two.target)
    assert state_of(two.server) == MIGRATING
    paused(two, send)
    [keep] = two.source.take()
    assert isinstance(keep.body, KeepLiveRequest)


@each_way
def test_the_loss_of_both_hosts_ends_the_migration(two: Two, dies: Dies) -> None:
    two.sending()
    dies(two.target)
    assert state_of(two.server) == MIGRATING
    dies(two.source)
    assert state_of(two.server) == AT_REST


def evacuated_to_the_target(cloud: Cloud, two: Two) -> Command:
    """Let the server be built on the target of its failed migration. Return the command to remove the remains there,
    which the target has not answered.
    """
    receive, _ = two.sending()
    forced_down(two.source)
    two.target.report(receive, "failed", error_code="migration_failed", message="Lost.")
    [destroy] = two.target.take()
    assert isinstance(destroy.body, DestroyRequest)
    assert can_be_evacuated(two.server)
    drain()
    [build] = two.target.take()
    assert build.generation > destroy.generation
    two.target.carry_out(build)
    drain()
    assert (state_of(two.server), cloud.fresh(two.server).host_name) == (AT_REST, two.target.host.name)
    assert MoveAllocation.objects.exists()
    return destroy


@pytest.mark.parametrize(
    "way",
    [
        "live",
        pytest.param("cold", marks=without_documents),
        pytest.param("repair", marks=without_documents),
        "report",
        "delete",
    ],
)
def test_a_server_that_was_evacuated_to_the_target_keeps_its_guest(cloud: Cloud, two: Two, way: str) -> None:
    evacuated_to_the_target(cloud, two)
    change_host(operator(), two.source.host.id, forced_down=False)
    two.source.hello()
    Host.objects.update(last_seen_at=timezone.now(), connected=True, contract_version=MOVES)
    two.source.work()
    drain()
    destroys = HostCommand.objects.filter(host_id=two.target.host.id, kind="destroy_request")
    before = destroys.count()
    if way == "live":
        migrate(two.server)
    elif way == "cold":
        cold_migrate(operator(), two.server.id)
    elif way == "repair":
        leave_second(cloud.fresh(two.server))
    elif way == "report":
        destroys.update(finished_at=timezone.now())
        key = str(two.server.id)
        two.target.guests[key] = (two.target.guests[key][0], PowerState.SHUTDOWN)
        two.target.hello()
    else:
        delete(operator(), two.server.id)
        two.target.work()
    assert destroys.count() == before + (way == "delete")
    assert way == "report" or not MoveAllocation.objects.filter(host_id=two.target.host.id).exists()


def test_a_removal_that_the_next_build_has_overtaken_releases_the_second_host(cloud: Cloud, two: Two) -> None:
    two.target.report_superseded(evacuated_to_the_target(cloud, two))
    assert not MoveAllocation.objects.exists()
    assert state_of(two.server) == AT_REST
    assert not obstacles.live_obstacles([cloud.fresh(two.server)])


def test_a_host_that_is_only_silent_is_awaited(two: Two) -> None:
    """It may still send the guest, or receive it."""
    two.sending()
    off(two.target)
    reap()
    assert state_of(two.server) == MIGRATING
