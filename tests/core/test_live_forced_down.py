"""Live migrations whose source or target is forced down: they end then, unless the guest may run on the other host."""

from __future__ import annotations

import pytest

from compute_agent.contract.messages import Command
from compute_agent.contract.migration import UNDECIDED, KeepLiveRequest
from compute_agent.contract.power import PowerState
from provisioning.compute.models import Migration
from provisioning.compute.upkeep.reaper import reap
from tests.core.moves.test_forced_down import Dies, can_be_evacuated, each_way, off
from tests.core.test_live_migrate import AT_REST, MIGRATING, Two, hosts, migrate, server, two
from tests.support.clouds import Cloud, state_of
from tests.support.jobs import drain

__all__ = ["hosts", "server", "two"]
pytestmark = pytest.mark.django_db


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


def test_a_host_that_is_only_silent_is_awaited(two: Two) -> None:
    """It may still send the guest, or receive it."""
    two.sending()
    off(two.target)
    reap()
    assert state_of(two.server) == MIGRATING
