"""The dialogs that move an instance to another host, for operators."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from compute_agent.contract.migration import RECEIVER_TRAIT
from provisioning.compute.models import Instance, Migration
from provisioning.hosts.models import Host
from tests.dashboard.conftest import SignedIn
from tests.support.cast import People
from tests.support.clouds import Cloud, state_of


@pytest.fixture
def server(cloud: Cloud, people: People) -> Instance:
    Host.objects.update(enabled=False)
    for number, agent in enumerate((cloud.add_host("one", documents=True), cloud.add_host("two", documents=True)), 1):
        address = f"192.0.2.{number}"
        Host.objects.filter(id=agent.host.id).update(host_ip=address, traits=[RECEIVER_TRAIT])
        agent.host.host_ip = address
    return cloud.running(people.alice.context)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("dialog", "kind", "task"),
    [("instance_migrate", "migration", "resize_migrating"), ("instance_live_migrate", "live-migration", "migrating")],
)
def test_an_operator_chooses_the_other_host(
    signed_in: SignedIn, people: People, server: Instance, dialog: str, kind: str, task: str
) -> None:
    client: Client = signed_in(people.operator)
    address = reverse(f"dashboard:{dialog}", args=[server.id])
    page = client.get(address).content.decode()
    [other] = {"one", "two"} - {server.host_name}
    assert f'value="{other}"' in page
    assert client.post(address, {"host": other}).status_code == 303
    assert state_of(server) == ("active", task)
    row = Migration.objects.get(instance=server)
    assert (row.migration_type, row.dest_compute) == (kind, other)


@pytest.mark.django_db
@pytest.mark.parametrize("dialog", ["instance_migrate", "instance_live_migrate"])
def test_owners_have_no_such_dialog(signed_in: SignedIn, people: People, server: Instance, dialog: str) -> None:
    assert signed_in(people.alice).get(reverse(f"dashboard:{dialog}", args=[server.id])).status_code == 403
