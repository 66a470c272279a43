"""Volumes that the guest agent mounts and extends: the dialogs, and what the tab of disks shows of the work."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from compute_agent.contract.calls import CallError, CallResult
from compute_agent.contract.guest_disks import ExtendFileSystemRequest, InspectedDisk, MountDiskRequest
from compute_agent.contract.messages import Command
from provisioning.compute.actions.guest_disks import MountVolume, VolumeToMount
from provisioning.compute.models import Instance, InstanceAction
from provisioning.hosts import calls
from provisioning.volumes import services
from provisioning.volumes.models import Volume
from provisioning.volumes.records.requests import VolumeRequest
from tests.dashboard.conftest import SignedIn
from tests.support.cast import Person
from tests.support.clouds import Cloud
from tests.support.standing import standing

EMPTY = InspectedDisk("/dev/vdb", "empty")
EXT4 = InspectedDisk("/dev/vdb", "filesystem", "ext4")
MOUNTED = InspectedDisk("/dev/vdb", "filesystem", "ext4", "/mnt/data")


@pytest.fixture
@standing
def server(cloud: Cloud, alice: Person, at_alice: Client) -> Instance:
    """A running server with a guest agent and an attached volume."""
    cloud.agents["host-1"].serve()
    server = cloud.running(alice.context, name="web")
    Instance.objects.filter(id=server.id).update(image_properties={"hw_qemu_guest_agent": "yes"})
    services.Create.begin(alice.context, VolumeRequest(size_gb=1, name="data"))
    cloud.run()
    at_alice.post(f"/volumes/{Volume.objects.get().id}/attach/", {"server": str(server.id)})
    cloud.run()
    return server


@pytest.fixture
def guest(monkeypatch: pytest.MonkeyPatch) -> dict[str, CallResult]:
    """The answer of the guest to a call."""
    answers: dict[str, CallResult] = {"answer": EMPTY}
    monkeypatch.setattr(calls, "call", lambda *_, **__: answers["answer"])
    return answers


def mount_of(server: Instance) -> str:
    return f"/instances/{server.id}/volumes/{Volume.objects.get().id}/mount/"


def extend_of(server: Instance) -> str:
    return f"/instances/{server.id}/volumes/{Volume.objects.get().id}/extend-file-system/"


def tab(client: Client, server: Instance) -> str:
    return client.get(f"/instances/{server.id}/disks/").content.decode()


def ordered(cloud: Cloud) -> Command:
    """The one command that the host has been given."""
    [command] = cloud.agents["host-1"].take()
    return command


@pytest.mark.parametrize(
    ("found", "text"),
    [(EMPTY, "will be formatted with ext4"), (EXT4, "which is kept")],
)
def test_the_dialog_says_before_what_is_done(
    at_alice: Client, server: Instance, guest: Any, found: InspectedDisk, text: str
) -> None:
    guest["answer"] = found
    assert mount_of(server) in tab(at_alice, server)
    shown = at_alice.get(mount_of(server)).content.decode()
    assert text in shown
    assert 'value="/mnt/data"' in shown
    assert "/dev/vdb" in shown


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (InspectedDisk("/dev/vdb", "other", "LVM2_member"), "LVM2_member"),
        (InspectedDisk("/dev/vdb", "other"), "not a file system"),
        (MOUNTED, "already mounted at"),
        (CallError("guest_programs_disabled", "secret"), "guest-exec is disabled"),
        (CallError("unsupported", "secret"), "does not answer"),
        (CallError("guest_disk", "secret"), "could not examine"),
    ],
)
def test_a_disk_that_cannot_be_mounted_gets_no_form(
    at_alice: Client, server: Instance, guest: Any, found: CallResult, text: str
) -> None:
    guest["answer"] = found
    shown = at_alice.get(mount_of(server), follow=True).content.decode()
    assert text in shown
    assert 'name="directory"' not in shown
    assert "secret" not in shown
    assert 'data-testid="mount-commands"' in shown


def test_a_wrong_directory_keeps_the_announcement_of_formatting(at_alice: Client, server: Instance, guest: Any) -> None:
    answer = at_alice.post(mount_of(server), {"directory": "relative/../x"})
    assert (answer.status_code, "be formatted with ext4" in answer.content.decode()) == (422, True)


def test_a_guest_s_texts_are_bounded_and_escaped(at_alice: Client, server: Instance, guest: Any) -> None:
    guest["answer"] = InspectedDisk("<b>\n" + "x" * 9999, "filesystem", "<i>" * 99)
    shown = at_alice.get(mount_of(server)).content.decode()
    assert "<b>" not in shown
    assert "<i>" not in shown
    assert "x" * 255 not in shown


def test_progress_and_result_are_shown_at_the_volume(
    at_alice: Client, cloud: Cloud, server: Instance, guest: Any
) -> None:
    assert at_alice.post(mount_of(server), {"directory": "/srv/data/"}).status_code == 303
    command = ordered(cloud)
    assert isinstance(command.body, MountDiskRequest)
    volume = str(Volume.objects.get().id)
    assert (command.body.serial, command.body.directory) == (volume, "/srv/data")
    assert "It is being mounted" in tab(at_alice, server)
    assert mount_of(server) not in tab(at_alice, server)
    cloud.agents["host-1"].report(command, "failed", error_code="guest_disk", message="<b>It is full.")
    shown = tab(at_alice, server)
    assert "It was not mounted: <bdi>&lt;b&gt;It is full.</bdi>" in shown
    assert at_alice.post(mount_of(server), {"directory": "/srv/data"}).status_code == 303
    cloud.agents["host-1"].carry_out(ordered(cloud))
    shown = tab(at_alice, server)
    assert "The guest agent has mounted it." in shown
    assert 'id="instance-mounts-1"' in shown, "the mounted file systems are read again"
    assert not InstanceAction.objects.filter(instance=server, finished_at=None).exists()


def test_only_a_mounted_file_system_is_extended(at_alice: Client, cloud: Cloud, server: Instance, guest: Any) -> None:
    assert "is not mounted" in at_alice.get(extend_of(server), follow=True).content.decode()
    guest["answer"] = MOUNTED
    shown = at_alice.get(extend_of(server)).content.decode()
    assert "/mnt/data" in shown
    assert "1 GiB" in shown
    assert at_alice.post(extend_of(server)).status_code == 303
    command = ordered(cloud)
    assert isinstance(command.body, ExtendFileSystemRequest)
    cloud.agents["host-1"].carry_out(command)
    assert "The guest agent has extended its file system." in tab(at_alice, server)


@pytest.mark.parametrize(
    "directory", ["", "data", "/", "/etc", "/srv/../etc", "/srv/a b", "/srv/$(id)", "/" + "x" * 200]
)
def test_a_wrong_directory_is_named_at_its_field(
    at_alice: Client, cloud: Cloud, server: Instance, guest: Any, directory: str
) -> None:
    answer = at_alice.post(mount_of(server), {"directory": directory})
    assert answer.status_code == 422
    assert 'aria-invalid="true"' in answer.content.decode()
    assert cloud.agents["host-1"].take() == []


def test_who_may_and_when(
    signed_in: SignedIn, at_alice: Client, bob: Person, charlie: Person, cloud: Cloud, server: Instance, guest: Any
) -> None:
    assert mount_of(server) not in tab(signed_in(bob), server)
    for person, status in ((bob, 403), (charlie, 404)):
        for address in (mount_of(server), extend_of(server)):
            assert signed_in(person).post(address, {"directory": "/srv"}).status_code == status
    Instance.objects.filter(id=server.id).update(image_properties={})
    assert mount_of(server) not in tab(at_alice, server)
    assert "has no guest agent" in at_alice.get(mount_of(server), follow=True).content.decode()
    assert at_alice.post(mount_of(server), {"directory": "/srv/data"}).status_code == 422
    Instance.objects.filter(id=server.id).update(image_properties={"hw_qemu_guest_agent": "yes"}, vm_state="stopped")
    assert at_alice.post(mount_of(server), {"directory": "/srv/data"}).status_code == 422
    assert cloud.agents["host-1"].take() == []


def test_a_second_one_waits_for_the_first(
    at_alice: Client, alice: Person, cloud: Cloud, server: Instance, guest: Any
) -> None:
    MountVolume.begin(alice.context, server.id, VolumeToMount(str(Volume.objects.get().id), "/srv/data"))
    answer = at_alice.post(mount_of(server), {"directory": "/srv/more"})
    assert answer.status_code == 422
    assert len(cloud.agents["host-1"].take()) == 1
