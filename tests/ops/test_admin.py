"""The admin: for operators only, and everything it changes goes through the services."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin as django_admin
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from provisioning.compute.actions.delete import delete
from provisioning.compute.models import Flavor, Instance
from provisioning.compute.records.instance_actions import begin
from provisioning.hosts.models import Host, JoinToken
from provisioning.identity.models import RoleAssignment
from provisioning.images.models import Image
from provisioning.quotas.selectors import limits_of
from tests.support.cast import PASSWORD, People, Person, sign_in_browser
from tests.support.clouds import Cloud, state_of

INDEX = [
    f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
    for app in ("compute", "identity", "images", "network", "quotas", "volumes")
    for model in apps.get_app_config(app).get_models()
    if django_admin.site.is_registered(model)
]


def act(client: Client, path: str, action: str, rows: list[Any], **more: str) -> Any:
    fields = {"action": action, "_selected_action": [str(row.pk) for row in rows], **more}
    return client.post(path, fields, follow=True)


@pytest.mark.parametrize("path", ["/admin/", *INDEX])
def test_only_operators_are_let_in(people: People, admin: Client, path: str) -> None:
    member = Client()
    sign_in_browser(member, people.alice)
    assert admin.get(path).status_code == 200
    for client in (member, Client()):
        answer = client.get(path)
        assert answer.status_code == 302
        assert answer.headers["Location"].startswith("/admin/login/")


def test_an_operator_who_works_in_a_project_without_the_role_is_not_let_in(people: People) -> None:
    """The role counts where the session is, as it does everywhere else."""
    project = people.alice.project
    RoleAssignment.objects.create(
        user=people.operator.user, project=project, role=RoleAssignment.objects.get(user=people.alice.user).role
    )
    client = Client()
    sign_in_browser(client, Person(people.operator.user, project))
    assert client.get("/admin/").status_code == 302


def test_the_admins_own_form_signs_operators_in(people: People) -> None:
    client = Client()
    answer = client.post("/admin/login/", {"username": "operator", "password": PASSWORD, "next": "/admin/"})
    assert answer.status_code == 302
    assert client.get("/admin/").status_code == 200
    refused = Client().post("/admin/login/", {"username": "alice", "password": PASSWORD})
    assert refused.status_code == 200


def test_queues_tokens_and_groups_are_not_shown() -> None:
    shown = {model._meta.label for model in django_admin.site._registry}
    assert {label for label in shown if label.startswith(("django_q", "auth", "jobs", "rpc", "events"))} == {
        "jobs.Lease"
    }
    assert "identity.RevokedToken" not in shown
    assert "hosts.JoinToken" not in shown


@pytest.mark.slow
def test_every_record_can_be_opened(admin: Client, alice: Person, cloud: Cloud) -> None:
    cloud.launch(alice.context)
    cloud.run()
    for path in INDEX:
        model = apps.get_model(*path.strip("/").split("/")[1:])
        first = model._default_manager.first()
        if first is not None:
            assert admin.get(f"{path}{first.pk}/change/").status_code == 200, path


# --- hosts ----------------------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_a_host_is_disabled_with_a_reason_and_enabled_again(admin: Client, cloud: Cloud) -> None:
    host = Host.objects.get()
    path = f"/admin/hosts/host/{host.pk}/change/"
    fields = {
        "availability_zone": "rack-2",
        "cpu_allocation_ratio": "2.5",
        "ram_allocation_ratio": "1",
        "disk_allocation_ratio": "1",
        "reserved_memory_mb": "256",
        "reserved_disk_gb": "0",
    }
    assert admin.post(path, {**fields, "disabled_reason": "new fan"}).status_code == 302
    host.refresh_from_db()
    assert (host.enabled, host.disabled_reason) == (False, "new fan")
    assert (host.availability_zone, host.cpu_allocation_ratio, host.reserved_memory_mb) == ("rack-2", 2.5, 256)
    act(admin, "/admin/hosts/host/", "enable", [host])
    host.refresh_from_db()
    assert (host.enabled, host.disabled_reason) == (True, "")
    act(admin, "/admin/hosts/host/", "disable", [host])
    host.refresh_from_db()
    assert host.disabled_reason == "Disabled by operator."


@pytest.mark.slow
def test_what_a_host_measured_cannot_be_written(admin: Client, cloud: Cloud) -> None:
    host = Host.objects.get()
    before = (host.vcpus_total, host.vcpus_allocated, host.credential_digest)
    admin.post(f"/admin/hosts/host/{host.pk}/change/", {"vcpus_total": "9999", "vcpus_allocated": "0"})
    host.refresh_from_db()
    assert (host.vcpus_total, host.vcpus_allocated, host.credential_digest) == before
    assert host.credential_digest not in admin.get(f"/admin/hosts/host/{host.pk}/change/").content.decode()
    assert admin.get("/admin/hosts/host/add/").status_code == 403
    assert admin.post(f"/admin/hosts/host/{host.pk}/delete/").status_code == 403


def test_a_join_token_is_shown_once_with_the_command(admin: Client, db: None) -> None:
    answer = admin.post("/admin/hosts/host/join/", {"host_name": "rack-1", "lifetime": "3600"})
    page = answer.content.decode()
    assert answer.context["token"] in page
    assert "--host rack-1" in page
    assert "no-store" in answer.headers["Cache-Control"]
    assert JoinToken.objects.get().host_name == "rack-1"
    assert answer.context["token"] not in admin.get("/admin/hosts/host/join/").content.decode()


# --- instances and images -------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_the_list_of_instances_costs_the_same_however_long_it_is(admin: Client, alice: Person, cloud: Cloud) -> None:
    def cost() -> int:
        with CaptureQueriesContext(connection) as queries:
            admin.get("/admin/compute/instance/")
        return len(queries)

    cloud.launch(alice.context)
    cost()
    once = cost()
    for _ in range(3):
        cloud.launch(alice.context)
    assert cost() == once


@pytest.mark.slow
def test_instances_are_deleted_after_a_question(admin: Client, alice: Person, cloud: Cloud) -> None:
    instance = cloud.launch(alice.context)
    cloud.run()
    question = act(admin, "/admin/compute/instance/", "delete_instances", [instance])
    assert "Delete these instances?" in question.content.decode()
    assert state_of(instance) == ("active", None)
    act(admin, "/admin/compute/instance/", "delete_instances", [instance], confirmed="yes")
    assert state_of(instance) == ("active", "deleting")
    cloud.run()
    assert state_of(instance) == ("deleted", None)


@pytest.mark.slow
def test_stop_and_start_say_what_was_refused(admin: Client, alice: Person, cloud: Cloud) -> None:
    running, building = cloud.launch(alice.context, name="running"), None
    cloud.run()
    building = cloud.launch(alice.context, name="still-building")
    rows = [running, building]
    page = act(admin, "/admin/compute/instance/", "stop_instances", rows, confirmed="yes").content.decode()
    assert "Instances being stopped: 1." in page
    assert "till-building: Cannot &#x27;stop&#x27;" in page
    cloud.run()
    act(admin, "/admin/compute/instance/", "start_instances", [running])
    assert state_of(running) == ("stopped", "powering-on")


@pytest.mark.slow
def test_a_launch_can_be_given_up(admin: Client, alice: Person, cloud: Cloud) -> None:
    instance = cloud.launch(alice.context)
    act(admin, "/admin/compute/instance/", "give_up", [instance], confirmed="yes")
    assert state_of(instance) == ("error", None)
    page = act(admin, "/admin/compute/instance/", "give_up", [instance], confirmed="yes").content.decode()
    assert "It is not being launched." in page


def test_an_instance_cannot_be_written(admin: Client, alice: Person, cloud: Cloud) -> None:
    instance = cloud.launch(alice.context)
    assert admin.post(f"/admin/compute/instance/{instance.pk}/change/", {"vm_state": "active"}).status_code == 403
    assert admin.post(f"/admin/compute/instance/{instance.pk}/delete/", {"post": "yes"}).status_code == 403
    assert state_of(instance) == ("building", "scheduling")
    assert Instance.objects.count() == 1


def test_images_are_deleted_but_not_protected_ones(admin: Client, cloud: Cloud) -> None:
    kept = Image.objects.create(project_id=cloud.image.project_id, name="kept", status="active", protected=True)
    page = act(admin, "/admin/images/image/", "delete_images", [cloud.image, kept], confirmed="yes").content.decode()
    assert "Images deleted: 1." in page
    assert "is protected" in page
    kept.refresh_from_db()
    assert kept.status == "active"


# --- sizes and limits -----------------------------------------------------------------------------------------------
def test_a_flavor_is_made_described_and_removed(admin: Client, db: None) -> None:
    numbers = {"vcpus": "1", "memory_mb": "64", "root_gb": "1", "ephemeral_gb": "0", "swap_mb": "0", "rxtx_factor": "1"}
    admin.post("/admin/compute/flavor/add/", {"name": "tiny", "flavorid": "t1", "is_public": "on", **numbers})
    flavor = Flavor.objects.get()
    assert (flavor.name, flavor.flavorid, flavor.memory_mb) == ("tiny", "t1", 64)
    path = f"/admin/compute/flavor/{flavor.pk}/"
    admin.post(f"{path}change/", {"description": "for tests", "is_public": "on", "disabled": "on", "memory_mb": "9"})
    flavor.refresh_from_db()
    assert (flavor.description, flavor.disabled, flavor.memory_mb) == ("for tests", True, 64)
    admin.post(f"{path}change/", {"description": "for tests", "is_public": "on"})
    admin.post(f"{path}delete/", {"post": "yes"})
    assert not Flavor.objects.exists()


def test_limits_are_set_and_taken_back(admin: Client, alice: Person) -> None:
    add = "/admin/quotas/quotalimit/add/"
    admin.post(add, {"project_id": str(alice.project_id), "resource": "instances", "limit": "3"})
    admin.post(add, {"project_id": "", "resource": "cores", "limit": "-1"})
    assert limits_of(alice.project_id)["instances"] == 3
    assert limits_of(alice.project_id)["cores"] == -1
    admin.post(add, {"project_id": str(alice.project_id), "resource": "instances", "limit": "4"})
    assert limits_of(alice.project_id)["instances"] == 4
    own = alice.project_id
    row = next(iter(admin.get("/admin/quotas/quotalimit/").context["cl"].queryset.filter(project_id=own)))
    admin.post(f"/admin/quotas/quotalimit/{row.pk}/change/", {"limit": "5"})
    assert limits_of(own)["instances"] == 5
    admin.post(f"/admin/quotas/quotalimit/{row.pk}/delete/", {"post": "yes"})
    assert limits_of(own)["instances"] == 10


@pytest.mark.slow
def test_a_deleted_instance_says_who_deleted_it(people: People, admin: Client, cloud: Cloud) -> None:
    server = cloud.launch(people.alice.context, name="web-3")
    cloud.run()
    delete(people.alice.context, server.id)
    cloud.run()
    page = admin.get(f"/admin/compute/instance/{server.pk}/change/").content.decode()
    assert f'href="/instances/{server.pk}/"' not in page
    assert 'href="#actions-group"' in page
    activity = page[page.index('id="actions-group"') :]
    assert "delete" in activity
    assert people.alice.user.name in activity
    assert "start guest" in activity


@pytest.mark.slow
def test_the_page_of_an_instance_costs_the_same_however_much_was_done_to_it(
    people: People, admin: Client, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = cloud.launch(people.alice.context)
    cloud.run()

    def page() -> tuple[int, str]:
        with CaptureQueriesContext(connection) as queries:
            answer = admin.get(f"/admin/compute/instance/{server.pk}/change/")
        return len(queries), answer.content.decode()

    page()
    once, _ = page()
    for number in range(4):
        begin(replace(people.alice.context, request_id=f"req-no-{number}"), server.pk, "reboot", timezone.now())
    cost, shown = page()
    assert cost == once
    assert "req-no-0" in shown
    monkeypatch.setattr("portal.ops.admin.compute.instances.MOST_SHOWN", 2)
    _, shown = page()
    assert "req-no-3" in shown
    assert "req-no-1" not in shown
