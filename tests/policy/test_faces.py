"""One rule for every face: what an operator's file denies, the API, the pages, the sockets and the admin deny."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async
from django.test import Client
from pytest_django import Settings

from portal.dashboard.live import render
from portal.dashboard.words.plain import NOT_ALLOWED
from portal.sockets import follower
from provisioning.compute.models import Flavor, Instance
from provisioning.compute.states import VmState
from provisioning.events.selectors import LoggedEvent
from provisioning.hosts.models import Host
from provisioning.identity import policy
from provisioning.identity.services.assignments import assign_role
from provisioning.identity.services.roles import ensure_role
from tests.support.cast import Api, Person, make_people, sign_in_browser
from tests.support.clouds import Cloud, state_of
from tests.support.sockets import ORIGIN, Open, cookie_of, open_socket

pytestmark = pytest.mark.slow

__all__ = ["open_socket"]
Rule = Callable[..., None]


@pytest.fixture
def rule(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Rule:
    """Say a rule in the operator's file: ``rule("os_compute_api:servers:stop", "role:caretaker")``."""
    path = tmp_path / "policy.yaml"
    settings.POLICY_FILE = path
    monkeypatch.setattr(policy, "LOOK_EVERY", 0.0)
    monkeypatch.setattr(policy, "AT_REST", 0.0)
    rules: dict[str, str] = {}

    def say(name: str, check: str) -> None:
        rules[name] = check
        path.write_text("".join(f'"{key}": "{value}"\n' for key, value in rules.items()))
        os.utime(path, (1_700_000_000 + len(rules), 1_700_000_000))

    return say


def running(person: Person) -> Instance:
    cloud = Cloud.make()
    cloud.add_host("h1")
    instance = cloud.launch(person.context, name="web")
    cloud.run()
    return Instance.objects.get(id=instance.id)


def browser_of(person: Person) -> Client:
    client = Client()
    sign_in_browser(client, person)
    return client


def caretaker(person: Person) -> Person:
    """Give the person a role of the operator's own making as well."""
    ensure_role("caretaker")
    assign_role(person.user, person.project, "caretaker")
    return person


def test_the_api_refuses_and_names_the_rule(alice: Person, rule: Rule) -> None:
    web, path = running(alice), "/compute/v2.1/servers"
    rule("os_compute_api:servers:stop", "role:caretaker")
    refused = Api(alice).post(f"{path}/{web.id}/action", {"os-stop": None})
    assert refused.status_code == 403
    assert "os_compute_api:servers:stop" in refused.json()["forbidden"]["message"]
    assert Api(alice).post(f"{path}/{web.id}/action", {"reboot": {"type": "HARD"}}).status_code == 202
    assert Api(caretaker(alice)).post(f"{path}/{web.id}/action", {"os-stop": None}).status_code == 409, "it reboots"


def test_the_api_grants_to_whom_the_file_does(alice: Person, bob: Person, charlie: Person, rule: Rule) -> None:
    """Services ask the rule as well, and not whether somebody is an administrator."""
    flavor = {"flavor": {"name": "x", "ram": 64, "vcpus": 1, "disk": 1}}
    web = running(charlie)
    assert Api(alice).post("/compute/v2.1/flavors", flavor).status_code == 403
    assert Api(alice).get("/compute/v2.1/os-hypervisors").status_code == 403
    rule("os_compute_api:os-flavor-manage:create", "role:caretaker")
    rule("os_compute_api:os-hypervisors:list", "role:caretaker")
    rule("os_compute_api:servers:index:get_all_tenants", "role:caretaker")
    auditor = caretaker(Person(bob.user, alice.project))
    assert Api(auditor).post("/compute/v2.1/flavors", flavor).status_code == 200
    assert Flavor.objects.filter(name="x").exists()
    assert len(Api(auditor).get("/compute/v2.1/os-hypervisors").json()["hypervisors"]) == Host.objects.count()
    servers = Api(auditor).get("/compute/v2.1/servers?all_tenants=1").json()["servers"]
    assert [server["id"] for server in servers] == [str(web.id)]


@pytest.mark.usefixtures("plain_static")
def test_the_button_is_gone_and_its_form_refused(alice: Person, rule: Rule) -> None:
    web, browser = running(alice), browser_of(alice)
    stop, page = f"/instances/{web.id}/stop/", f"/instances/{web.id}/"
    menu = f"{page}actions/"
    for path in (menu, page):
        assert stop in browser.get(path).content.decode()
    rule("os_compute_api:servers:stop", "role:caretaker")
    for path in (menu, page):
        shown = browser.get(path).content.decode()
        assert stop not in shown
        assert f"/instances/{web.id}/reboot/" in shown
    for answer in (browser.get(stop), browser.post(stop)):
        assert answer.status_code == 403
        assert NOT_ALLOWED in answer.content.decode()
    web.refresh_from_db()
    assert state_of(web) == (VmState.ACTIVE, None)


@pytest.mark.usefixtures("plain_static")
@pytest.mark.parametrize(
    ("name", "path", "shown"),
    [
        ("os_compute_api:servers:create", "/", "/instances/launch/"),
        ("os_compute_api:servers:detail", "/", 'href="/instances/"'),
        ("os_compute_api:servers:delete", "/instances/", "/bulk/instances/delete/"),
        ("os_compute_api:os-console-output", "/instances/{id}/console/", "console-log"),
        ("os_compute_api:os-keypairs:create", "/key-pairs/", "/key-pairs/create/"),
        ("os_compute_api:os-keypairs:index", "/", 'href="/key-pairs/"'),
        ("novella:flavors:index", "/", 'href="/flavors/"'),
        ("add_image", "/images/", "/images/upload/"),
        ("get_images", "/", 'href="/images/"'),
        ("os_compute_api:limits", "/", 'id="quota-cores"'),
    ],
)
def test_what_a_rule_denies_is_not_offered(alice: Person, rule: Rule, name: str, path: str, shown: str) -> None:
    web, browser = running(alice), browser_of(alice)
    path = path.format(id=web.id)
    assert shown in browser.get(path).content.decode()
    rule(name, "!")
    assert shown not in browser.get(path).content.decode()


@pytest.mark.usefixtures("plain_static")
def test_live_parts_of_a_page_are_those_of_the_page(alice: Person, rule: Rule) -> None:
    web = running(alice)
    event = LoggedEvent(1, f"project:{alice.project_id}", "instance", {"id": str(web.id), "name": web.name})
    page = f"instance/{web.id}"
    assert f"/instances/{web.id}/stop/" in render(page, [event], alice.context)
    rule("os_compute_api:servers:stop", "role:caretaker")
    assert f"/instances/{web.id}/stop/" not in render(page, [event], alice.context)
    assert f"instance-{web.id}" in render("instances", [event], alice.context)
    rule("os_compute_api:servers:detail", "!")
    rule("os_compute_api:servers:show", "!")
    for page in ("instances", f"instance/{web.id}"):
        assert render(page, [event], alice.context) == ""
    assert web.name not in render("overview", [event], alice.context)


@pytest.mark.usefixtures("plain_static")
def test_the_admin_offers_and_does_what_the_rule_allows(operator: Person, alice: Person, rule: Rule) -> None:
    web, browser, path = running(alice), browser_of(operator), "/admin/compute/instance/"
    form = {"action": "stop_instances", "_selected_action": str(web.id), "confirmed": "yes"}
    assert 'value="stop_instances"' in browser.get(path).content.decode()
    rule("os_compute_api:servers:stop", "role:caretaker")
    shown = browser.get(path).content.decode()
    assert 'value="stop_instances"' not in shown
    assert 'value="start_instances"' in shown
    browser.post(path, form)
    web.refresh_from_db()
    assert state_of(web) == (VmState.ACTIVE, None)
    caretaker(operator)
    browser.post(path, form)
    web.refresh_from_db()
    assert web.task_state == "powering-off"


@pytest.mark.usefixtures("plain_static", "cloud_of_one")
@pytest.mark.parametrize(
    ("name", "path", "status"),
    [
        ("os_compute_api:os-flavor-manage:create", "/admin/compute/flavor/add/", 403),
        ("novella:hosts:join", "/admin/hosts/host/join/", 403),
        ("os_compute_api:servers:detail:get_all_tenants", "/admin/compute/instance/", 403),
        ("novella:get_networks:all_projects", "/admin/network/port/", 403),
        ("novella:get_images:all_projects", "/admin/images/image/", 403),
        ("novella:admin", "/admin/", 302),
    ],
)
def test_a_page_of_the_admin_is_the_api_s_operation(
    operator: Person, rule: Rule, name: str, path: str, status: int
) -> None:
    browser = browser_of(operator)
    assert browser.get(path).status_code == 200
    rule(name, "!")
    assert browser.get(path).status_code == status


@pytest.fixture
def cloud_of_one(db: None) -> Cloud:
    return Cloud.make()


async def test_a_socket_is_refused_and_an_open_one_closed(
    open_socket: Open, rule: Rule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "LOOK_EVERY", 0.05)
    alice = (await sync_to_async(make_people)()).alice
    web = await sync_to_async(running)(alice)
    headers = {"origin": ORIGIN, "cookie": cookie_of(await sync_to_async(lambda: alice.token)())}
    console = f"/ws/dashboard/servers/{web.id}/console-log"
    open_console = await open_socket(console, **headers)
    page = await open_socket("/ws/dashboard?page=instances", **headers)
    assert await page.json() == {"hello": pytest.approx(0, abs=10_000)}
    rule("os_compute_api:os-console-output", "role:caretaker")
    assert await open_console.closed() == 4403
    assert await (await open_socket(console, **headers)).closed() == 4403
    assert await page.json_with("resync"), "the page stays open, and is drawn anew without the console"
    rule("novella:events:follow", "!")
    assert await asyncio.wait_for(page.closed(), 60) == 4403


def test_a_locked_server_is_for_whom_the_rule_says(alice: Person, rule: Rule) -> None:
    web = running(alice)
    Instance.objects.filter(id=web.id).update(locked=True)
    path = f"/compute/v2.1/servers/{web.id}"
    assert Api(alice).delete(path).status_code == 409
    rule("os_compute_api:os-lock-server:unlock:unlock_override", "role:member")
    assert Api(alice).delete(path).status_code == 204
