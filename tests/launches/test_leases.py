"""Leases: announced before they end, extended, and ended by an ordinary delete."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, ForbiddenError, InvalidInputError, NotFoundError
from provisioning.compute.models import Instance, InstanceAction
from provisioning.events.models import Event
from provisioning.launches.models import InstanceLease
from provisioning.launches.plans.plan import LaunchPlan
from provisioning.launches.services import leases
from provisioning.launches.services.launch import launch_plan
from provisioning.notifications.messages import TOPIC
from tests.support.clouds import READER, Cloud, context, state_of
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db


@pytest.fixture
def leased(cloud: Cloud, alice: RequestContext, plan: LaunchPlan) -> Instance:
    """A running server with a lease of four days."""
    [server] = launch_plan(alice, msgspec.structs.replace(plan, lease_days=4), "k").instances
    cloud.run()
    return server


def lease_of(server: Instance) -> InstanceLease:
    return InstanceLease.objects.get(instance=server)


def after(days: float) -> Any:
    return timezone.now() + timedelta(days=days)


def notified() -> list[str]:
    return list(Event.objects.filter(topic=TOPIC, kind="instance.lease.ending").values_list("kind", flat=True))


@pytest.mark.both_databases("locks")
def test_its_owner_is_notified_once_and_then_it_is_deleted(cloud: Cloud, leased: Instance) -> None:
    assert (leases.announce_ending(after(2.9)), leases.delete_ended(after(3.9))) == (0, 0)
    assert [leases.announce_ending(after(3.1)) for _ in "ab"] == [1, 0]
    assert len(notified()) == 1
    assert state_of(leased) == ("active", None)
    assert leases.delete_ended(after(4.1)) == 1
    cloud.run()
    assert state_of(leased) == ("deleted", None)
    assert InstanceAction.objects.get(instance=leased, action="delete").user_id is None
    assert leases.delete_ended(after(5)) == 0


def test_a_short_lease_is_reported_at_its_half(leased: Instance, alice: RequestContext) -> None:
    leases.set_lease(alice, leased.id, 1)
    assert leases.announce_ending(after(0.4)) == 0
    assert leases.announce_ending(after(0.6)) == 1


@pytest.mark.both_databases("locks")
def test_an_extended_lease_starts_again_and_is_reported_again(leased: Instance, alice: RequestContext) -> None:
    leases.announce_ending(after(3.5))
    InstanceLease.objects.update(ends_at=after(0.1))
    extended = leases.extend(alice, leased.id)
    assert extended.notified_at is None
    assert timedelta(days=3.9) < extended.ends_at - timezone.now() < timedelta(days=4.1)
    assert leases.delete_ended(after(1)) == 0
    assert leases.announce_ending(after(3.5)) == 1


@pytest.mark.both_databases("locks")
def test_a_locked_server_is_kept_until_it_is_unlocked(cloud: Cloud, leased: Instance) -> None:
    Instance.objects.filter(id=leased.id).update(locked=True)
    assert leases.delete_ended(after(5)) == 0
    assert lease_of(leased).refused_at is not None
    assert state_of(leased) == ("active", None)
    Instance.objects.filter(id=leased.id).update(locked=False)
    assert leases.delete_ended(after(5)) == 1


def test_locked_servers_keep_no_other_server_alive(
    cloud: Cloud, leased: Instance, alice: RequestContext, plan: LaunchPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "BATCH", 1)
    launch_plan(alice, msgspec.structs.replace(plan, lease_days=5), "l")
    Instance.objects.filter(id=leased.id).update(locked=True)
    assert leases.delete_ended(after(6)) == 1


@pytest.mark.both_databases("locks")
def test_a_lease_is_set_and_removed_later(cloud: Cloud, alice: RequestContext, plan: LaunchPlan) -> None:
    [server] = launch_plan(alice, plan, "k").instances
    assert not InstanceLease.objects.exists()
    with pytest.raises(NotFoundError):
        leases.extend(alice, server.id)
    leases.set_lease(alice, server.id, 2)
    assert lease_of(server).days == 2
    assert leases.set_lease(alice, server.id, None) is None
    assert not InstanceLease.objects.exists()


def test_a_lease_of_a_template_cannot_become_longer(leased: Instance, alice: RequestContext, operator: Any) -> None:
    InstanceLease.objects.update(fixed=True)
    for days in (5, None):
        with pytest.raises(ConflictError):
            leases.set_lease(alice, leased.id, days)
    leases.extend(alice, leased.id)
    shorter = leases.set_lease(alice, leased.id, 3)
    assert shorter
    assert shorter.fixed


def test_others_cannot_change_it(leased: Instance, charlie: RequestContext) -> None:
    for who, error in ((charlie, NotFoundError), (context("alice", READER), ForbiddenError)):
        with pytest.raises(error):
            leases.extend(who, leased.id)
        with pytest.raises(error):
            leases.set_lease(who, leased.id, None)


@each_row("days", [0, -1, 366])
def test_a_length_out_of_range_is_refused(days: int) -> None:
    with pytest.raises(InvalidInputError) as refused:
        leases.check_days(days)
    assert refused.value.field == "lease_days"
