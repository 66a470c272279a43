"""Server groups: listed with their instances, created and deleted."""

from __future__ import annotations

import pytest
from django.test import Client

from provisioning.compute.models import Instance, ServerGroup
from provisioning.compute.services.server_groups import create_server_group
from provisioning.quotas.services.limits import set_limit
from tests.dashboard.conftest import SignedIn
from tests.support.cast import Person
from tests.support.clouds import Cloud
from tests.support.tables import each_row

TYPED = {"name": "web", "policy": "anti-affinity", "max_server_per_host": "2"}


def test_a_group_is_created_and_shown_with_its_instances(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    answer = at_alice.post("/server-groups/create/", TYPED, follow=True)
    assert "web was created." in answer.content.decode()
    group = ServerGroup.objects.get()
    assert (group.name, group.policy, group.max_server_per_host) == ("web", "anti-affinity", 2)
    servers = [cloud.launch(alice.context, name=f"web-{number}") for number in range(7)]
    Instance.objects.filter(pk__in=[each.pk for each in servers]).update(server_group=group)
    page = at_alice.get("/server-groups/").content.decode()
    assert f'href="/instances/{servers[0].id}/"' in page
    assert "and 2 more" in page
    assert "Different hosts" in page


def test_a_deleted_group_keeps_its_instances(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    group = create_server_group(alice.context, "web", "affinity")
    server = cloud.launch(alice.context)
    Instance.objects.filter(pk=server.pk).update(server_group=group)
    question = at_alice.get(f"/server-groups/{group.id}/delete/").content.decode()
    assert "Its instances are kept." in question
    answer = at_alice.post(f"/server-groups/{group.id}/delete/", follow=True)
    assert "web was deleted." in answer.content.decode()
    assert not ServerGroup.objects.exists()
    assert Instance.objects.get(pk=server.pk).server_group is None


@each_row(
    ("changes", "field"),
    [
        ({"name": ""}, "name"),
        ({"policy": "nearby"}, "policy"),
        ({"policy": "affinity"}, "max_server_per_host"),
        ({"max_server_per_host": "0"}, "max_server_per_host"),
    ],
)
def test_wrong_input_is_shown_at_its_field(at_alice: Client, cloud: Cloud, changes: dict[str, str], field: str) -> None:
    answer = at_alice.post("/server-groups/create/", TYPED | changes)
    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == [field]
    assert not ServerGroup.objects.exists()


def test_the_quota_is_explained(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    set_limit(alice.project_id, "server_groups", 0)
    answer = at_alice.post("/server-groups/create/", TYPED)
    assert "The project&#x27;s quota is exceeded. Server groups: 0 of 0 used" in answer.content.decode()


@pytest.mark.parametrize("method", ["get", "post"])
def test_other_projects_groups_do_not_exist(
    at_alice: Client, charlie: Person, signed_in: SignedIn, cloud: Cloud, method: str
) -> None:
    group = create_server_group(charlie.context, "theirs", "affinity")
    assert "theirs" not in at_alice.get("/server-groups/").content.decode()
    assert getattr(at_alice, method)(f"/server-groups/{group.id}/delete/").status_code == 404
    assert ServerGroup.objects.filter(pk=group.pk).exists()
