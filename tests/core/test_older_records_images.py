"""Images that a host has sent since the copy of the records: the data stays, and its record is completed."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from compute_agent.contract.commands import DestroyRequest
from provisioning.common.context import RequestContext
from provisioning.compute.actions.shelve import Shelve
from provisioning.compute.models import Instance
from provisioning.compute.upkeep import reaper
from provisioning.hosts import restored
from provisioning.hosts.models import HostCommand
from provisioning.images.data import store
from provisioning.images.jobs import clean_up
from provisioning.images.models import Image
from tests.support.clouds import Cloud, context, state_of
from tests.support.copies import Copy
from tests.support.landing import diagonal
from tests.support.scripted_agent import ScriptedAgent
from tests.support.standing import standing

pytestmark = pytest.mark.slow


@pytest.fixture
@standing
def a(cloud: Cloud) -> ScriptedAgent:
    return cloud.add_host("a")


@pytest.fixture
@standing
def server(cloud: Cloud, a: ScriptedAgent, alice: RequestContext) -> Instance:
    return cloud.running(alice)


def a_moment_later() -> None:
    """Let all deadlines pass, and the clock do its work."""
    past = timezone.now() - timedelta(hours=2)
    Instance.objects.exclude(task_state=None).update(task_deadline=past, updated_at=past)
    HostCommand.objects.filter(finished_at=None).update(deadline=past, ends_at=past)
    for _ in range(2):
        reaper.reap()
        Image.objects.update(updated_at=past)
        clean_up()


@pytest.mark.doctor_finds("guests")
@diagonal(command=[False, True], status=[Image.Status.QUEUED, Image.Status.SAVING, Image.Status.ACTIVE])
def test_the_disk_of_a_server_that_was_being_shelved_is_not_lost(
    cloud: Cloud,
    server: Instance,
    a: ScriptedAgent,
    monkeypatch: pytest.MonkeyPatch,
    status: Image.Status,
    *,
    command: bool,
) -> None:
    """The host has sent the disk since, and was told to remove the guest: the image is all there is."""
    Shelve.begin(context("alice"), server.id)
    copy = Copy()
    cloud.run()
    assert (state_of(server), a.guests) == (("shelved_offloaded", None), {})
    copy.put_back()
    image = Image.objects.get(property_rows__name="instance_uuid")
    Image.objects.filter(id=image.id).update(status=status)
    HostCommand.objects.filter(finished_at=None).update(acknowledged_at=timezone.now())
    if command:
        monkeypatch.setattr(restored, "_is_anybody_working", lambda: False)
        restored.after_restore()
    a.hello()
    a_moment_later()
    a.hello()
    assert store.is_whole(image.id)
    assert Image.objects.get(id=image.id).status == Image.Status.ACTIVE
    assert state_of(server) == ("stopped", None)
    assert not any(isinstance(each.body, DestroyRequest) for each in a.take())


def test_an_image_whose_data_has_not_come_goes_with_its_task(
    cloud: Cloud, server: Instance, a: ScriptedAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    Shelve.begin(context("alice"), server.id)
    monkeypatch.setattr(restored, "_is_anybody_working", lambda: False)
    restored.after_restore()
    made = Image.objects.filter(property_rows__name="instance_uuid")
    assert set(made.values_list("status", flat=True)) <= {"deleted"}
    a.hello()
    a_moment_later()
    assert state_of(server) == ("active", None)
