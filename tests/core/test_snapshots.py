"""Images and backups of servers along the line: made, rotated, and never left half made."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.utils import timezone

from compute_agent.contract.commands import VARIABLES, SnapshotRequest
from compute_agent.contract.firmware_state import PROPERTY, to_property
from compute_agent.contract.messages import Command
from compute_agent.virt.fake import state
from provisioning.common.context import RequestContext, cloud_in_project
from provisioning.common.errors import ForbiddenError, InvalidInputError, UnavailableError
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.lock import lock
from provisioning.compute.actions.reset_state import ResetState
from provisioning.compute.actions.snapshot import create_backup, create_image
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.host_link.guest_spec import guest_spec
from provisioning.compute.models import Instance, InstanceAction, InstanceActionEvent
from provisioning.compute.upkeep import reaper
from provisioning.hosts.models import Host
from provisioning.images import services as images
from provisioning.images.models import Image
from provisioning.quotas.services.limits import set_limit
from tests.support.clouds import Cloud, context, next_request, state_of
from tests.support.scripted_agent import ScriptedAgent
from tests.support.standing import standing


@pytest.fixture
@standing
def host(cloud: Cloud) -> ScriptedAgent:
    return cloud.add_host("h1")


@pytest.fixture
@standing
def server(cloud: Cloud, host: ScriptedAgent, alice: RequestContext) -> Instance:
    return cloud.running(alice)


def snapshot(host: ScriptedAgent) -> tuple[Command, SnapshotRequest]:
    """The order for a snapshot that the host has got."""
    (command,) = host.take()
    assert isinstance(command.body, SnapshotRequest)
    return command, command.body


def status_of(image_id: uuid.UUID) -> str:
    return Image.objects.get(id=image_id).status


def action(server: Instance, name: str) -> InstanceAction:
    return InstanceAction.objects.filter(instance=server, action=name).latest("id")


@pytest.mark.both_databases("locks")
def test_a_snapshot_is_an_image_of_its_own(cloud: Cloud, server: Instance, alice: RequestContext) -> None:
    Image.objects.filter(id=cloud.image.id).update(min_ram=128)
    Instance.objects.filter(id=server.id).update(
        image_properties={"os_distro": "debian", "img_signature": "x", "backup_type": "daily"}
    )
    image_id = create_image(alice, server.id, "copy", {"why": "before the upgrade"})
    assert state_of(server) == ("active", "image_snapshot")
    image = Image.objects.get(id=image_id)
    assert (image.status, image.visibility, image.project_id) == ("queued", "private", alice.project_id)
    assert (image.name, image.min_disk, image.min_ram) == ("copy", 2, 128)
    assert image.properties == {
        "os_distro": "debian",
        "instance_uuid": str(server.id),
        "user_id": alice.user_id.hex,
        "image_type": "snapshot",
        "base_image_ref": str(cloud.image.id),
        "image_location": "snapshot",
        "image_state": "available",
        "owner_id": server.project_id.hex,
        "why": "before the upgrade",
    }
    cloud.run()
    assert state_of(server) == ("active", None)
    image.refresh_from_db()
    assert (image.status, image.disk_format, image.container_format, image.virtual_size) == (
        "active",
        "qcow2",
        "bare",
        1 << 30,
    )
    assert cloud.fresh(server).image_id == cloud.image.id
    done = action(server, "createImage")
    assert (done.message, done.finished_at is not None) == (None, True)
    steps = InstanceActionEvent.objects.filter(action=done).values_list("name", "result")
    assert set(steps) == {(name, "Success") for name in ("api_createImage", "copy_disk", "compute_createImage")}


def test_the_task_says_when_the_copy_goes_to_the_portal(
    cloud: Cloud, host: ScriptedAgent, server: Instance, alice: RequestContext
) -> None:
    create_image(alice, server.id, "copy")
    command, body = snapshot(host)
    host.copied(command)
    assert state_of(server) == ("active", "image_uploading")
    host.send(command, body)
    host.report(command, "finished", power_state=1)
    assert state_of(server) == ("active", None)


def test_variables_of_the_firmware_go_with_the_image(
    cloud: Cloud, host: ScriptedAgent, server: Instance, alice: RequestContext
) -> None:
    said_by_host = to_property({"uefi": b"of the guest"})
    for number, (reported, kept) in enumerate([(said_by_host, True), ("junk", False)]):
        image_id = create_image(alice, server.id, f"copy-{number}")
        command, body = snapshot(host)
        host.send(command, body)
        host.report(command, "finished", power_state=1, detail={VARIABLES: reported})
        assert (Image.objects.get(id=image_id).properties.get(PROPERTY) == reported) is kept
    copy = Image.objects.get(name="copy-0")
    again = cloud.launch(alice, image_id=str(copy.id))
    assert guest_spec(again).image.properties[PROPERTY] == said_by_host
    cloud.run()
    later = create_image(alice, again.id, "of a server with variables")
    assert PROPERTY not in Image.objects.get(id=later).properties


@pytest.mark.parametrize("state", ["stopped", "paused", "suspended"])
def test_a_server_at_rest_has_its_image_made_too(
    cloud: Cloud, server: Instance, alice: RequestContext, state: str
) -> None:
    Instance.objects.filter(id=server.id).update(vm_state=state)
    image_id = create_image(alice, server.id, "copy")
    cloud.run()
    assert (state_of(server), status_of(image_id)) == ((state, None), "active")


def test_a_server_launches_from_what_was_made_of_another(cloud: Cloud, server: Instance, alice: RequestContext) -> None:
    image_id = create_image(alice, server.id, "copy")
    cloud.run()
    again = cloud.launch(alice, image_id=str(image_id))
    cloud.run()
    assert state_of(again) == ("active", None)
    made = create_image(alice, again.id, "copy of the copy")
    assert Image.objects.get(id=made).properties["base_image_ref"] == str(image_id)
    cloud.run()


def test_an_operators_image_of_it_is_shared_with_the_servers_project(
    cloud: Cloud, server: Instance, operator: RequestContext
) -> None:
    image_id = create_image(operator, server.id, "copy")
    image = Image.objects.get(id=image_id)
    assert (image.project_id, image.visibility) == (operator.project_id, "shared")
    assert [member.project_id for member in image.members.all()] == [server.project_id]
    assert image.properties["instance_owner"] == server.project_id.hex
    cloud.run()
    assert status_of(image_id) == "active"


def test_a_busy_server_and_a_host_that_is_down_leave_no_record(
    cloud: Cloud, host: ScriptedAgent, server: Instance, alice: RequestContext
) -> None:
    create_image(alice, server.id, "one")
    before = Image.objects.count()
    with pytest.raises(InstanceBusyError, match=f"Cannot 'createImage' instance {server.id} while it is in task_state"):
        create_image(alice, server.id, "two")
    cloud.run()
    Host.objects.filter(id=host.host.id).update(last_seen_at=timezone.now() - timedelta(hours=1))
    with pytest.raises(UnavailableError):
        create_image(alice, server.id, "three")
    assert Image.objects.count() == before


def test_a_locked_server_may_be_copied(cloud: Cloud, server: Instance, alice: RequestContext) -> None:
    lock(alice, server.id)
    assert status_of(create_image(alice, server.id, "copy")) == "queued"
    cloud.run()


def test_metadata_is_counted_and_checked(server: Instance, alice: RequestContext) -> None:
    set_limit(alice.project_id, "metadata_items", 1)
    with pytest.raises(ForbiddenError, match="Image metadata limit exceeded"):
        create_image(alice, server.id, "copy", {"a": "1", "b": "2"})
    with pytest.raises(InvalidInputError):
        create_image(alice, server.id, "copy", {"status": "active"})
    assert state_of(server) == ("active", None)


# ----- when it goes wrong ---------------------------------------------------------------------------------------------


def fails(server: Instance, image_id: uuid.UUID, message: str) -> None:
    assert state_of(server) == ("active", None)
    assert status_of(image_id) == "deleted"
    assert action(server, "createImage").message == message


def test_a_host_that_cannot_do_it_leaves_no_image(
    cloud: Cloud, host: ScriptedAgent, server: Instance, alice: RequestContext
) -> None:
    image_id = create_image(alice, server.id, "copy")
    command, _ = snapshot(host)
    host.report(command, "failed", error_code="host_failed", message="The host has no room.")
    fails(server, image_id, "The host has no room.")


def test_a_host_that_says_so_without_sending_anything_is_not_believed(
    cloud: Cloud, host: ScriptedAgent, server: Instance, alice: RequestContext
) -> None:
    image_id = create_image(alice, server.id, "copy")
    command, _ = snapshot(host)
    host.report(command, "finished", power_state=1)
    fails(server, image_id, "The image was deleted, or its upload failed.")


def test_an_image_deleted_meanwhile_ends_the_action_and_takes_no_data(
    cloud: Cloud, host: ScriptedAgent, server: Instance, alice: RequestContext
) -> None:
    image_id = create_image(alice, server.id, "copy")
    images.delete(alice, image_id)
    command, body = snapshot(host)
    host.copied(command)
    with pytest.raises(Exception, match="no command that needs this image"):
        host.send(command, body)
    host.report(
        command, "failed", error_code="image_send_failed", message="The host has no command that needs this image."
    )
    fails(server, image_id, "The host has no command that needs this image.")


def overdue(server: Instance) -> None:
    Instance.objects.filter(id=server.id).update(task_deadline=timezone.now() - timedelta(seconds=1))
    reaper.reap()


def test_a_silent_host_ends_it_at_the_deadline(
    cloud: Cloud, host: ScriptedAgent, server: Instance, alice: RequestContext
) -> None:
    image_id = create_image(alice, server.id, "copy")
    command, body = snapshot(host)
    host.copied(command)
    overdue(server)
    assert state_of(server) == ("active", None)
    assert status_of(image_id) == "deleted"
    with pytest.raises(Exception, match="no command that needs this image"):
        host.send(command, body)
    host.report(command, "finished", power_state=1)
    assert state_of(server) == ("active", None)


def test_an_image_whose_data_came_is_kept_whatever_its_host_says_later(
    cloud: Cloud, host: ScriptedAgent, server: Instance, alice: RequestContext
) -> None:
    image_id = create_image(alice, server.id, "copy")
    command, body = snapshot(host)
    host.send(command, body)
    overdue(server)
    assert (state_of(server), status_of(image_id)) == (("active", None), "active")
    assert action(server, "createImage").message is None


@pytest.mark.parametrize("how", ["delete", "reset"])
def test_a_delete_or_a_reset_in_the_middle_takes_the_image_along(
    cloud: Cloud, host: ScriptedAgent, server: Instance, alice: RequestContext, operator: RequestContext, how: str
) -> None:
    image_id = create_image(alice, server.id, "copy")
    host.take()
    if how == "delete":
        delete(alice, server.id)
    else:
        ResetState.begin(operator, server.id, "active")
    assert status_of(image_id) == "deleted"
    cloud.run()
    assert state_of(server) == (("deleted", None) if how == "delete" else ("active", None))


def test_a_delete_keeps_an_image_that_is_there(
    cloud: Cloud, host: ScriptedAgent, server: Instance, alice: RequestContext
) -> None:
    image_id = create_image(alice, server.id, "copy")
    command, body = snapshot(host)
    host.send(command, body)
    delete(alice, server.id)
    cloud.run()
    assert (state_of(server), status_of(image_id)) == (("deleted", None), "active")


def test_data_that_is_no_disk_is_refused_and_the_image_waits_for_better(
    cloud: Cloud, host: ScriptedAgent, server: Instance, alice: RequestContext
) -> None:
    image_id = create_image(alice, server.id, "copy")
    command, body = snapshot(host)
    image = Image.objects.get(id=image_id)
    with pytest.raises(InvalidInputError):
        images.upload(cloud_in_project(image.project_id), image_id, [b"no disk at all" * 100])
    assert status_of(image_id) == "queued"
    host.send(command, body)
    host.report(command, "finished", power_state=1)
    assert (state_of(server), status_of(image_id)) == (("active", None), "active")


# ----- backups --------------------------------------------------------------------------------------------------------


def backups(cloud: Cloud, server: Instance, caller: RequestContext, names: str, rotation: int) -> list[uuid.UUID]:
    made = []
    for name in names:
        made.append(create_backup(next_request(caller), server.id, name, "daily", rotation))
        assert state_of(server) == ("active", "image_backup")
        cloud.run()
        assert state_of(server) == ("active", None)
    return made


def kept() -> list[str]:
    rows = Image.objects.filter(properties__image_type="backup").exclude(status="deleted").order_by("created_at")
    return list(rows.values_list("name", flat=True))


@pytest.mark.slow
def test_backups_beyond_the_rotation_go_the_oldest_first(cloud: Cloud, server: Instance, alice: RequestContext) -> None:
    made = backups(cloud, server, alice, "abcd", 2)
    assert kept() == ["c", "d"]
    properties = Image.objects.get(id=made[-1]).properties
    assert (properties["image_type"], properties["backup_type"]) == ("backup", "daily")
    assert action(server, "createBackup").message is None


@pytest.mark.slow
def test_rotation_counts_one_server_and_one_type_alone(cloud: Cloud, server: Instance, alice: RequestContext) -> None:
    other = cloud.launch(alice)
    cloud.run()
    backups(cloud, other, alice, "x", 1)
    create_backup(alice, server.id, "weekly", "weekly", 1)
    cloud.run()
    snapshot_id = create_image(alice, server.id, "snapshot")
    cloud.run()
    backups(cloud, server, alice, "ab", 1)
    assert kept() == ["x", "weekly", "b"]
    assert status_of(snapshot_id) == "active"


@pytest.mark.slow
def test_rotation_none_keeps_nothing(cloud: Cloud, server: Instance, alice: RequestContext) -> None:
    backups(cloud, server, alice, "ab", 2)
    backups(cloud, server, alice, "c", 0)
    assert kept() == []


@pytest.mark.slow
def test_a_protected_backup_stays(cloud: Cloud, server: Instance, alice: RequestContext) -> None:
    (first,) = backups(cloud, server, alice, "a", 1)
    images.update(alice, first, {"protected": True})
    backups(cloud, server, alice, "bc", 1)
    assert kept() == ["a", "c"]


def test_a_failed_backup_rotates_nothing(
    cloud: Cloud, host: ScriptedAgent, server: Instance, alice: RequestContext
) -> None:
    backups(cloud, server, alice, "a", 1)
    create_backup(next_request(alice), server.id, "b", "daily", 1)
    command, _ = snapshot(host)
    host.report(command, "failed", error_code="host_failed", message="No.")
    assert kept() == ["a"]
    assert action(server, "createBackup").message == "No."


def test_an_upload_that_is_not_ordered_is_nobodys_right(
    cloud: Cloud, host: ScriptedAgent, server: Instance, alice: RequestContext
) -> None:
    other = cloud.add_host("h2")
    create_image(alice, server.id, "copy")
    command, body = snapshot(host)
    for agent, named in (
        (other, body),
        (host, SnapshotRequest(image_id=str(cloud.image.id))),
        (host, SnapshotRequest(image_id=str(uuid.uuid4()))),
    ):
        with pytest.raises(Exception, match="no command that needs this image"):
            agent.send(command, named)
    host.send(command, body)
    host.report(command, "finished", power_state=1)


def test_an_empty_disk_of_a_simulated_host_is_whole() -> None:
    assert len(state.qcow2(20 << 30)) == 4 * state.CLUSTER


def test_other_projects_servers_are_not_there(server: Instance) -> None:
    with pytest.raises(Exception, match="could not be found"):
        create_image(context("charlie"), server.id, "copy")
