"""Volumes that guests have by attachments which were lost with records: their servers get them back."""

from __future__ import annotations

import pytest

from compute_agent.contract.commands import DetachVolumeRequest
from compute_agent.contract.messages import GuestState
from provisioning.compute.models import BlockDevice
from provisioning.hosts import audits, restored
from provisioning.hosts.models import Host
from provisioning.volumes.models import Attachment, Volume
from tests.compute_api.conftest import V21, launch, new_volume
from tests.compute_api.test_volumes import attach, cloud, status
from tests.core.doctor.findings import look
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.copies import Copy
from tests.support.landing import diagonal
from tests.support.scripted_pool import ScriptedPool

pytestmark = pytest.mark.slow

__all__ = ["cloud"]


@pytest.fixture(autouse=True)
def _nobody_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restored, "_is_anybody_working", lambda: False)


def audit(cloud: Cloud, server: str, *volumes: Volume, complete: bool = True, host: str = "h1") -> None:
    """Let the host say which volumes the server's guest has."""
    agent = cloud.agents[host]
    attempt, power = agent.guests[server]
    has = [str(volume.id) for volume in volumes]
    guest = GuestState(instance_id=server, attempt=attempt, power_state=power, volumes=has)
    audits.compare(agent.host.id, [guest], complete=complete)


def taken_out(cloud: Cloud) -> list[str]:
    commands = cloud.agents["h1"].take()
    return [each.body.disk.id for each in commands if isinstance(each.body, DetachVolumeRequest)]


@pytest.mark.both_databases
@pytest.mark.doctor_finds("newer_volumes")
@pytest.mark.parametrize("notified", [False, True], ids=["without the command", "after_restore"])
def test_a_volume_attached_since_the_copy_is_its_servers_again(
    api: Api, cloud: Cloud, people: People, *, notified: bool, server: str, volume: Volume
) -> None:
    agent = cloud.agents["h1"]
    copy = Copy()
    attach(api, server, volume)
    cloud.run()
    opened = Attachment.objects.get().connection
    copy.put_back()
    if notified:
        restored.after_restore()
    agent.hello(volumes=agent.memory.listed())
    assert Attachment.objects.get().instance_id is None
    audit(cloud, server, volume)
    row = Attachment.objects.get()
    assert (str(row.instance_id), row.exclusive, row.connector) == (server, True, {})
    assert BlockDevice.objects.get().device_name == "/dev/vdb"
    assert any(server in finding.sentence for finding in look("newer_volumes"))
    listed = api.get(f"{V21}/servers/{server}/os-volume_attachments").json()["volumeAttachments"]
    assert [each["volumeId"] for each in listed] == [str(volume.id)]
    cloud.run()
    (row,) = Attachment.objects.all()
    assert (row.connection["socket"], row.status) == (opened["socket"], "attached"), "a guest made again opens it"
    assert api.delete(f"{V21}/servers/{server}/os-volume_attachments/{volume.id}").status_code == 202
    cloud.run()
    assert (status(volume), BlockDevice.objects.count()) == ("available", 0)


@pytest.mark.doctor_finds("newer_volumes")
def test_a_volume_attached_again_since_the_copy_has_one_disk(
    api: Api, cloud: Cloud, people: People, server: str, volume: Volume
) -> None:
    agent = cloud.agents["h1"]
    attach(api, server, volume)
    cloud.run()
    copy = Copy()
    api.delete(f"{V21}/servers/{server}/os-volume_attachments/{volume.id}")
    cloud.run()
    attach(api, server, volume)
    cloud.run()
    lost = Attachment.objects.get().id
    copy.put_back()
    agent.hello(volumes=agent.memory.listed())
    audit(cloud, server, volume)
    cloud.run()
    audit(cloud, server, volume)
    assert (Attachment.objects.get().id, BlockDevice.objects.get().attachment_id) == (lost, lost)
    assert status(volume) == "in-use"


def test_a_volume_that_the_records_never_gave_a_server_is_not_taken_out(
    api: Api, cloud: Cloud, people: People, server: str, volume: Volume
) -> None:
    """Its data's host has not said yet which attachment is open."""
    audit(cloud, server, volume)
    assert taken_out(cloud) == []


@pytest.mark.parametrize("detached", [True, False])
def test_nothing_is_taken_out_before_the_volumes_host_has_been_heard_after_a_restore(
    api: Api, cloud: Cloud, people: People, *, detached: bool
) -> None:
    """The records know the volume as one that was detached, or as another server's."""
    server, other, volume = launch(api, cloud), launch(api, cloud), new_volume(people, cloud)
    had = server if detached else other
    attach(api, had, volume)
    cloud.run()
    if detached:
        api.delete(f"{V21}/servers/{had}/os-volume_attachments/{volume.id}")
        cloud.run()
    restored.after_restore()
    audit(cloud, server, volume)
    assert taken_out(cloud) == []


def test_a_volume_that_was_detached_by_these_records_is_taken_out(
    api: Api, cloud: Cloud, people: People, server: str, volume: Volume
) -> None:
    attach(api, server, volume)
    cloud.run()
    api.delete(f"{V21}/servers/{server}/os-volume_attachments/{volume.id}")
    cloud.run()
    audit(cloud, server, volume)
    assert taken_out(cloud) == [str(volume.id)]


def test_a_volume_that_another_server_has_open_is_taken_out(api: Api, cloud: Cloud, people: People) -> None:
    server, other, volume = launch(api, cloud), launch(api, cloud), new_volume(people, cloud)
    attach(api, other, volume)
    cloud.run()
    audit(cloud, server, volume)
    assert taken_out(cloud) == [str(volume.id)]


@pytest.mark.doctor_finds("newer_volumes")
def test_a_host_does_not_give_a_server_another_projects_volume(
    api: Api, cloud: Cloud, people: People, server: str, volume: Volume
) -> None:
    agent = cloud.agents["h1"]
    copy = Copy()
    attach(api, server, volume)
    cloud.run()
    copy.put_back()
    Volume.objects.update(project_id=people.bob.context.user_id)
    agent.hello(volumes=agent.memory.listed())
    audit(cloud, server, volume)
    assert Attachment.objects.get().instance_id is None
    assert not BlockDevice.objects.exists()


@pytest.mark.both_databases
@pytest.mark.doctor_finds("newer_volumes")
@diagonal(first=["h1", "h2"], notified=[False, True])
def test_a_volume_attached_on_another_host_since_the_copy_is_its_servers_again(
    api: Api, cloud: Cloud, people: People, first: str, *, notified: bool
) -> None:
    """In a shared pool: the copy has it on h1."""
    volume, pool = new_volume(people, cloud), next(iter(cloud.agents["h1"].pools.values()))
    pool.shared = True
    cloud.agents["h1"].measured()
    before = launch(api, cloud)
    cloud.add_host("h2").serve(ScriptedPool(id=pool.id, shared=True, secret=pool.secret))
    Host.objects.filter(name="h1").update(enabled=False)
    server = launch(api, cloud)
    attach(api, before, volume)
    cloud.run()
    copy = Copy()
    api.delete(f"{V21}/servers/{before}/os-volume_attachments/{volume.id}")
    cloud.run()
    attach(api, server, volume)
    cloud.run()
    lost = Attachment.objects.get()
    copy.put_back()
    if notified:
        restored.after_restore()
    for name in sorted(cloud.agents, reverse=first == "h2"):
        cloud.agents[name].hello(volumes=cloud.agents[name].memory.listed())
    audit(cloud, server, volume, host="h2")
    cloud.run()
    row = Attachment.objects.get(id=lost.id)
    assert (str(row.instance_id), row.status) == (server, "attached")
    assert row.connection["socket"] == lost.connection["socket"], "a guest made again opens it"
    listed = api.get(f"{V21}/servers/{server}/os-volume_attachments").json()["volumeAttachments"]
    assert [each["volumeId"] for each in listed] == [str(volume.id)]
    for name in (before, server):
        answer = api.delete(f"{V21}/servers/{name}/os-volume_attachments/{volume.id}")
        assert answer.status_code == 202, answer.content
        cloud.run()
    assert (status(volume), BlockDevice.objects.count()) == ("available", 0)
