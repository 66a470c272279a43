"""Moves of instances to other hosts: the dialogs of operators, and the progress for operators and owners."""

from __future__ import annotations

import re
from datetime import timedelta
from unittest import mock

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from compute_agent.contract.migration import RECEIVER_TRAIT
from portal.dashboard import live
from portal.sockets.browser import OF_OPERATORS
from provisioning.common.errors import UnavailableError
from provisioning.compute.actions.live_migrate import LiveMigrate, LiveMigration
from provisioning.compute.actions.migrate import migrate
from provisioning.compute.models import Instance, Migration
from provisioning.compute.moves.hosts import set_bytes
from provisioning.compute.records.migration_records import open_migration, set_migration
from provisioning.compute.services.hosts import disable_host
from provisioning.events.models import Event
from provisioning.events.selectors import OPERATORS, LoggedEvent
from provisioning.hosts.models import Host
from tests.dashboard.conftest import SignedIn
from tests.support.cast import People
from tests.support.clouds import ADMIN, Cloud, context, state_of

MIB = 1 << 20


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


# ----- a move that is under way ---------------------------------------------------------------------------------------


@pytest.fixture
def moving(server: Instance) -> Migration:
    """A live migration of which a quarter is copied."""
    LiveMigrate.begin(context("operator", ADMIN), server.id, LiveMigration())
    Migration.objects.update(
        status="running",
        created_at=timezone.now() - timedelta(seconds=20),
        memory_total_bytes=MIB * 400,
        memory_processed_bytes=MIB * 100,
    )
    return Migration.objects.get(instance=server)


@pytest.mark.django_db
def test_a_move_is_shown_with_bytes_and_the_rest(signed_in: SignedIn, people: People, moving: Migration) -> None:
    address = reverse("dashboard:instance", args=[moving.instance_id])
    seen = {person: signed_in(person).get(address).content.decode() for person in (people.operator, people.alice)}
    for page in seen.values():
        assert "Moving to other hardware" in page
        assert "100 MiB of 400 MiB" in page
        assert re.search(r"About \d+ (s|min|h) left", page)
    abort = reverse("dashboard:instance_migration_abort", args=[moving.instance_id, moving.id])
    assert f'href="{abort}"' in seen[people.operator]
    assert moving.dest_compute in seen[people.operator]
    assert abort not in seen[people.alice]
    assert moving.dest_compute not in seen[people.alice].partition('id="instance-move"')[2].partition("</p>")[0]


@pytest.mark.django_db
def test_both_hosts_and_the_list_show_it(signed_in: SignedIn, people: People, moving: Migration) -> None:
    client = signed_in(people.operator)
    pages = [reverse("dashboard:host", args=[host.id]) for host in Host.objects.filter(name__in=("one", "two"))]
    assert len(pages) == 2
    for address in [*pages, reverse("dashboard:migrations"), f"{reverse('dashboard:migrations')}?host=two&state=open"]:
        page = client.get(address).content.decode()
        assert "100 MiB of 400 MiB" in page
        assert reverse("dashboard:instance_migration_abort", args=[moving.instance_id, moving.id]) in page
    assert "100 MiB" not in client.get(f"{reverse('dashboard:migrations')}?state=ended").content.decode()


def news(after: int) -> list[LoggedEvent]:
    """The events for operators after an id."""
    rows = Event.objects.filter(topic=OPERATORS, id__gt=after).order_by("id")
    return [LoggedEvent(*row) for row in rows.values_list("id", "topic", "kind", "payload")]


@pytest.mark.django_db
def test_an_open_list_of_migrations_gets_each_change(people: People, moving: Migration, cloud: Cloud) -> None:
    other = cloud.launch(people.alice.context)
    open_migration(people.operator.context, other, "migration", other.flavor)
    after = Event.objects.latest("id").id
    set_bytes(moving, memory_total=MIB * 400, memory_processed=MIB * 300)
    html = live.render("migrations", news(after), people.operator.context)
    assert "300 MiB of 400 MiB" in html
    assert html.count("<tr") == 1, "only the changed row"
    assert html.count("migration-") > 2, "the order of all rows"
    assert live.render("migrations?state=failed", news(after), people.operator.context).count("<tr") == 0
    assert live.render("migrations", news(after), people.alice.context) == ""
    after = Event.objects.latest("id").id
    set_migration(moving.instance_id, "completed")
    assert 'class="status ok"' in live.render("migrations", news(after), people.operator.context)


@pytest.mark.django_db
def test_an_open_list_of_hosts_gets_each_change(people: People, server: Instance) -> None:
    after = Event.objects.latest("id").id
    disable_host(people.operator.context, Host.objects.get(name="one").id, "new disk")
    html = live.render("hosts", news(after), people.operator.context)
    assert "new disk" in html
    assert live.render("hosts", news(after), people.alice.context) == ""


def test_the_lists_of_operators_follow_what_they_may_see() -> None:
    lists = {each.key: each for each in live.LISTS} | {each.live_kind: each for each in live.WATCHED}
    assert {name: page.rule for name, page in OF_OPERATORS.items()} == {name: lists[name].rule for name in OF_OPERATORS}
    assert all(page.kind in lists[name].kinds for name, page in OF_OPERATORS.items() if page.seconds)


@pytest.mark.django_db
def test_a_migration_is_aborted_once(signed_in: SignedIn, people: People, server: Instance) -> None:
    LiveMigrate.begin(context("operator", ADMIN), server.id, LiveMigration())
    row, client = Migration.objects.get(instance=server), signed_in(people.operator)
    address = reverse("dashboard:instance_migration_abort", args=[server.id, row.id])
    assert "Abort the migration of" in client.get(address).content.decode()
    assert client.post(address).status_code == 303
    row.refresh_from_db()
    assert (row.status, state_of(server)) == ("cancelled", ("active", None))
    for answer in (client.get(address, follow=True), client.post(address, follow=True)):
        assert "has already ended" in answer.content.decode()
    assert signed_in(people.alice).post(address).status_code == 403
    assert client.post(reverse("dashboard:instance_migration_abort", args=[server.id, row.id + 1])).status_code == 303


@pytest.mark.django_db
def test_a_host_that_does_not_answer_completes_nothing(signed_in: SignedIn, people: People, moving: Migration) -> None:
    address = reverse("dashboard:instance_migration_complete", args=[moving.instance_id, moving.id])
    client = signed_in(people.operator)
    assert "Complete the migration of" in client.get(address).content.decode()
    unavailable = UnavailableError("The server's host could not change the migration. Try again.")
    with mock.patch("portal.dashboard.instances.dialogs.moving.force_live_migration", side_effect=unavailable):
        assert "The instance&#x27;s host could not" in client.post(address, follow=True).content.decode()


@pytest.mark.django_db
def test_a_cold_move_says_that_it_is_stopped(signed_in: SignedIn, people: People, server: Instance) -> None:
    migrate(context("operator", ADMIN), server.id)
    address = reverse("dashboard:instance", args=[server.id])
    page = signed_in(people.alice).get(address).content.decode()
    assert "It is stopped in the meantime" in page
    assert "Force complete" not in signed_in(people.operator).get(address).content.decode()


@pytest.mark.django_db
def test_dialogs_call_it_an_instance(signed_in: SignedIn, people: People, server: Instance) -> None:
    client = signed_in(people.operator)
    for address in (
        reverse("dashboard:instance_migrate", args=[server.id]),
        reverse("dashboard:instance_live_migrate", args=[server.id]),
        reverse("dashboard:host_drain_start", args=[server.host_id]),
    ):
        page = client.get(address).content.decode()
        assert "nstance" in page
        assert not re.findall(r">[^<]*\bservers?\b[^<]*<", page), address


@pytest.mark.django_db
def test_a_resize_that_moves_says_so(signed_in: SignedIn, people: People, server: Instance) -> None:
    Host.objects.filter(id=server.host_id).update(memory_mb_total=2048, reserved_memory_mb=0)
    client = signed_in(people.alice)
    address = reverse("dashboard:instance_resize", args=[server.id])
    assert "moves to other hardware" in client.get(address).content.decode()
    page = client.post(address, {"flavor": "2"}, follow=True).content.decode()
    assert "moves to other hardware for its new size" in page
    assert "It is stopped in the meantime" in page
