"""Moves between hosts, and the list of migrations, at the microversions of the reference."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from compute_agent.contract.commands import MOVES
from compute_agent.contract.migration import RECEIVER_TRAIT
from provisioning.compute.models import Instance, Migration
from provisioning.hosts.models import Host
from provisioning.identity.services.assignments import assign_role
from provisioning.identity.services.roles import ensure_role
from tests.compute_api.conftest import NEWEST, V21, launch
from tests.support.cast import Api, People, Person
from tests.support.clouds import Cloud
from tests.support.standing import derived, standing
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

NO_VALID_HOST = "No valid host was found. "
NO_RECEIVER = "No valid host was found. One host is not possible: Its libvirt cannot receive running guests."


def at(version: str) -> dict[str, str]:
    return {"OpenStack-API-Version": f"compute {version}"}


@pytest.fixture
@derived
def operator_api(people: People) -> Api:
    return Api(people.operator, **NEWEST)


@pytest.fixture
@standing
def server(api: Api, cloud: Cloud) -> str:
    """A server on one of two hosts, which cannot receive running guests."""
    cloud.add_host("h2")
    result = launch(api, cloud)
    Host.objects.update(traits=[])
    return result


def act(api: Api, ident: str, name: str, body: Any, version: str = "2.96") -> Any:
    return api.post(f"{V21}/servers/{ident}/action", {name: body}, **at(version))


def why(answer: Any, status: int) -> str:
    assert answer.status_code == status, answer.content
    [fault] = answer.json().values()
    return str(fault["message"])


def home(ident: str) -> str:
    host = Instance.objects.select_related("host").get(id=ident).host
    assert host is not None
    return host.name


def other(ident: str) -> str:
    return ({"h1", "h2"} - {home(ident)}).pop()


LIVE = {"host": None, "block_migration": "auto"}
OLD_LIVE = {"host": None, "block_migration": True, "disk_over_commit": "true"}


# ----- schemas --------------------------------------------------------------------------------------------------------


@each_row(
    ("name", "body", "version", "good"),
    [
        ("migrate", None, "2.1", True),
        ("migrate", {"anything": 1}, "2.55", True),
        ("migrate", {"anything": 1}, "2.56", False),
        ("migrate", {"host": "no host!"}, "2.56", False),
        ("migrate", {"host": None}, "2.56", True),
        ("migrate", {}, "2.56", True),
        ("os-migrateLive", OLD_LIVE, "2.1", True),
        ("os-migrateLive", OLD_LIVE, "2.24", True),
        ("os-migrateLive", OLD_LIVE, "2.25", False),
        ("os-migrateLive", LIVE, "2.24", False),
        ("os-migrateLive", LIVE, "2.25", True),
        ("os-migrateLive", LIVE | {"force": False}, "2.29", False),
        ("os-migrateLive", LIVE | {"force": False}, "2.30", True),
        ("os-migrateLive", LIVE | {"force": False}, "2.67", True),
        ("os-migrateLive", LIVE | {"force": False}, "2.68", False),
        ("os-migrateLive", {"block_migration": "auto"}, "2.96", False),
        ("os-migrateLive", {"host": None, "block_migration": "perhaps"}, "2.96", False),
        ("os-migrateLive", {"host": 5, "block_migration": True}, "2.96", False),
        ("os-migrateLive", None, "2.96", False),
        ("evacuate", {"onSharedStorage": True, "adminPass": "x"}, "2.1", True),
        ("evacuate", {}, "2.13", False),
        ("evacuate", {"onSharedStorage": True}, "2.14", False),
        ("evacuate", {}, "2.14", True),
        ("evacuate", {"force": False}, "2.28", False),
        ("evacuate", {"force": False}, "2.29", True),
        ("evacuate", {"force": False}, "2.68", False),
        ("evacuate", {"host": ""}, "2.96", False),
        ("evacuate", {"host": None}, "2.96", False),
    ],
)
def test_bodies_at_each_microversion(
    operator_api: Api, server: str, name: str, body: Any, version: str, *, good: bool
) -> None:
    Host.objects.update(contract_version=MOVES)
    answer = act(operator_api, server, name, body, version)
    if name == "migrate" and good:
        assert answer.status_code == 202, answer.content
        return
    message = why(answer, 400)
    refusal = {"evacuate": "still in use", "os-migrateLive": NO_RECEIVER}.get(name, NO_VALID_HOST)
    assert (refusal in message) is good, message


# ----- checks ---------------------------------------------------------------------------------------------------------


def test_a_cold_migration_is_judged(operator_api: Api, api: Api, server: str, cloud: Cloud) -> None:
    def to(host: str) -> str:
        return why(act(operator_api, server, "migrate", {"host": host}), 400)

    Host.objects.filter(name=home(server)).update(contract_version=MOVES)

    assert to(home(server)) == "Cannot migrate to the host where the server exists."
    assert to("nowhere") == "Compute host nowhere could not be found."
    assert "too old" in to(other(server))
    Host.objects.filter(name=home(server)).update(last_seen_at=timezone.now() - timedelta(hours=1))
    assert act(operator_api, server, "migrate", None).status_code == 409
    Host.objects.update(last_seen_at=timezone.now())
    act(api, server, "pause", None)
    cloud.run()
    assert "while it is in vm_state paused" in why(act(operator_api, server, "migrate", {"host": "nowhere"}), 409)
    assert not Migration.objects.exists()


def test_a_live_migration_is_judged_and_refused(operator_api: Api, api: Api, server: str, cloud: Cloud) -> None:
    def to(host: str | None, **more: Any) -> str:
        body = LIVE | {"host": host} | more
        return why(act(operator_api, server, "os-migrateLive", body, "2.67" if more else "2.96"), 400)

    assert to(None, force=True) == "Can't force to a non-provided destination"
    assert to("nowhere") == "Compute host nowhere could not be found."
    assert to(home(server)) == f"Unable to migrate instance ({server}) to current host ({home(server)})."
    assert to(other(server), force=True) == (
        "No valid host was found. The requested host cannot receive the server."
        " Its libvirt cannot receive running guests."
    )
    Host.objects.filter(name=other(server)).update(forced_down=True)
    assert to(other(server)) == f"Compute service of {other(server)} is unavailable at this time."
    act(api, server, "os-stop", None)
    cloud.run()
    assert why(act(operator_api, server, "os-migrateLive", LIVE), 409) == (
        f"Cannot 'os-migrateLive' instance {server} while it is in vm_state stopped"
    )


def test_a_locked_server_is_not_moved_but_by_an_operator(operator_api: Api, api: Api, server: str) -> None:
    Host.objects.update(contract_version=MOVES)
    act(api, server, "lock", None)
    assert act(operator_api, server, "migrate", None).status_code == 202


def test_a_cold_migration_is_listed(operator_api: Api, server: str) -> None:
    Host.objects.update(contract_version=MOVES)
    source, target = home(server), other(server)
    assert act(operator_api, server, "migrate", {"host": target}).status_code == 202
    [row] = listed(operator_api)
    assert (row["migration_type"], row["status"]) == ("migration", "migrating")
    assert (row["source_compute"], row["dest_compute"]) == (source, target)
    assert row["old_instance_type_id"] == row["new_instance_type_id"]
    shown = operator_api.get(f"{V21}/servers/{server}").json()["server"]
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("RESIZE", "resize_migrating")


# ----- the list -------------------------------------------------------------------------------------------------------


@pytest.fixture
@standing
def migration(api: Api, cloud: Cloud, server: str) -> Migration:
    act(api, server, "resize", {"flavorRef": "2"}, "2.1")
    cloud.run()
    return Migration.objects.get()


def listed(api: Api, query: str = "", version: str = "2.96") -> list[dict[str, Any]]:
    answer = api.get(f"{V21}/os-migrations{query}", **at(version))
    assert answer.status_code == 200, answer.content
    result: list[dict[str, Any]] = answer.json()["migrations"]
    return result


def test_a_resize_is_listed(operator_api: Api, people: People, cloud: Cloud, migration: Migration, server: str) -> None:
    [row] = listed(operator_api)
    host = home(server)
    moments = {name: row.pop(name) for name in ("created_at", "updated_at")}
    assert all(moment.endswith(("0", "5")) or "." in moment for moment in moments.values())
    assert row == {
        "id": migration.id,
        "uuid": str(migration.uuid),
        "instance_uuid": server,
        "migration_type": "resize",
        "status": "finished",
        "source_compute": host,
        "source_node": host,
        "dest_compute": host,
        "dest_node": host,
        "dest_host": "",
        "old_instance_type_id": cloud.small.id,
        "new_instance_type_id": cloud.big.id,
        "user_id": people.alice.user_id.hex,
        "project_id": people.alice.project_id.hex,
    }


@each_row(
    ("version", "missing"),
    [
        ("2.1", {"migration_type", "uuid", "user_id", "project_id"}),
        ("2.23", {"uuid", "user_id", "project_id"}),
        ("2.59", {"user_id", "project_id"}),
        ("2.80", set()),
    ],
)
def test_fields_appear_at_their_microversions(
    operator_api: Api, migration: Migration, version: str, missing: set[str]
) -> None:
    [row] = listed(operator_api, version=version)
    assert {"migration_type", "uuid", "user_id", "project_id"} - row.keys() == missing


@each_row(
    "query",
    [
        "status=finished",
        "migration_type=resize",
        "instance_uuid={server}",
        "host={host}",
        "source_compute={host}",
        "user_id={user}",
        "project_id={project}",
        "changes-since=2020-01-01T00:00:00Z",
        "changes-before=2100-01-01T00:00:00Z",
        "hidden=false",
    ],
)
def test_filters(operator_api: Api, people: People, migration: Migration, server: str, query: str) -> None:
    alice = people.alice
    text = query.format(server=server, host=home(server), user=alice.user_id.hex, project=alice.project_id.hex)
    assert len(listed(operator_api, f"?{text}")) == 1
    name = query.split("=")[0]
    if name.startswith("changes-"):
        shown = listed(operator_api, "")[0]["updated_at"][:19]
        assert len(listed(operator_api, f"?{name}={shown}Z")) == 1, "the second that is shown, whatever part of it"
    wrong = {"changes-since": "2100-01-01T00:00:00Z", "changes-before": "2020-01-01T00:00:00Z", "hidden": "true"}
    assert listed(operator_api, f"?{name}={wrong.get(name, 'other')}") == []


@each_row(
    ("query", "version", "status"),
    [
        ("unknown=1", "2.58", 200),
        ("unknown=1", "2.59", 400),
        ("limit=x", "2.59", 400),
        ("limit=x", "2.58", 200),
        ("marker=nobody", "2.59", 400),
        ("marker=7a739e4a-781b-437e-8fb8-162ffca8ff46", "2.59", 400),
        ("changes-since=yesterday", "2.59", 400),
        ("changes-before=2100-01-01T00:00:00Z", "2.65", 400),
        ("changes-since=2101-01-01T00:00:00Z&changes-before=2100-01-01T00:00:00Z", "2.66", 400),
        ("user_id=x", "2.79", 400),
        ("status=%00", "2.1", 400),
        ("instance_uuid=%00", "2.96", 400),
    ],
)
def test_queries_at_each_microversion(
    operator_api: Api, migration: Migration, query: str, version: str, status: int
) -> None:
    assert operator_api.get(f"{V21}/os-migrations?{query}", **at(version)).status_code == status


def test_pages(operator_api: Api, migration: Migration) -> None:
    for number in range(4):
        moment = timezone.now() + timedelta(seconds=number // 2)  # two at the same moment
        Migration.objects.create(
            instance_id=migration.instance_id,
            migration_type="resize",
            status="error",
            old_flavor={},
            new_flavor={},
            created_at=moment,
            updated_at=moment,
        )
    everything = [row["uuid"] for row in listed(operator_api)]
    seen: list[str] = []
    url = f"{V21}/os-migrations?limit=2"
    while url:
        body = operator_api.get(url).json()
        seen += [row["uuid"] for row in body["migrations"]]
        [link] = body.get("migrations_links", [{"href": ""}])
        url = link["href"].replace("http://testserver", "")
    assert seen == everything
    assert len(everything) == 5


def test_the_list_costs_the_same_whatever_its_length(
    operator_api: Api, migration: Migration, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    now = timezone.now()
    rows = [
        Migration(
            instance_id=migration.instance_id,
            migration_type="resize",
            status="error",
            source_compute="h1",
            old_flavor={},
            new_flavor={},
            created_at=now,
            updated_at=now,
        )
        for _ in range(50)
    ]
    Migration.objects.bulk_create(rows)
    with django_assert_max_num_queries(4):
        assert len(listed(operator_api)) == 51


def make_manager(*persons: Person) -> None:
    ensure_role("manager")
    for person in persons:
        assign_role(person.user, person.project, "manager")


@each_row("version", ["2.1", "2.58", "2.80", "2.96"])
def test_managers_see_those_of_their_project_without_hosts(
    people: People, migration: Migration, operator_api: Api, version: str
) -> None:
    make_manager(people.alice, people.charlie)
    alice, charlie = Api(people.alice, **at(version)), Api(people.charlie, **at(version))
    own, other = (f"{V21}/os-migrations?project_id={who.project_id.hex}" for who in (people.alice, people.charlie))
    [seen] = alice.get(own).json()["migrations"]
    [whole] = operator_api.get(own, **at(version)).json()["migrations"]
    hidden = {name: None for name in whole if name.startswith(("source_", "dest_"))}
    assert seen == whole | hidden
    assert whole["source_compute"]
    assert charlie.get(other).json()["migrations"] == []
    for refused in (f"{V21}/os-migrations", other, f"{own}x"):
        assert alice.get(refused).status_code == 403
    if version >= "2.80":
        assert charlie.get(f"{other}&marker={migration.uuid}").status_code == 400


def test_managers_ask_for_their_servers_to_be_moved_but_name_no_host(people: People, server: str) -> None:
    make_manager(people.alice, people.charlie)
    alice = Api(people.alice, **NEWEST)
    assert "too old" in why(act(alice, server, "migrate", None), 409)
    assert why(act(alice, server, "os-migrateLive", LIVE), 400) == NO_RECEIVER
    assert act(alice, server, "migrate", {"host": "h2"}).status_code == 403
    assert act(alice, server, "os-migrateLive", LIVE | {"host": "h2"}).status_code == 403
    assert alice.get(f"{V21}/servers/{server}/migrations").json() == {"migrations": []}
    for send, path in ((alice.get, "1"), (Api(people.charlie, **NEWEST).get, "")):
        status = 403 if path else 404
        assert send(f"{V21}/servers/{server}/migrations/{path}".rstrip("/")).status_code == status


# ----- live migrations of one server ----------------------------------------------------------------------------------


def test_no_server_is_in_a_live_migration(operator_api: Api, migration: Migration, server: str) -> None:
    url = f"{V21}/servers/{server}/migrations"
    assert operator_api.get(url).json() == {"migrations": []}
    assert why(operator_api.get(f"{url}/{migration.id}"), 404) == (
        f"Migration {migration.id} for server {server} is not live-migration."
    )
    for number in ("999", "x", "9" * 40, "-1", str(migration.uuid)):
        assert why(operator_api.get(f"{url}/{number}"), 404) == f"Migration {number} not found for instance {server}"
    Migration.objects.update(migration_type="live-migration", status="completed")
    assert why(operator_api.get(f"{url}/{migration.id}"), 404).endswith("is not in progress.")
    assert why(operator_api.delete(f"{url}/{migration.id}"), 409) == (
        f"Cannot 'abort live migration' instance {server} while it is in vm_state resized"
    )
    assert why(operator_api.post(f"{url}/{migration.id}/action", {"force_complete": None}), 409) == (
        f"Cannot 'force_complete' instance {server} while it is in vm_state resized"
    )
    for body in ({}, {"force_complete": {}}, {"other": None}, []):
        assert operator_api.post(f"{url}/{migration.id}/action", body).status_code == 400


def test_a_live_migration_is_shown_with_bytes_and_aborted(operator_api: Api, server: str) -> None:
    Host.objects.update(traits=[RECEIVER_TRAIT])
    url, source, target = f"{V21}/servers/{server}/migrations", home(server), other(server)
    assert act(operator_api, server, "os-migrateLive", LIVE).status_code == 202
    assert operator_api.get(f"{V21}/servers/{server}").json()["server"]["status"] == "MIGRATING"
    Migration.objects.update(memory_total_bytes=90, memory_processed_bytes=50, memory_remaining_bytes=40)
    [row] = operator_api.get(url).json()["migrations"]
    assert row == operator_api.get(f"{url}/{row['id']}").json()["migration"]
    shown = {name: row[name] for name in ("server_uuid", "status", "source_compute", "dest_compute")}
    assert shown == {
        "server_uuid": server, "status": "preparing", "source_compute": source, "dest_compute": target,
    }  # fmt: skip
    assert [row[f"memory_{name}_bytes"] for name in ("total", "processed", "remaining")] == [90, 50, 40]
    assert row["disk_total_bytes"] is None
    assert operator_api.delete(f"{url}/{row['id']}", **at("2.64")).status_code == 400
    assert operator_api.post(f"{url}/{row['id']}/action", {"force_complete": None}).status_code == 400
    assert operator_api.delete(f"{url}/{row['id']}").status_code == 202
    assert operator_api.get(url).json() == {"migrations": []}
    assert [each["status"] for each in listed(operator_api)] == ["cancelled"]


@each_row(
    ("method", "tail", "since"),
    [("get", "", "2.23"), ("get", "/1", "2.23"), ("delete", "/1", "2.24"), ("post", "/1/action", "2.22")],
)
def test_they_are_there_from_their_microversions_on(
    operator_api: Api, server: str, method: str, tail: str, since: str
) -> None:
    url = f"{V21}/servers/{server}/migrations{tail}"
    body = ({"force_complete": None},) if method == "post" else ()
    before = f"2.{int(since.split('.')[1]) - 1}"
    gone = getattr(operator_api, method)(url, *body, **at(before))
    assert why(gone, 404) == "The resource could not be found."
    there = getattr(operator_api, method)(url, *body, **at(since))
    assert there.status_code in {200, 409} or "Migration 1 not found" in why(there, 404)
