"""Two users with dialogs of one resource: one of them is too late, is told so, and changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.test import Client
from django.urls import reverse

from provisioning.batches import services as batches
from provisioning.batches.models import Batch, BatchItem
from provisioning.compute.models import Flavor, Instance, InstanceAction
from provisioning.identity.services.domains import create_domain
from provisioning.identity.services.groups import create_group
from provisioning.identity.services.projects import create_project
from provisioning.identity.services.roles import create_role
from provisioning.images import services as images
from provisioning.launches.plans.plan import LaunchPlan
from provisioning.launches.services import snippets, templates
from provisioning.network import services as network
from provisioning.volumes.models import Backup
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.services import Create, CreateSnapshot, SnapshotRequest
from tests.dashboard.conftest import SignedIn
from tests.support.cast import People, Person, make_user
from tests.support.clouds import Cloud, state_of
from tests.support.standing import standing

pytestmark = pytest.mark.slow
HTMX = {"HX-Request": "true"}
DELETIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "backup": ("backup_delete", ("backup_restore",)),
    "domain": ("domain_delete", ("domain_edit",)),
    "flavor": ("flavor_delete", ()),
    "floating_ip": ("floating_ip_release", ("floating_ip_associate", "forwarding_add")),
    "group": ("group_delete", ("group_edit", "group_user_add", "group_role_give")),
    "image": ("image_delete", ("image_hardware", "image_share")),
    "launch_template": ("launch_template_delete", ("launch_template_edit", "launch_template_version_create")),
    "network": ("network_delete", ("network_edit", "subnet_create", "port_create")),
    "port": ("port_delete", ("port_edit", "port_groups", "port_floating_ip")),
    "project": ("project_delete", ("project_edit", "project_quotas", "member_add")),
    "role": ("role_delete", ("role_edit", "role_implications")),
    "router": ("router_delete", ("router_edit", "router_gateway", "router_interface_add", "router_route_add")),
    "security_group": ("security_group_delete", ("security_group_edit", "security_group_rule_add")),
    "snapshot": ("snapshot_delete", ("snapshot_edit", "snapshot_revert")),
    "snippet": ("snippet_delete", ("snippet_edit",)),
    "subnet": ("subnet_delete", ("subnet_edit",)),
    "volume": ("volume_delete", ("volume_edit", "volume_extend", "volume_attach", "snapshot_create", "backup_create")),
}
"""Kind → the question that deletes one, and other dialogs that may be open for it."""
ONCE = ("stop", "pause", "suspend", "reboot", "shelve")
"""Actions of a running server that cannot begin twice."""


@pytest.fixture
@standing
def colleague(people: People) -> Person:
    """Another operator in the operator's project."""
    return Person(make_user("olga", {people.operator.project: "admin"}), people.operator.project)


@pytest.fixture
def two(signed_in: SignedIn, people: People, colleague: Person) -> tuple[Client, Client]:
    return signed_in(people.operator), signed_in(colleague)


@pytest.fixture
@standing
def resources(people: People, cloud: Cloud) -> dict[str, Any]:
    """One resource of each kind that nothing uses: its id."""
    own, context = people.operator.project_id, people.operator.context
    domain = people.operator.project.domain
    net, unused = network.create_network(own, "own"), network.create_network(own, "unused")
    subnet = network.create_subnet(net, "10.66.0.0/24")
    outside = network.create_network(own, "outside", external=True)
    network.create_subnet(outside, "203.0.113.0/24", enable_dhcp=False)
    cloud.agents["host-1"].serve()
    source, volume = (Create.begin(context, VolumeRequest(size_gb=1, name=name)) for name in ("source", "data"))
    cloud.run()
    snapshot = CreateSnapshot.begin(context, source.id, SnapshotRequest(name="before"))
    cloud.run()
    disabled = create_domain("closed")
    disabled.enabled = False
    disabled.save(update_fields=["enabled"])
    project = create_project(domain, "closed")
    project.enabled = False
    project.save(update_fields=["enabled"])
    plan = LaunchPlan(name="web", image=str(cloud.image.id), flavor="1")
    made: dict[str, Any] = {
        "backup": Backup.objects.create(project_id=own, volume_id=source.id, size_gb=1, status="available"),
        "domain": disabled,
        "flavor": Flavor.objects.create(flavorid="odd", name="odd", vcpus=1, memory_mb=1, root_gb=1),
        "floating_ip": network.create_floating_ip(own, outside),
        "group": create_group(domain, "staff"),
        "image": images.create(context, name="i", disk_format="raw", container_format="bare"),
        "launch_template": templates.create_template(context, "Lab", "lab", plan, templates.Modes()),
        "network": unused,
        "port": network.create_port(own, network.create_network(own, "of-port")),
        "project": project,
        "role": create_role("auditor"),
        "router": network.create_connected_router(own, []),
        "security_group": network.create_security_group(own, "front"),
        "snapshot": snapshot,
        "snippet": snippets.create_snippet(context, "hello", "#cloud-config\npackages: [vim]\n"),
        "subnet": subnet,
        "volume": volume,
    }
    return {kind: record.flavorid if kind == "flavor" else record.pk for kind, record in made.items()}


@pytest.mark.parametrize("kind", DELETIONS)
def test_dialogs_of_what_another_user_has_deleted_change_nothing(
    two: tuple[Client, Client], resources: dict[str, Any], cloud: Cloud, kind: str
) -> None:
    mine, theirs = two
    deletion, others = DELETIONS[kind]
    addresses = [reverse(f"dashboard:{name}", args=[resources[kind]]) for name in (deletion, *others)]
    for address in addresses:
        assert mine.get(address, headers=HTMX).status_code == 200, address
    assert theirs.post(addresses[0]).status_code == 303
    cloud.run()
    for address in addresses:
        answer = mine.post(address, {"name": "typed", "confirmed": "1"})
        assert answer.status_code == 404, address
        assert "Nothing was changed" in answer.content.decode()
        assert mine.post(address, headers=HTMX).status_code == 404
        assert mine.get(address, headers=HTMX).status_code == 404


@pytest.fixture
@standing
def server(people: People, cloud: Cloud) -> Instance:
    return cloud.running(people.operator.context, name="web")


def levels_after(client: Client, address: str) -> list[str]:
    """Confirm a question, and return the levels of the messages that follow."""
    answer = client.post(address)
    assert answer.status_code == 303, answer.content
    return [str(message.level_tag) for message in get_messages(answer.wsgi_request)]


@pytest.mark.parametrize("button", ONCE)
def test_of_two_who_confirm_one_action_the_second_is_too_late(
    two: tuple[Client, Client], server: Instance, cloud: Cloud, button: str
) -> None:
    address = reverse("dashboard:instance_action", args=[server.id, button])
    for client in two:
        assert client.get(address, headers=HTMX).status_code == 200
    before = InstanceAction.objects.filter(instance=server).count()
    assert [levels_after(client, address) for client in two] == [["success"], ["error"]]
    assert InstanceAction.objects.filter(instance=server).count() == before + 1
    cloud.run()
    assert state_of(server)[1] is None


def test_a_server_that_two_users_delete_is_deleted_once(
    two: tuple[Client, Client], server: Instance, cloud: Cloud
) -> None:
    address = reverse("dashboard:instance_action", args=[server.id, "delete"])
    rename = reverse("dashboard:instance_rename", args=[server.id])
    for client in two:
        assert client.get(address, headers=HTMX).status_code == 200
        levels_after(client, address)
    cloud.run()
    assert state_of(server) == ("deleted", None)
    for client in two:
        assert client.post(address).status_code == 404
        assert client.post(rename, {"name": "late"}).status_code == 404
    server.refresh_from_db()
    assert server.name == "web"


def test_of_two_batches_about_the_same_servers_each_resource_has_a_result(
    people: People, colleague: Person, cloud: Cloud
) -> None:
    servers = [cloud.running(people.operator.context, name=f"web-{number}") for number in range(3)]
    ids = [str(each.id) for each in servers]
    for person in (people.operator, colleague):
        batches.create(person.context, batches.BatchRequest("instances", "delete", ids))
    cloud.run()
    assert [state_of(each) for each in servers] == [("deleted", None)] * 3
    rows = BatchItem.objects.values_list("resource_id", "state")
    assert sorted(row[0] for row in rows) == sorted([*ids, *ids])
    assert BatchItem.State.WAITING not in {row[1] for row in rows}
    assert not Batch.objects.filter(finished_at=None).exists()
