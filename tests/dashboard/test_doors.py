"""Doors of daily work: what comes live, what a filter shows, where an action leads, what is warned of."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from portal.dashboard import live
from portal.dashboard.frame.navigation import entries_for, groups_of
from provisioning.common.context import RequestContext
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.registry import with_buttons
from provisioning.compute.models import BlockDevice, Instance
from provisioning.compute.upkeep.silent_hosts import announce_silent_hosts
from provisioning.doctor.checks.hosts import silent_hosts
from provisioning.events.models import Event
from provisioning.events.selectors import OPERATORS, LoggedEvent
from provisioning.hosts.models import Host
from provisioning.identity import policy
from provisioning.identity.models import SignIn
from provisioning.identity.services.groups import add_to_group, create_group
from provisioning.identity.services.roles import create_role
from provisioning.launches.cloud_config.check import problem_of
from provisioning.launches.services.snippets import create_snippet
from provisioning.network.models import Network
from provisioning.volumes.models import Message, Volume, VolumeType
from tests.support.cast import People, sign_in_browser
from tests.support.clouds import Cloud
from tests.support.standing import standing
from tests.support.tables import each_row

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("plain_static")]


@pytest.fixture
@standing
def cloud(people: People) -> Cloud:
    made = Cloud.make()
    made.add_host("h1")
    return made


@pytest.fixture
def site(people: People, client: Client) -> Client:
    sign_in_browser(client, people.alice)
    return client


def launched(cloud: Cloud, people: People, name: str) -> Instance:
    server = cloud.launch(people.alice.context, name=name)
    cloud.run()
    return server


def rendered(page: str, people: People, *servers: Instance) -> str:
    events = [
        LoggedEvent(
            number, f"project:{people.alice.project_id}", "instance", {"id": str(server.id), "name": server.name}
        )
        for number, server in enumerate(servers, start=1)
    ]
    return live.render(page, events, people.alice.context)


@pytest.mark.slow
def test_the_console_comes_with_the_host_and_without_a_reload(cloud: Cloud, people: People, site: Client) -> None:
    server = cloud.launch(people.alice.context, name="web")
    page = site.get(reverse("dashboard:instance", args=[server.id])).content.decode()
    part = page[page.index('id="instance-open-console"') :]
    assert "hidden" in part[: part.index(">")]
    assert 'id="instance-console"' in site.get(reverse("dashboard:instance_console", args=[server.id])).content.decode()
    cloud.run()
    sent = rendered(f"instance/{server.id}", people, server)
    part = sent[sent.index('id="instance-open-console"') :]
    assert "hidden" not in part[: part.index(">")]
    assert 'id="disk-figures"' in rendered(f"instance/{server.id}/disks", people, server)


def test_a_filtered_list_gets_what_matches_and_loses_what_does_not(cloud: Cloud, people: People) -> None:
    web, other = launched(cloud, people, "web-1"), launched(cloud, people, "db-1")
    for query, shown in (
        ("q=web", [web]),
        ("status=ERROR", []),
        ("status=ACTIVE", [other, web]),
        ("status=ACTIVE&sort=-name", [web, other]),
    ):
        sent = rendered(f"instances?{query}", people, web, other)
        assert f'data-live-order="{" ".join(f"instance-{each.id}" for each in shown)}"' in sent, query
        assert [f">{each.name}<" in sent for each in (web, other)] == [each in shown for each in (web, other)], query


def test_a_filtered_page_names_its_filter_to_its_socket(cloud: Cloud, people: People, site: Client) -> None:
    launched(cloud, people, "web-1")
    page = site.get(reverse("dashboard:instances"), {"q": "web&x", "status": "ACTIVE"}).content.decode()
    assert 'data-live-page="instances?q=web%26x&amp;status=ACTIVE"' in page


@pytest.mark.parametrize(
    ("shown", "back"),
    [
        ("/instances/?q=web", "/instances/?q=web"),
        ("/instances/", "/instances/"),
        ("/volumes/", None),
        ("//evil.example/instances/", None),
        ("", None),
    ],
)
def test_an_action_from_the_list_leads_back_to_it(
    cloud: Cloud, people: People, site: Client, shown: str, back: str | None
) -> None:
    server = launched(cloud, people, "web-1")
    to = reverse("dashboard:instance_action", args=[server.id, "stop"])
    headers = {"HX-Request": "true", "HX-Current-URL": f"http://testserver{shown}"}
    question = site.get(to, headers=headers).content.decode()
    assert (f'name="next" value="{shown}"' in question) == bool(shown)
    answer = site.post(to, {"next": shown})
    assert answer.status_code == 303
    assert answer["Location"] == (back or reverse("dashboard:instance", args=[server.id]))


def opened(site: Client, to: str, shown: str, **typed: str) -> str:
    """Open a dialog on a page and submit it; return the address of the next page."""
    dialog = site.get(to, headers={"HX-Request": "true", "HX-Current-URL": f"http://testserver{shown}"})
    found = re.findall(r'name="next" value="([^"]*)"', dialog.content.decode())
    return str(site.post(to, {"next": html.unescape(found[0]) if found else "", **typed})["Location"])


def test_what_returns_to_a_list_keeps_its_search_filter_and_page(people: People, site: Client) -> None:
    shown = "/settings/sessions/?kind=browser&q=fire&page=2"
    times = {"last_used_at": timezone.now(), "expires_at": timezone.now() + timedelta(days=1)}
    session = SignIn.objects.create(user=people.alice.user, client="f" * 32, program="Firefox", browser=True, **times)
    assert opened(site, reverse("dashboard:settings_session_end", args=[session.id]), shown) == shown

    shown, edited = "/snippets/?q=web", {"name": "web", "text": "#cloud-config"}
    snippet = create_snippet(people.alice.context, description="", **edited)
    assert opened(site, reverse("dashboard:snippet_edit", args=[snippet.id]), shown, **edited) == shown
    assert opened(site, reverse("dashboard:snippet_delete", args=[snippet.id]), shown) == shown
    created = {**edited, "name": "database"}
    assert opened(site, reverse("dashboard:snippet_create"), shown, **created) == "/snippets/"


def test_a_list_is_kept_without_scripts_and_a_record_page_is_not_left(people: People, site: Client) -> None:
    sign_in_browser(site, people.operator)
    role = create_role("auditor")
    to, shown = reverse("dashboard:role_edit", args=[role.id]), "/roles/?q=audit"
    page = site.get(to, headers={"Referer": f"http://testserver{shown}"}).content.decode()
    assert f'name="next" value="{shown}"' in page
    assert site.post(to, {"name": "auditor", "description": "x", "next": shown})["Location"] == shown
    group = create_group(people.operator.user.domain, "staff")
    typed = {"name": "crew", "description": "", "next": "/groups/?q=st"}
    assert site.post(reverse("dashboard:group_edit", args=[group.id]), typed)["Location"] == f"/groups/{group.id}/"


def test_who_is_removed_from_a_group_leaves_its_list_as_it_was(people: People, site: Client) -> None:
    sign_in_browser(site, people.operator)
    group = create_group(people.operator.user.domain, "staff")
    add_to_group(group, people.alice.user)
    to, shown = (
        reverse("dashboard:group_user_remove", args=[group.id, people.alice.user_id]),
        f"/groups/{group.id}/?q=a",
    )
    assert opened(site, to, shown) == shown


def test_dangerous_questions_have_the_focus_on_cancel(cloud: Cloud, people: People, site: Client) -> None:
    server = launched(cloud, people, "web-1")
    for name, cancelled in (("delete", True), ("stop", False)):
        question = site.get(reverse("dashboard:instance_action", args=[server.id, name])).content.decode()
        cancel = question[question.index('data-close="dialog"') :]
        confirm = question[question.index('data-testid="confirm"') :]
        assert ("autofocus" in cancel[: cancel.index(">")]) == cancelled
        assert ("autofocus" in confirm[: confirm.index(">")]) != cancelled


def test_every_action_that_loses_data_is_dangerous() -> None:
    buttons = {each.key: each.button for each in with_buttons() if each.button}
    losing = {key: button.danger for key, button in buttons.items() if " is lost" in button.consequence}
    assert losing == {"reboot_hard": True, "revert_resize": True}


def test_operators_come_first_and_the_group_of_the_page_is_open(people: People) -> None:
    entries = entries_for(people.operator.context)
    groups = groups_of(entries, "users")
    assert groups[0].entries[0].section == "cloud"
    assert {group.name for group in groups if group.open and group.name} == {"Cloud", "Identity"}
    assert [entry for group in groups for entry in group.entries] == list(entries)


@pytest.mark.slow
def test_the_network_of_the_wizard_does_not_change_with_a_new_one(cloud: Cloud, people: People, site: Client) -> None:
    first = Network.objects.get()
    newer = Network.objects.create(project_id=people.alice.project_id, name="a-backend")
    Network.objects.filter(id=first.id).update(created_at=timezone.now() - timedelta(days=1), name="z-net")

    def chosen() -> list[str]:
        return site.get(reverse("dashboard:launch")).context["form"].initial["networks"]

    Network.objects.filter(id=first.id).update(project_id=people.alice.project_id)
    assert chosen() == [str(first.id)]
    cloud.launch(people.alice.context, name="web")
    assert str(newer.id) not in chosen()


@each_row(
    ("text", "line"),
    [
        ("#cloud-config\n\tfoo: [bar", "Line 2"),
        ("#cloud-config\nusers:\n  - name: [bob\n", "Line "),
        ("#cloud-config\njust words\n", "keys"),
        ("#cloud-config\na: !!bool x", "not valid YAML"),
        ("#cloud-config\na: !!int ''", "not valid YAML"),
        ("#cloud-config\na: !!timestamp x", "not valid YAML"),
        ("#cloud-config\nusers:\n  - name: bob\n", ""),
        ("#cloud-config\n", ""),
        ("#!/bin/sh\n\tfoo: [bar", ""),
        ("", ""),
    ],
)
def test_a_broken_cloud_config_is_named_with_its_line(text: str, line: str) -> None:
    assert (line in problem_of(text)) if line else problem_of(text) == ""


def test_a_broken_cloud_config_is_launched_only_on_purpose(cloud: Cloud, people: People, site: Client) -> None:
    typed = {
        "name": "web", "image": str(cloud.image.id), "flavor": "1", "networks": "none", "count": "1",
        "user_data": "#cloud-config\n\tfoo: [bar",
    }  # fmt: skip
    answer = site.post(reverse("dashboard:launch"), typed)
    assert answer.status_code == 422
    assert 'name="user_data_as_is"' in answer.content.decode()
    assert not Instance.objects.exists()
    assert site.post(reverse("dashboard:launch"), {**typed, "user_data_as_is": "on"}).status_code == 303
    assert Instance.objects.get().name == "web"


@pytest.mark.slow
@pytest.mark.parametrize("cause", [{"forced_down": True}, {"last_seen_at": None}])
def test_servers_of_a_silent_host_are_not_shown_as_running(
    cloud: Cloud, people: People, site: Client, cause: dict[str, object]
) -> None:
    server = launched(cloud, people, "web-1")
    Host.objects.update(**cause)
    for address in (
        reverse("dashboard:instances"),
        reverse("dashboard:instance", args=[server.id]),
        reverse("dashboard:overview"),
    ):
        page = site.get(address).content.decode()
        assert 'data-testid="silent"' in page, address
        assert "</i>Active<" not in page, address
    picture = site.get(reverse("dashboard:topology")).content.decode()
    assert "Instance web-1: Unknown" in picture
    [finding] = silent_hosts()
    assert finding.severity == "warning"


@pytest.mark.slow
def test_open_pages_are_notified_once_when_a_host_goes_silent_and_when_it_is_back(cloud: Cloud, people: People) -> None:
    server = launched(cloud, people, "web-1")
    announce_silent_hosts()
    seen = Event.objects.count()
    Host.objects.update(last_seen_at=timezone.now() - timedelta(hours=1))
    assert announce_silent_hosts() == 1
    event, of_host = Event.objects.order_by("id")[seen:]
    assert (of_host.topic, of_host.kind) == (OPERATORS, "host")
    logged = [LoggedEvent(event.id, event.topic, event.kind, event.payload)]
    assert event.topic == f"project:{people.alice.project_id}"
    for page in ("instances", f"instance/{server.id}", "overview"):
        sent = live.render(page, logged, people.alice.context)
        assert 'data-testid="silent"' in sent, page
        assert "data-live-container" not in sent, page
    assert "Instance web-1: Unknown" in live.render("topology", logged, people.alice.context)
    assert announce_silent_hosts() == 0
    Host.objects.update(last_seen_at=timezone.now())
    assert announce_silent_hosts() == 1
    assert 'data-testid="silent"' not in live.render("instances", logged, people.alice.context)


def test_a_host_that_is_forced_down_is_reported_to_open_pages(cloud: Cloud, people: People) -> None:
    launched(cloud, people, "web-1")
    announce_silent_hosts()
    Host.objects.update(forced_down=True)
    assert announce_silent_hosts() == 1


@pytest.mark.slow
def test_a_new_volume_is_created_and_attached_from_the_page_of_an_instance(
    cloud: Cloud, people: People, site: Client
) -> None:
    server = launched(cloud, people, "web-1")
    cloud.agents["h1"].serve()
    to = reverse("dashboard:server_attach", args=[server.id])
    form = site.get(to).context["form"]
    assert (form["volume"].value(), form["name"].value()) == ("new", "web-1-data")
    refused = site.post(to, {"volume": "new", "name": "data", "size": ""})
    assert "size" in refused.context["form"].errors
    assert not Volume.objects.exists()
    assert "volume_type" not in form.fields  # there is one type only
    VolumeType.objects.create(name="fast")
    offered = site.get(to).context["form"].fields["volume_type"].widget.choices
    assert [value for value, _ in offered] == ["", "fast"]
    typed = {"volume": "new", "name": "data", "size": "3", "volume_type": "fast", "delete_on_termination": "on"}
    answer = site.post(to, typed)
    assert answer["Location"] == reverse("dashboard:instance_disks", args=[server.id])
    cloud.run()
    volume = Volume.objects.get()
    assert (volume.name, volume.size_gb, volume.status) == ("data", 3, "in-use")
    assert str(volume.volume_type) == "fast"
    device = BlockDevice.objects.get(volume_id=volume.id)
    assert (device.instance_id, device.delete_on_termination) == (server.id, True)
    assert "attach_to" not in volume.admin_metadata
    assert site.get(to).context["form"]["name"].value() == "web-1-data-2"


@pytest.mark.slow
def test_a_new_volume_is_left_alone_when_its_instance_is_deleted_first(
    cloud: Cloud, people: People, site: Client
) -> None:
    server = launched(cloud, people, "web-1")
    cloud.agents["h1"].serve()
    site.post(reverse("dashboard:server_attach", args=[server.id]), {"volume": "new", "size": "1"})
    delete(people.alice.context, server.id)
    cloud.run()
    volume = Volume.objects.get()
    assert volume.status == "available"
    assert Message.objects.get().resource_id == volume.id


@pytest.mark.slow
def test_a_failed_instance_offers_only_what_can_be_done_and_another_launch(
    cloud: Cloud, people: People, site: Client
) -> None:
    server = cloud.launch(
        people.alice.context, name="too-big", flavor_ref="2", metadata={"role": "web"}, user_data="I2Nsb3VkLWNvbmZpZwo="
    )
    Host.objects.update(vcpus_total=1, cpu_allocation_ratio=1)
    cloud.run()
    page = site.get(reverse("dashboard:instance", args=[server.id])).content.decode()
    assert reverse("dashboard:server_attach", args=[server.id]) not in page
    again = f"{reverse('dashboard:launch')}?again={server.id}"
    assert f'href="{again}"' in page
    form = site.get(again).context["form"]
    assert form["name"].value() == "too-big"
    assert form["metadata"].value() == "role=web"
    assert form["user_data"].value() == "#cloud-config\n"
    assert form["flavor"].value() == "1"


@pytest.mark.parametrize(
    ("user_data", "operator", "text"),
    [
        ("I2Nsb3VkLWNvbmZpZwo=", False, "Another person launched it"),
        ("I2Nsb3VkLWNvbmZpZwo=", True, ""),
        ("/w==", True, "is not text"),
    ],
)
def test_user_data_is_copied_for_whom_the_api_shows_it_to(
    cloud: Cloud, people: People, monkeypatch: pytest.MonkeyPatch, user_data: str, text: str, *, operator: bool
) -> None:
    server = cloud.launch(people.alice.context, name="web-1", user_data=user_data)
    Instance.objects.filter(id=server.id).update(user_id=people.charlie.user.id)
    allows = policy.allows

    def with_rule(context: RequestContext, rule: str, *args: Any) -> bool:
        return operator if rule == "os_compute_api:os-extended-server-attributes" else allows(context, rule, *args)

    monkeypatch.setattr(policy, "allows", with_rule)
    client = Client()
    sign_in_browser(client, people.alice)
    page = client.get(reverse("dashboard:launch"), {"again": server.id})
    assert (page.context["form"]["user_data"].value() or "") == ("" if text else "#cloud-config\n")
    assert text in page.content.decode()


def test_an_instance_of_others_is_not_launched_again(cloud: Cloud, people: People) -> None:
    server = launched(cloud, people, "web-1")
    client = Client()
    sign_in_browser(client, people.charlie)
    assert client.get(reverse("dashboard:launch"), {"again": server.id}).status_code == 404
