"""Interfaces that were being attached or detached when a copy of the records was made, which was put back later."""

from __future__ import annotations

import pytest
from django.utils import timezone

from provisioning.compute.models import Instance, InstanceAction
from provisioning.hosts import restored
from provisioning.hosts.models import HostCommand
from provisioning.network.models import Port
from tests.core.interfaces.orders import attach, detach, interfaces
from tests.support.clouds import Cloud
from tests.support.copies import Copy
from tests.support.scripted_agent import ScriptedAgent

pytestmark = [pytest.mark.django_db, pytest.mark.slow]


@pytest.fixture(autouse=True)
def _nobody_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restored, "_is_anybody_working", lambda: False)


@pytest.mark.parametrize("taken", [False, True])
@pytest.mark.parametrize("leaving", [False, True])
def test_what_its_owner_wants_is_reported_to_the_host_again(
    cloud: Cloud, running: Instance, agent: ScriptedAgent, *, leaving: bool, taken: bool
) -> None:
    """The host reports no second time how a command ended that it knows."""
    port = attach(cloud.fresh(running), network_id=str(cloud.network.id))
    if leaving:
        cloud.run()
        detach(cloud.fresh(running), port)
    if taken:
        HostCommand.objects.filter(finished_at=None).update(acknowledged_at=timezone.now())
    copy = Copy()
    HostCommand.objects.filter(acknowledged_at__isnull=False, finished_at=None).update(acknowledged_at=None)
    cloud.run()
    copy.put_back()
    restored.after_restore()
    agent.hello()
    cloud.run()
    assert len(interfaces(cloud.fresh(running))) == (1 if leaving else 2)
    assert not Port.objects.filter(leaving=True).exists()
    assert not HostCommand.objects.filter(finished_at=None).exists()
    assert not InstanceAction.objects.filter(finished_at=None).exists()
