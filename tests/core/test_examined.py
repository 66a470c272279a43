"""The examination after each test leaves out checks whose answers are as before, and still finds every fault."""

from __future__ import annotations

import uuid
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.compute.models import Instance
from provisioning.compute.states import PowerState
from provisioning.hosts.models import Host
from provisioning.network.models import DeliveryMark
from tests.support import examined, invariants
from tests.support.clouds import Cloud

pytestmark = [pytest.mark.both_databases, pytest.mark.slow]


@pytest.fixture
def known(cloud: Cloud, alice: RequestContext, monkeypatch: pytest.MonkeyPatch) -> Instance:
    """A server in a cloud that was examined: the questions without an answer are kept, those of earlier tests not."""
    monkeypatch.setattr(examined, "_looks", {})
    monkeypatch.setattr(examined, "_tries", Counter())
    cloud.add_host("kelvin")
    server = cloud.running(alice)
    invariants.check()
    return server


def kept() -> set[str]:
    return {name for vendor, name, _ in examined._looks if vendor == connection.vendor}


def test_most_checks_are_not_made_in_full_again(known: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    in_full = examined._in_full
    monkeypatch.setattr(examined, "_in_full", lambda name, kind: made.append(name) or in_full(name, kind))
    invariants.check()
    assert len(kept()) > 2 * len(made)
    assert not kept() & set(made)


@pytest.mark.parametrize(
    ("check", "columns"),
    [
        ("guests", {"power_state": PowerState.NOSTATE}),
        ("tasks", {"task_deadline": timezone.now()}),
        ("guests", {"host_id": None}),
    ],
)
def test_what_is_wrong_since_is_found(known: Instance, check: str, columns: dict[str, Any]) -> None:
    """Each of these checks met no row when it was kept."""
    assert check in kept()
    Instance.objects.filter(id=known.id).update(**columns)
    assert check in {each.check for each in examined.examined(sorted(kept()))}
    Instance.objects.filter(id=known.id).update(**{name: getattr(known, name) for name in columns})


@pytest.mark.doctor_finds("delivery_marks")
def test_what_was_on_its_way_is_found_when_its_time_is_over(known: Instance) -> None:
    DeliveryMark.objects.create(kind="network", subject_id=uuid.uuid4(), marked_at=timezone.now())
    invariants.check()
    with time_machine.travel(timezone.now() + timedelta(hours=1)):
        Host.objects.update(last_seen_at=timezone.now())
        result = [each.check for each in examined.examined(["delivery_marks"])]
    assert result == ["delivery_marks"]
    DeliveryMark.objects.update(marked_at=timezone.now() - timedelta(hours=1))


def test_with_other_settings_it_is_looked_at_in_full(known: Instance, settings: Any) -> None:
    Host.objects.update(clock_difference=2.0)
    assert list(examined.examined(["clocks"])) == []
    settings.CLOCK_DIFFERENCE_LIMIT = 1.0
    with CaptureQueriesContext(connection) as queries:
        assert [each.check for each in examined.examined(["clocks"])] == ["clocks"]
    assert len(queries) == 1
