"""Volumes: made, attached from both sides, grown, snapshotted and given away, and who may do what."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from portal.dashboard.live import render
from portal.dashboard.volumes.rows import row_of
from portal.dashboard.words.wording import Progress, progress, size_in_bytes
from provisioning.compute.models import Instance
from provisioning.events import selectors as events
from provisioning.volumes import services
from provisioning.volumes.models import Attachment, Group, GroupType, Snapshot, Volume, VolumeType
from provisioning.volumes.records.holds import HELD_BY
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.states import VolumeStatus
from tests.dashboard.conftest import SignedIn, offered
from tests.support.cast import Person
from tests.support.clouds import Cloud
from tests.support.scripted_agent import ScriptedAgent
from tests.support.standing import standing


@pytest.fixture
@standing
def agent(cloud: Cloud) -> ScriptedAgent:
    """The host with a pool, which it has said."""
    agent = cloud.agents["host-1"]
    agent.serve()
    return agent


@pytest.fixture
@standing
def volume(agent: ScriptedAgent, alice: Person) -> Volume:
    return made(agent, alice, name="<data>")


@pytest.fixture
@standing
def server(cloud: Cloud, agent: ScriptedAgent, alice: Person) -> Instance:
    return cloud.running(alice.context, name="web")


def made(agent: ScriptedAgent, person: Person, size: int = 2, **asked: Any) -> Volume:
    volume = services.Create.begin(person.context, VolumeRequest(size_gb=size, **asked))
    agent.work()
    return Volume.objects.get(id=volume.id)


def page_of(client: Client, volume: Volume) -> str:
    return client.get(f"/volumes/{volume.id}/").content.decode()


@pytest.mark.slow
def test_a_form_makes_a_volume_of_what_is_chosen(at_alice: Client, alice: Person, agent: ScriptedAgent) -> None:
    page = at_alice.get("/volumes/create/")
    assert offered(page, "source")[0] == "Nothing"
    answer = at_alice.post("/volumes/create/", {"name": "data", "source": "empty", "size": "3"})
    agent.work()
    first = Volume.objects.get(project_id=alice.project_id)
    assert answer["Location"] == f"/volumes/{first.id}/"
    assert (first.name, first.size_gb, first.status) == ("data", 3, "available")
    assert "data" in at_alice.get("/volumes/").content.decode()

    filled = at_alice.get(f"/volumes/create/?volume={first.id}").context["form"]
    assert (filled["source"].value(), filled["volume"].value(), filled["size"].value()) == ("volume", str(first.id), 3)
    at_alice.post("/volumes/create/", {"source": "volume", "volume": str(first.id), "size": ""})
    assert Volume.objects.get(source_volume_id=first.id).size_gb == 3


def test_why_a_volume_failed_stands_on_its_page_and_only_there(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    answer = at_alice.post("/volumes/create/", {"name": "data", "source": "empty", "size": "3"}, follow=True)
    page = answer.content.decode()
    assert Volume.objects.get().status == "error"
    assert page.count("No storage pool has space for it: ") == 1, "in its panel, and in no toast"
    assert "data could not be created." in page.partition('id="toasts"')[2], "what the page before said"


def test_what_is_wrong_with_a_new_volume_stands_at_its_field(at_alice: Client, agent: ScriptedAgent) -> None:
    answer = at_alice.post("/volumes/create/", {"source": "empty", "size": ""})
    assert answer.status_code == 422
    assert "size" in answer.context["form"].errors
    assert (
        "Ensure this value" not in at_alice.post("/volumes/create/", {"source": "empty", "size": "-5"}).content.decode()
    )
    assert Volume.objects.count() == 0


def test_names_are_text_and_a_volume_is_edited_and_grown(
    at_alice: Client, agent: ScriptedAgent, volume: Volume
) -> None:
    shown = page_of(at_alice, volume)
    assert "&lt;data&gt;" in shown
    assert "<data>" not in shown
    at_alice.post(f"/volumes/{volume.id}/edit/", {"name": "logs", "description": "", "bootable": "on"})
    at_alice.post(f"/volumes/{volume.id}/extend/", {"size": "4"})
    agent.work()
    volume.refresh_from_db()
    assert (volume.name, volume.bootable, volume.read_only, volume.size_gb) == ("logs", True, False, 4)
    answer = at_alice.post(f"/volumes/{volume.id}/extend/", {"size": "1"})
    assert answer.status_code == 422
    assert "size" in answer.context["form"].errors


@pytest.mark.slow
def test_a_volume_is_attached_and_detached_from_both_sides(
    at_alice: Client, cloud: Cloud, volume: Volume, server: Instance
) -> None:
    assert offered(at_alice.get(f"/volumes/{volume.id}/attach/"), "server") == [server.name]
    at_alice.post(f"/volumes/{volume.id}/attach/", {"server": str(server.id)})
    cloud.run()
    volume.refresh_from_db()
    assert volume.status == "in-use"
    assert server.name in page_of(at_alice, volume)
    there = at_alice.get(f"/instances/{server.id}/disks/").content.decode()
    assert f"/volumes/{volume.id}/detach/{server.id}/?from=server" in there
    assert f"disk=/dev/disk/by-id/virtio-{str(volume.id)[:20]}" in there
    assert f'<details id="guide-{volume.id}" class="inner" open>' in there  # it was attached a moment ago

    answer = at_alice.post(f"/volumes/{volume.id}/detach/{server.id}/?from=server")
    assert answer["Location"] == f"/instances/{server.id}/disks/"
    cloud.run()
    volume.refresh_from_db()
    assert volume.status == "available"
    at_alice.post(f"/instances/{server.id}/volumes/attach/", {"volume": str(volume.id)})
    cloud.run()
    volume.refresh_from_db()
    assert volume.status == "in-use"


def test_a_volume_of_another_project_names_its_owner(
    signed_in: SignedIn, at_alice: Client, alice: Person, operator: Person, volume: Volume
) -> None:
    owner = f"Owned by project <bdi>{alice.project.name}</bdi>"
    assert owner not in at_alice.get(f"/volumes/{volume.id}/").content.decode()
    assert owner in signed_in(operator).get(f"/volumes/{volume.id}/").content.decode()


@pytest.mark.slow
def test_an_operator_sees_an_instance_of_others_with_its_volumes(
    signed_in: SignedIn, at_alice: Client, operator: Person, cloud: Cloud, volume: Volume, server: Instance
) -> None:
    """The page of an instance with a volume was an error for operators in another project."""
    at_alice.post(f"/volumes/{volume.id}/attach/", {"server": str(server.id)})
    cloud.run()
    site = signed_in(operator)
    there = site.get(f"/instances/{server.id}/disks/").content.decode()
    assert f'href="/volumes/{volume.id}/"' in there
    address = f"/volumes/{volume.id}/detach/{server.id}/?from=server"
    assert address in there
    assert site.post(address).status_code == 303
    cloud.run()
    volume.refresh_from_db()
    assert volume.status == "available"


def test_a_button_is_there_in_the_statuses_in_which_its_task_may_start(alice: Person, volume: Volume) -> None:
    tasks = {
        "can_extend": services.Extend,
        "can_snapshot": services.CreateSnapshot,
        "can_retype": services.Retype,
        "can_delete": services.Delete,
    }
    for status in VolumeStatus:
        volume.status = status
        row = row_of(alice.context, volume, {})
        assert {name: row[name] for name in tasks} == {name: status in task.legal_from for name, task in tasks.items()}


@pytest.mark.slow
def test_what_cannot_be_done_to_a_volume_is_reported_instead_of_asked(
    at_alice: Client, alice: Person, cloud: Cloud, volume: Volume
) -> None:
    services.set_bootable(alice.context, volume.id, bootable=True)
    launch = at_alice.get(f"/instances/launch/?volume={volume.id}").context["form"]
    typed = {name: launch[name].value() for name in ("flavor", "networks", "boot_from")}
    at_alice.post("/instances/launch/", {"name": "web", **typed})
    cloud.run()
    server = Instance.objects.get(name="web")
    assert f"/volumes/{volume.id}/detach/" not in page_of(at_alice, volume)
    for path in ("delete/", "attach/", f"detach/{server.id}/"):
        answer = at_alice.get(f"/volumes/{volume.id}/{path}", follow=True)
        assert answer.redirect_chain == [(f"/volumes/{volume.id}/", 303)], path
        assert [each.level_tag for each in answer.context["messages"]] == ["error"], path

    group_type = GroupType.objects.create(name="kind")
    group = Group.objects.create(group_type=group_type, project_id=alice.project_id, user_id=alice.user_id)
    other = made(cloud.agents["host-1"], alice)
    Volume.objects.filter(id=other.id).update(group=group)
    answer = at_alice.get(f"/volumes/{other.id}/delete/", follow=True)
    assert f"belongs to group {group.id}" in next(iter(answer.context["messages"])).message

    Volume.objects.filter(id=volume.id).update(status="available")  # as an operator resets it
    answer = at_alice.get(f"/volumes/{volume.id}/attach/", follow=True)
    assert str(server.id) in next(iter(answer.context["messages"])).message


@pytest.mark.slow
def test_snapshots_are_taken_and_begin_new_volumes(
    at_alice: Client, alice: Person, agent: ScriptedAgent, volume: Volume
) -> None:
    at_alice.post(f"/volumes/{volume.id}/snapshot/", {"name": "monday", "description": ""})
    agent.work()
    snapshot = Snapshot.objects.get()
    assert (snapshot.name, snapshot.status) == ("monday", "available")
    assert "monday" in at_alice.get("/volume-snapshots/").content.decode()
    assert "monday" in page_of(at_alice, volume)
    chosen = at_alice.get(f"/volumes/create/?snapshot={snapshot.id}").context["form"]
    assert chosen["snapshot"].value() == str(snapshot.id)
    at_alice.post(f"/volume-snapshots/{snapshot.id}/revert/")
    volume.refresh_from_db()
    assert volume.status == "reverting"
    agent.work()
    at_alice.post(f"/volume-snapshots/{snapshot.id}/delete/")
    agent.work()
    assert Snapshot.objects.count() == 0


def test_a_volume_goes_with_its_snapshots_after_a_question(
    at_alice: Client, agent: ScriptedAgent, volume: Volume
) -> None:
    at_alice.post(f"/volumes/{volume.id}/snapshot/", {"name": "one", "description": ""})
    agent.work()
    assert "Its snapshot is deleted with it" in at_alice.get(f"/volumes/{volume.id}/delete/").content.decode()
    at_alice.post(f"/volumes/{volume.id}/delete/")
    agent.work()
    assert Volume.objects.count() == 0


def test_a_volume_is_handed_over_with_a_key_that_is_shown_once(
    at_alice: Client, signed_in: SignedIn, charlie: Person, agent: ScriptedAgent, volume: Volume
) -> None:
    offer = at_alice.post(f"/volumes/{volume.id}/hand-over/", {"name": "", "with_snapshots": "on"})
    key, transfer = offer.context["key"], offer.context["transfer"]
    assert key in offer.content.decode()
    assert "no-store" in offer.headers["Cache-Control"]
    assert key not in page_of(at_alice, volume)
    at_charlie = signed_in(charlie)
    wrong = at_charlie.post("/volumes/accept/", {"transfer_id": str(transfer.id), "key": "x"})
    assert wrong.status_code == 422
    at_charlie.post("/volumes/accept/", {"transfer_id": str(transfer.id), "key": key})
    volume.refresh_from_db()
    assert (volume.project_id, volume.status) == (charlie.project_id, "available")
    assert at_alice.get(f"/volumes/{volume.id}/").status_code == 404


def test_a_volume_changes_its_type(at_alice: Client, agent: ScriptedAgent, volume: Volume) -> None:
    other = VolumeType.objects.create(name="other")
    requested = {"volume_type": str(other.id)}
    assert at_alice.post(f"/volumes/{volume.id}/retype/", requested).status_code == 303
    agent.work()
    volume.refresh_from_db()
    assert (volume.volume_type, volume.status) == (other, "available")
    assert at_alice.post(f"/volumes/{volume.id}/retype/", {"volume_type": "none such"}).status_code == 422


def test_a_dialog_without_a_choice_has_no_button(at_alice: Client, volume: Volume) -> None:
    retype = f"/volumes/{volume.id}/retype/"
    assert volume.volume_type is None
    VolumeType.objects.all().delete()
    for page in (at_alice.get(retype, headers={"HX-Request": "true"}), at_alice.get(retype)):
        content = page.content.decode()
        assert "There is no other type." in content
        assert "<select" not in content.partition("<form")[2]
        assert ">Change type</button>" not in content
    VolumeType.objects.create(name="other")
    assert ">Change type</button>" in at_alice.get(retype, headers={"HX-Request": "true"}).content.decode()


def test_others_see_nothing_of_it(signed_in: SignedIn, charlie: Person, agent: ScriptedAgent, volume: Volume) -> None:
    at_charlie = signed_in(charlie)
    for path in ("", "edit/", "extend/", "attach/", "snapshot/", "back-up/", "delete/", "hand-over/", "retype/"):
        assert at_charlie.get(f"/volumes/{volume.id}/{path}").status_code == 404, path
    assert str(volume.id) not in at_charlie.get("/volumes/").content.decode()


def test_the_page_follows_and_bars_grow_by_bytes(
    at_alice: Client, alice: Person, agent: ScriptedAgent, volume: Volume
) -> None:
    seen = events.latest_id()
    services.Extend.begin(alice.context, volume.id, 5)
    Volume.objects.filter(id=volume.id).update(progress_bytes=2**30, progress_total=2**32)
    happened = events.since([f"project:{alice.project_id}"], seen)
    sent = render(f"volume/{volume.id}", happened, alice.context)
    assert "Growing" in sent
    assert 'value="25"' in sent
    assert "Growing" in render("volumes", happened, alice.context)


def test_a_volume_that_is_kept_for_a_guest_without_a_record_is_named(
    at_alice: Client, agent: ScriptedAgent, volume: Volume
) -> None:
    Attachment.objects.create(
        volume=volume,
        project_id=volume.project_id,
        host=agent.host,
        status="attached",
        connector={HELD_BY: str(agent.host.id)},
        connection={"export": str(volume.id)},
    )
    assert "an instance without a record" in page_of(at_alice, volume)


def test_progress_is_reported_in_bytes() -> None:
    assert progress(0, 0) is None
    assert progress(5 * 2**20, 0) == Progress(None, size_in_bytes(5 * 2**20))
    half = progress(2**29, 2**30)
    assert half is not None
    assert half.percent == 50


@pytest.mark.slow
def test_the_wizard_starts_a_server_from_a_volume_or_puts_its_disk_on_one(
    at_alice: Client, alice: Person, cloud: Cloud, agent: ScriptedAgent, volume: Volume
) -> None:
    assert offered(at_alice.get("/instances/launch/"), "boot_from") == ["The image above"]
    services.set_bootable(alice.context, volume.id, bootable=True)
    page = at_alice.get(f"/instances/launch/?volume={volume.id}")
    form = page.context["form"]
    assert form["boot_from"].value() == f"volume:{volume.id}"
    typed = {
        "name": "from-volume",
        "flavor": form["flavor"].value(),
        "boot_from": f"volume:{volume.id}",
        "networks": form["networks"].value(),
    }
    at_alice.post("/instances/launch/", typed)
    cloud.run()
    volume.refresh_from_db()
    assert (Instance.objects.get(name="from-volume").vm_state, volume.status) == ("active", "in-use")

    new = {**typed, "name": "on-new", "boot_from": "", "image": form["image"].value(), "on_volume": "on"}
    at_alice.post("/instances/launch/", {**new, "volume_size": "3"})
    cloud.run()
    made_for_it = Volume.objects.exclude(id=volume.id).get()
    assert (Instance.objects.get(name="on-new").vm_state, made_for_it.size_gb) == ("active", 3)
    assert at_alice.post("/instances/launch/", {**typed, "boot_from": "", "image": ""}).status_code == 422
