"""The Django admin's pages of hosts, aggregates and server groups."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from provisioning.compute.models import Aggregate, ServerGroup
from provisioning.compute.services.server_groups import create_server_group
from provisioning.hosts.models import Host, HostCertificate
from provisioning.volumes.models import Attachment, Volume
from tests.ops.test_admin import act
from tests.support.cast import Person
from tests.support.clouds import Cloud
from tests.volumes.conftest import build

HOSTS, AGGREGATES = "/admin/hosts/host/", "/admin/compute/aggregate/"


@pytest.mark.slow
def test_hosts_are_forced_down_after_a_question_and_let_up(admin: Client, cloud: Cloud) -> None:
    host = Host.objects.get()
    question = act(admin, HOSTS, "force_down", [host]).content.decode()
    assert "Are these hosts powered off or isolated?" in question
    assert not Host.objects.get().forced_down
    page = act(admin, HOSTS, "force_down", [host], confirmed="yes").content.decode()
    assert "Hosts forced down: 1." in page
    assert "Forced down" in page
    assert Host.objects.get().forced_down
    act(admin, HOSTS, "clear_forced_down", [host])
    assert not Host.objects.get().forced_down


@pytest.mark.slow
def test_a_host_with_servers_is_not_forgotten(admin: Client, alice: Person, cloud: Cloud) -> None:
    cloud.launch(alice.context)
    cloud.run()
    page = act(admin, HOSTS, "forget", [Host.objects.get()], confirmed="yes").content.decode()
    assert "hosting instances" in page
    assert Host.objects.exists()


def test_an_empty_host_is_forgotten(admin: Client, cloud: Cloud) -> None:
    host = Host.objects.get()
    assert "Forget these hosts" in act(admin, HOSTS, "forget", [host]).content.decode()
    assert Host.objects.exists()
    assert "Hosts forgotten: 1." in act(admin, HOSTS, "forget", [host], confirmed="yes").content.decode()
    assert not Host.objects.exists()


@pytest.mark.both_databases("locks")
def test_a_host_in_an_aggregate_keeps_its_zone(admin: Client, cloud: Cloud) -> None:
    host = Host.objects.get()
    send(admin, "add/", name="rack", availability_zone="moon", members=[str(host.pk)])
    fields = {
        "enabled": "on",
        "availability_zone": "mars",
        "cpu_allocation_ratio": "1",
        "ram_allocation_ratio": "1",
        "disk_allocation_ratio": "1",
        "reserved_memory_mb": "0",
        "reserved_disk_gb": "0",
    }
    page = admin.post(f"{HOSTS}{host.pk}/change/", fields)
    assert "is determined by aggregate rack" in page.content.decode()
    assert Host.objects.get().availability_zone == "moon"


@pytest.mark.slow
def test_volumes_of_a_dead_host_are_given_back(admin: Client, alice: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    town = build(monkeypatch)
    town.alice = alice.context
    HostCertificate.objects.create(
        host=town.host, issued_at=timezone.now(), ends_at=timezone.now() + timedelta(days=2), digest="", trusted=""
    )
    attachment = town.attach(town.make())
    page = admin.get(f"{HOSTS}{town.host.pk}/change/").content.decode()
    assert f"attachment/?host__id__exact={town.host.pk}" in page
    assert "Ends soon" in page
    refused = act(admin, HOSTS, "give_back", [town.host], confirmed="yes").content.decode()
    assert "Force the host down first" in refused
    assert Attachment.objects.exists()
    act(admin, HOSTS, "force_down", [town.host], confirmed="yes")
    act(admin, HOSTS, "give_back", [town.host], confirmed="yes")
    assert not Attachment.objects.exists()
    assert Volume.objects.get().status == "available"
    assert ("released", attachment.id) in town.guests.notified


# ----- aggregates -----------------------------------------------------------------------------------------------------


def send(admin: Client, tail: str, **fields: Any) -> Any:
    return admin.post(AGGREGATES + tail, {"availability_zone": "", "metadata": "{}", **fields})


@pytest.mark.slow
def test_an_aggregate_is_made_changed_and_removed(admin: Client, cloud: Cloud) -> None:
    first, second = Host.objects.get(), cloud.add_host("h2").host
    made = send(
        admin, "add/", name="rack", availability_zone="moon", metadata='{"ssd": "true"}', members=[str(first.pk)]
    )
    assert made.status_code == 302
    aggregate = Aggregate.objects.get()
    assert (aggregate.name, aggregate.availability_zone, aggregate.metadata) == ("rack", "moon", {"ssd": "true"})
    assert Host.objects.get(pk=first.pk).availability_zone == "moon"
    page = admin.get(f"{AGGREGATES}{aggregate.pk}/change/").content.decode()
    assert f'<option value="{first.pk}" selected>' in page
    changed = send(
        admin,
        f"{aggregate.pk}/change/",
        name="row",
        availability_zone="mars",
        metadata='{"rack": "2"}',
        members=[str(second.pk)],
    )
    assert changed.status_code == 302
    aggregate.refresh_from_db()
    assert (aggregate.name, aggregate.metadata) == ("row", {"rack": "2"})
    assert dict(Host.objects.values_list("name", "availability_zone")) == {first.name: "nova", "h2": "mars"}
    page = admin.post(f"{AGGREGATES}{aggregate.pk}/delete/", {"post": "yes"}, follow=True).content.decode()
    assert "not empty" in page
    send(admin, f"{aggregate.pk}/change/", name="row")
    assert admin.post(f"{AGGREGATES}{aggregate.pk}/delete/", {"post": "yes"}).status_code == 302
    assert not Aggregate.objects.exists()
    assert set(Host.objects.values_list("availability_zone", flat=True)) == {"nova"}


def test_what_is_refused_changes_nothing(admin: Client, alice: Person, cloud: Cloud) -> None:
    """A host with servers stays in its zone, and with it everything that was to change at the same time."""
    cloud.launch(alice.context)
    cloud.run()
    host = Host.objects.get()
    page = send(admin, "add/", name="rack", availability_zone="moon", metadata='{"a": "b"}', members=[str(host.pk)])
    assert "would change their availability zone" in page.content.decode()
    assert not Aggregate.objects.exists()
    assert Host.objects.get().availability_zone == "nova"


@pytest.mark.parametrize("metadata", ['{"a": 1}', '["a"]', "nonsense"])
def test_metadata_is_text(admin: Client, cloud: Cloud, metadata: str) -> None:
    assert send(admin, "add/", name="rack", metadata=metadata).status_code == 200
    assert not Aggregate.objects.exists()


# ----- server groups --------------------------------------------------------------------------------------------------


def test_server_groups_are_to_look_at(admin: Client, alice: Person, cloud: Cloud) -> None:
    group = create_server_group(alice.context, "apart", "anti-affinity", 2)
    server = cloud.launch(alice.context, scheduler_hints={"group": str(group.id)})
    page = admin.get(f"/admin/compute/servergroup/{group.pk}/change/").content.decode()
    assert str(server.id) in page
    assert alice.project.name in page
    assert admin.post(f"/admin/compute/servergroup/{group.pk}/delete/", {"post": "yes"}).status_code == 403
    assert ServerGroup.objects.count() == 1


def test_what_a_host_says_of_itself_is_on_its_page(admin: Client, cloud: Cloud) -> None:
    Host.objects.update(warnings=["It lacks <something>."], repairs=[{"at": 0, "what": "network: DHCP of n"}])
    page = admin.get(f"{HOSTS}{Host.objects.get().pk}/change/").content.decode()
    assert "It lacks &lt;something&gt;." in page
    assert "1970-01-01 00:00:00 network: DHCP of n" in page
