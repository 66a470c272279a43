"""One instance: the launch drawn, the decision worded, the fault explained, the way in."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from compute_agent.contract.steps import FETCH_IMAGE
from portal.dashboard.instances.detail.tabs import TABS
from provisioning.compute.actions.rebuild import Rebuild, RebuildAction
from provisioning.compute.launch.request import DiskRequest
from provisioning.compute.models import Instance, InstanceAction
from provisioning.compute.selectors.history import FEWEST
from provisioning.compute.services import tunnels
from tests.dashboard.conftest import SignedIn
from tests.support.cast import Person
from tests.support.clouds import Cloud
from tests.support.jobs import drain
from tests.support.standing import standing

pytestmark = pytest.mark.slow


def page_of(client: Client, instance: Instance, tab: str = "") -> Any:
    answer = client.get(f"/instances/{instance.id}/{tab}")
    assert answer.status_code == 200
    return answer


@pytest.fixture
@standing
def web(cloud: Cloud, alice: Person) -> Instance:
    instance = cloud.launch(alice.context, name="web", metadata={"role": "<b>db</b>"})
    cloud.run()
    return instance


def test_every_tab_has_an_address_and_reads_its_own_data(at_alice: Client, web: Instance) -> None:
    entries = page_of(at_alice, web).context["tabs"]
    assert [entry["label"] for entry in entries] == [tab.label for tab in TABS]
    for tab, entry in zip(TABS, entries, strict=True):
        answer = at_alice.get(entry["url"])
        assert [each["label"] for each in answer.context["tabs"] if each["shown"]] == [tab.label]
        assert ("disks" in answer.context, "reach" in answer.context) == (tab.name == "disks", tab.name == "network")
        assert f'data-live-page="instance/{web.id}{"/" if tab.name else ""}{tab.name}"' in answer.content.decode()


def test_the_way_in_is_in_the_head_of_every_tab(at_alice: Client, web: Instance) -> None:
    for tab in TABS:
        answer = page_of(at_alice, web, f"{tab.name}/" if tab.name else "")
        head = answer.content.decode().split('id="instance-head"')[1].split('class="page-tabs"')[0]
        address = answer.context["row"].addresses[0].address
        assert f'data-copy="{address}"' in head
        assert f'data-copy="{answer.context["connect"].command}"' in head
        assert 'data-testid="head-console"' in head


def test_a_tab_that_the_policy_denies_is_neither_offered_nor_shown(
    signed_in: SignedIn, bob: Person, web: Instance
) -> None:
    client = signed_in(bob)
    assert "Console" not in [entry["label"] for entry in page_of(client, web).context["tabs"]]
    assert client.get(f"/instances/{web.id}/console/").status_code == 403


def test_every_step_is_drawn_on_one_axis(at_alice: Client, web: Instance) -> None:
    (attempt,) = page_of(at_alice, web).context["attempts"]
    assert [bar.step.state for bar in attempt.bars] == ["done"] * 13
    assert not attempt.running
    for bar in attempt.bars:
        assert 0 <= bar.left <= 100
        assert 0 < bar.width <= 100.01 - bar.left


def test_steps_to_come_are_shown_while_it_is_built(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    answer = page_of(at_alice, cloud.launch(alice.context))
    (attempt,) = answer.context["attempts"]
    assert attempt.running
    assert [bar.step.state for bar in attempt.bars] == ["done"] + ["waiting"] * 12
    page = answer.content.decode()
    assert 'data-testid="step-wait_for_boot"' in page
    assert "The address comes with the step" in page


@pytest.mark.parametrize(
    ("name", "plain"), [("web-1.prod", True), ("my server", False), ("-oProxyCommand=x", False), ("東京", False)]
)
def test_the_tunnels_line_is_right_for_every_name(
    at_alice: Client, alice: Person, cloud: Cloud, name: str, *, plain: bool
) -> None:
    """By its name where a shell and clients take it as it is, else by its id."""
    instance = cloud.launch(alice.context, name="web", key_name=None)
    cloud.run()
    Instance.objects.filter(id=instance.id).update(name=name)
    line = page_of(at_alice, instance).context["connect"].tunnel
    assert line == f"novella ssh --os-cloud novella {name if plain else instance.id}"


def test_two_servers_of_one_name_are_reached_by_their_ids(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    first, second = (cloud.launch(alice.context, name="web") for _ in "12")
    cloud.run()
    assert page_of(at_alice, first).context["connect"].tunnel.endswith(f" {first.id}")
    Instance.objects.filter(id=second.id).update(deleted_at=timezone.now(), vm_state="deleted")
    page = page_of(at_alice, first)
    assert page.context["connect"].tunnel.endswith(" web")
    assert 'id="tunnel-command"' in page.content.decode()


def test_who_may_not_is_shown_no_tunnel(signed_in: SignedIn, bob: Person, web: Instance) -> None:
    page = page_of(signed_in(bob), web)
    assert (page.context["connect"].tunnel, page.context["connect"].command != "") == ("", True)
    assert 'id="tunnel-command"' not in page.content.decode()


def test_who_came_through_a_tunnel_is_in_the_log(at_alice: Client, alice: Person, web: Instance) -> None:
    target = tunnels.target_for(alice.context, web.id, "22", "")
    tunnels.record_closed(tunnels.record_opened(alice.context, target), tunnels.Passed(10, 20))
    (action,) = page_of(at_alice, web).context["later_actions"]
    assert (action.label, action.note) == ("Reached by a tunnel", f"port 22 of {target.address}")
    tunnels.record_opened(alice.context, target)
    (action,) = page_of(at_alice, web).context["later_actions"]
    assert action.note.endswith(", 2 connections")


def test_each_attempt_is_drawn(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    cloud.add_host("host-2")
    instance = cloud.launch(alice.context)
    drain()
    agent = cloud.agent_of(instance)
    (command,) = agent.take()
    agent.fail(command, "The host has no space for the image.", retryable=True, after=FETCH_IMAGE)
    cloud.run()
    answer = page_of(at_alice, instance)
    first, second = answer.context["attempts"]
    assert (first.failed, second.failed) == (True, False)
    assert "Attempt 2" in answer.content.decode()


def test_a_log_that_is_not_read_yet_is_not_called_empty(at_alice: Client, web: Instance) -> None:
    """A host that hangs says nothing of what its guest has written."""
    text = page_of(at_alice, web, "console/").content.decode()
    assert 'data-empty="The console log is being read …"' in text
    assert 'data-read="The guest has written nothing yet."' in text


def test_a_launch_without_a_host_says_why_and_what_to_do(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    cloud.add_host("second")
    big = cloud.launch(alice.context, flavor_ref="2", availability_zone=None, min_count=5, max_count=5)
    cloud.run()
    failed = Instance.objects.filter(reservation_id=big.reservation_id, vm_state="error").first()
    assert failed is not None
    answer = page_of(at_alice, failed)
    assert "This instance could not be built" in answer.content.decode()
    assert "delete instances you no longer need" in answer.context["advice"]
    assert answer.context["decisions"][0].tone == "bad"
    assert "console-log" not in page_of(at_alice, failed, "console/").content.decode()


def test_hosts_are_named_to_operators_only(signed_in: SignedIn, alice: Person, operator: Person, web: Instance) -> None:
    assert "host-1" not in page_of(signed_in(alice), web).content.decode()
    assert "host-1" in page_of(signed_in(operator), web).content.decode()


@pytest.mark.parametrize("tab", ["", "settings/"])
def test_instances_of_other_projects_name_their_owner(
    signed_in: SignedIn, alice: Person, operator: Person, web: Instance, tab: str
) -> None:
    owner = f"Owned by project <bdi>{alice.project.name}</bdi>"
    assert owner not in page_of(signed_in(alice), web, tab).content.decode()
    assert owner in page_of(signed_in(operator), web, tab).content.decode()


def test_what_people_write_is_never_html(at_alice: Client, web: Instance) -> None:
    page = page_of(at_alice, web).content.decode()
    assert "<b>db</b>" not in page
    assert "&lt;b&gt;db&lt;/b&gt;" in page


def test_a_launch_that_is_done_is_one_line(at_alice: Client, alice: Person, cloud: Cloud, web: Instance) -> None:
    def folded(instance: Instance, tab: str = "") -> bool:
        page = page_of(at_alice, instance, tab).content.decode()
        part = page[page.index('<details class="launch"') :]
        return " open" not in part[: part.index(">")]

    assert folded(web)
    assert not folded(web, "activity/")
    assert not folded(cloud.launch(alice.context))


def test_a_launch_is_compared_with_earlier_ones_of_its_image_and_size(
    at_alice: Client, alice: Person, charlie: Person, cloud: Cloud, web: Instance
) -> None:
    for who in [alice] * (FEWEST - 1) + [charlie]:
        cloud.launch(who.context)
    cloud.launch(alice.context, flavor_ref="2", name="other")
    cloud.run()
    assert page_of(at_alice, web).context["usual"] is None
    cloud.launch(alice.context)
    cloud.run()
    now = timezone.now()
    launches = InstanceAction.objects.filter(action="create").exclude(instance=web).order_by("id")
    of_web = [row for row in launches if row.instance.flavor["flavorid"] == "1" and row.project_id == alice.project_id]
    for seconds, row in enumerate(of_web, start=1):
        end = now + timedelta(seconds=seconds)
        InstanceAction.objects.filter(id=row.id).update(started_at=now, finished_at=end)
        row.events.filter(name="schedule").update(started_at=now, finished_at=end)
    answer = page_of(at_alice, web)
    usual = answer.context["usual"]
    assert (usual.launches, usual.whole.p50, usual.whole.p95) == (5, 3, 5)
    assert (usual.steps["schedule"].p50, usual.steps["schedule"].p95) == (3, 5)
    page = answer.content.decode()
    assert "usually 3.00 s, p95 5.00 s" in page
    assert "3.00 s · 5.00 s" in page
    of_web[0].events.filter(name="schedule").update(attempt=2)  # another host: it says nothing about a usual launch
    assert page_of(at_alice, web).context["usual"] is None


def test_the_activity_names_persons_results_and_steps(
    at_alice: Client, signed_in: SignedIn, operator: Person, cloud: Cloud, web: Instance
) -> None:
    at_alice.post(f"/instances/{web.id}/stop/")
    cloud.run()
    signed_in(operator).post(f"/instances/{web.id}/start/")
    agent = cloud.agent_of(web)
    (command,) = agent.take()
    agent.fail(command, "The host has no memory.", retryable=False)
    cloud.run()
    start, stop, launch = page_of(at_alice, web, "activity/").context["actions"]
    assert (start.label, start.who, start.failed, start.message) == (
        "Start",
        "an operator",
        True,
        "The host has no memory.",
    )
    assert (stop.label, stop.who, stop.failed) == ("Stopped", "alice", False)
    assert [step.label for step in stop.steps] == ["Request accepted", "Carried out on the host"]
    assert (launch.label, len(launch.steps)) == ("Launched", 13)
    page = page_of(at_alice, web, "activity/").content.decode()
    assert "host-1" not in page


def test_the_ssh_command_is_exact(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    at_alice.post("/key-pairs/create/", {"name": "my laptop", "how": "make"})
    cloud.image.properties = {"os_admin_user": "debian"}
    cloud.image.save(update_fields=["properties"])
    instance = cloud.launch(alice.context, key_name="my laptop")
    cloud.run()
    answer = page_of(at_alice, instance)
    address = answer.context["row"].addresses[0].address
    assert answer.context["connect"].command == f"ssh -i ~/.ssh/'my laptop' debian@{address}"


def test_the_ssh_command_outlives_the_image(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    cloud.image.properties = {"os_admin_user": "debian"}
    cloud.image.save(update_fields=["properties"])
    instance = cloud.launch(alice.context)
    cloud.run()
    type(cloud.image).objects.filter(pk=cloud.image.pk).update(status="deleted")
    assert "debian@" in page_of(at_alice, instance).context["connect"].command


def test_a_hostile_login_name_stays_inside_its_quotes(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    cloud.image.properties = {"os_admin_user": "x; rm -rf /"}
    cloud.image.save(update_fields=["properties"])
    instance = cloud.launch(alice.context)
    cloud.run()
    assert "'x; rm -rf /@" in page_of(at_alice, instance).context["connect"].command


def test_what_happened_since_is_listed(at_alice: Client, web: Instance, cloud: Cloud) -> None:
    at_alice.post(f"/instances/{web.id}/stop/")
    (action,) = page_of(at_alice, web).context["later_actions"]
    assert (action.label, action.seconds) == ("Stop", None)
    cloud.run()
    (action,) = page_of(at_alice, web).context["later_actions"]
    assert (action.label, action.failed) == ("Stopped", False)
    assert action.seconds is not None


def test_a_console_log_that_cannot_be_read_says_so(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    instance = cloud.launch(alice.context)
    page = at_alice.get(f"/instances/{instance.id}/console.log", follow=True).content.decode()
    assert "is not ready" in page


def test_a_volume_that_is_made_of_an_image_shows_its_bytes_and_why_it_fails(
    at_alice: Client, alice: Person, cloud: Cloud
) -> None:
    host = cloud.agents["host-1"]
    host.serve()
    disk = DiskRequest("image", "volume", str(cloud.image.id), boot_index=0, size=2)
    server = cloud.launch(alice.context, image_id="", disks=(disk,))
    drain()
    [create] = host.take()
    host.report(create, "progress", detail={"done": str(1 << 30), "total": str(4 << 30)})
    page = page_of(at_alice, server).content.decode()
    assert 'data-testid="step-block_device_mapping"' in page
    assert 'max="100" value="25" aria-label="Progress of Connect volumes"' in page
    host.report(create, "failed", error_code="failed", message="The disk is full.")
    cloud.run()
    answer = page_of(at_alice, server)
    assert "The disk is full." in answer.context["row"].fault.message
    [attempt] = answer.context["attempts"]
    [failed] = [bar for bar in attempt.bars if bar.step.state == "failed"]
    assert (failed.step.name, failed.progress) == ("block_device_mapping", None)
    assert "The disk is full." in failed.step.message


def test_a_rebuild_that_writes_a_volume_shows_its_bytes(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    host = cloud.agents["host-1"]
    host.serve()
    disk = DiskRequest("image", "volume", str(cloud.image.id), boot_index=0, size=2)
    server = cloud.launch(alice.context, image_id="", disks=(disk,))
    cloud.run()
    RebuildAction.begin(alice.context, server.id, Rebuild(str(cloud.image.id), writes_volume=True))
    [stop] = host.take()
    host.carry_out(stop)
    [write] = host.take()
    host.report(write, "progress", detail={"done": str(1 << 30), "total": str(4 << 30)})
    answer = page_of(at_alice, server)
    [row] = answer.context["later_actions"]
    assert (row.note, row.progress.percent) == ("Writing the image to its volume", 25)
    assert 'max="100" value="25"' in answer.content.decode()
    host.carry_out(write)
    cloud.run()
    [row] = page_of(at_alice, server).context["later_actions"]
    assert (row.label, row.note, row.progress) == ("Rebuilt", "", None)
