"""Compute services: agents and workers, switched on and off, forced down, forgotten."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from provisioning.common.errors import NotAuthenticatedError
from provisioning.compute import selectors
from provisioning.compute.models import Aggregate, AggregateHost, Allocation, Instance, Migration
from provisioning.compute.upkeep import reaper
from provisioning.hosts import enrolment
from provisioning.hosts.models import Host, HostCommand, JoinToken
from provisioning.hosts.selectors import is_alive
from provisioning.jobs.queue import worker_groups
from provisioning.quotas.selectors import usage_of
from tests.compute_api.conftest import V21, launch
from tests.support import invariants
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db
SERVICES = f"{V21}/os-services"


def at(people: People, version: str) -> Api:
    return Api(people.operator, **{"OpenStack-API-Version": f"compute {version}"})


def listed(api: Api, **query: str) -> list[dict[str, Any]]:
    words = "&".join(f"{name}={value}" for name, value in query.items())
    result: list[dict[str, Any]] = api.get(f"{SERVICES}?{words}").json()["services"]
    return result


FIELDS = {"id", "binary", "host", "zone", "status", "state", "updated_at", "disabled_reason"}


@each_row(
    ("version", "more", "kind"),
    [("2.1", set(), int), ("2.10", set(), int), ("2.11", {"forced_down"}, int), ("2.53", {"forced_down"}, str)],
)
def test_fields_come_with_their_microversions(
    people: People, cloud: Cloud, version: str, more: set[str], kind: type
) -> None:
    [service] = listed(at(people, version))
    assert service.keys() == FIELDS | more
    assert isinstance(service["id"], kind)
    assert (service["binary"], service["host"], service["zone"]) == ("nova-compute", "h1", "nova")
    assert (service["status"], service["state"], service["disabled_reason"]) == ("enabled", "up", None)


@each_row("name", ["alice", "operator"])
def test_head_is_refused_where_get_is_not_a_method(people: People, cloud: Cloud, name: str) -> None:
    api, own = Api(getattr(people, name)), f"{SERVICES}/{listed(at(people, '2.53'))[0]['id']}"
    for answer in (api.head(own), api.get(own)):
        assert (answer.status_code, answer.headers["Allow"]) == (405, "PUT, DELETE")


def test_workers_are_services_of_the_internal_zone_while_they_live(people: People, cloud: Cloud) -> None:
    worker_groups.beat("m1:boot:1.2", ["scheduler"])
    worker_groups.beat("m1:boot:3.4", ["images"])
    worker_groups.beat("m2:boot:1.2", ["images"])
    worker_groups.WorkerBeat.objects.create(
        name="m3:boot:1.2", topics="scheduler", beat_at=timezone.now() - timedelta(seconds=30)
    )
    api = at(people, "2.53")
    workers = [(each["binary"], each["host"]) for each in listed(api) if each["zone"] == "internal"]
    assert workers == [("nova-conductor", "m1"), ("nova-conductor", "m2"), ("nova-scheduler", "m1")]
    assert {each["host"] for each in listed(api, binary="nova-conductor")} == {"m1", "m2"}
    assert [each["binary"] for each in listed(api, host="h1")] == ["nova-compute"]
    assert listed(api, host="h1", binary="nova-scheduler") == []
    first = listed(api, host="m1", binary="nova-scheduler")[0]["id"]
    assert listed(api, host="m1", binary="nova-scheduler")[0]["id"] == first


def test_workers_are_neither_changed_nor_deleted(people: People, cloud: Cloud) -> None:
    worker_groups.beat("m1:boot:1.2", ["scheduler"])
    new, old = at(people, "2.53"), at(people, "2.11")
    worker = listed(new, binary="nova-scheduler")[0]["id"]
    refused = new.put(f"{SERVICES}/{worker}", {"status": "disabled"})
    assert refused.status_code == 400
    assert "Only nova-compute services can be updated" in refused.json()["badRequest"]["message"]
    assert old.put(f"{SERVICES}/disable", {"host": "m1", "binary": "nova-scheduler"}).status_code == 400
    assert new.delete(f"{SERVICES}/{worker}").status_code == 409


def test_unknown_parameters_are_refused_from_2_75(people: People, cloud: Cloud) -> None:
    assert at(people, "2.74").get(f"{SERVICES}?colour=red").status_code == 200
    assert at(people, "2.75").get(f"{SERVICES}?colour=red").status_code == 400
    assert at(people, "2.75").get(f"{SERVICES}?host=h1&host=h2").status_code == 200


# ----- up to 2.52: by host and binary ---------------------------------------------------------------------------------

NAMED = {"host": "h1", "binary": "nova-compute"}


def test_a_host_is_disabled_and_enabled_by_its_name(people: People, cloud: Cloud) -> None:
    api = at(people, "2.1")
    assert api.put(f"{SERVICES}/disable", NAMED).json() == {"service": NAMED | {"status": "disabled"}}
    assert Host.objects.get().enabled is False
    assert api.put(f"{SERVICES}/enable", NAMED).json() == {"service": NAMED | {"status": "enabled"}}
    with_reason = NAMED | {"disabled_reason": "new fan"}
    answer = api.put(f"{SERVICES}/disable-log-reason", with_reason)
    assert answer.json() == {"service": with_reason | {"status": "disabled"}}
    assert Host.objects.get().disabled_reason == "new fan"
    api.put(f"{SERVICES}/enable", NAMED)
    assert Host.objects.get().disabled_reason == ""


def test_force_down_is_there_from_2_11(people: People, cloud: Cloud) -> None:
    body = NAMED | {"forced_down": True}
    assert at(people, "2.10").put(f"{SERVICES}/force-down", body).status_code == 404
    answer = at(people, "2.11").put(f"{SERVICES}/force-down", body)
    assert answer.json() == {"service": body}
    assert Host.objects.get().forced_down is True
    assert at(people, "2.52").put(f"{SERVICES}/force-down", NAMED | {"forced_down": "0"}).status_code == 200
    assert Host.objects.get().forced_down is False


@each_row(
    ("verb", "body", "status"),
    [
        ("disable", NAMED | {"host": "nowhere"}, 404),
        ("disable", NAMED | {"binary": "nova-nothing"}, 404),
        ("disable", {"host": "h1"}, 400),
        ("disable", {}, 400),
        ("disable", NAMED | {"host": "a b"}, 400),
        ("disable", NAMED | {"colour": "red"}, 400),
        ("disable", NAMED | {"disabled_reason": ""}, 400),
        ("disable", NAMED | {"disabled_reason": "x" * 256}, 400),
        ("disable-log-reason", NAMED, 400),
        ("force-down", NAMED, 400),
        ("force-down", NAMED | {"forced_down": "maybe"}, 400),
        ("destroy", NAMED, 404),
    ],
)
def test_what_is_wrong_with_the_old_form_is_reported(
    people: People, cloud: Cloud, verb: str, body: dict[str, Any], status: int
) -> None:
    assert at(people, "2.52").put(f"{SERVICES}/{verb}", body).status_code == status
    host = Host.objects.get()
    assert (host.enabled, host.forced_down) == (True, False)


# ----- from 2.53: by uuid ---------------------------------------------------------------------------------------------


def test_a_host_is_changed_by_its_uuid(people: People, cloud: Cloud) -> None:
    api = at(people, "2.53")
    path = f"{SERVICES}/{Host.objects.get().id}"
    answer = api.put(path, {"status": "disabled", "disabled_reason": "new fan", "forced_down": True}).json()["service"]
    assert answer.keys() == FIELDS | {"forced_down"}
    assert (answer["status"], answer["disabled_reason"], answer["forced_down"]) == ("disabled", "new fan", True)
    assert answer["state"] == "down"
    answer = api.put(path, {"forced_down": False}).json()["service"]
    assert (answer["status"], answer["disabled_reason"], answer["state"]) == ("disabled", "new fan", "up")
    answer = api.put(path, {"status": "enabled"}).json()["service"]
    assert (answer["status"], answer["disabled_reason"]) == ("enabled", None)


@each_row(
    ("ident", "body", "status"),
    [
        (None, {}, 400),
        (None, {"disabled_reason": "x"}, 400),
        (None, {"status": "enabled", "disabled_reason": "x"}, 400),
        (None, {"status": "off"}, 400),
        (None, {"status": ["enabled"]}, 400),
        (None, {"forced_down": "perhaps"}, 400),
        (None, NAMED, 400),
        ("5", {"status": "enabled"}, 400),
        ("enable", NAMED, 400),
        ("00000000-0000-0000-0000-000000000000", {"status": "enabled"}, 404),
    ],
)
def test_what_is_wrong_with_the_new_form_is_reported(
    people: People, cloud: Cloud, ident: str | None, body: dict[str, Any], status: int
) -> None:
    answer = at(people, "2.53").put(f"{SERVICES}/{ident or Host.objects.get().id}", body)
    assert answer.status_code == status, answer.content


# ----- forced down ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_host_that_is_forced_down_is_down_everywhere(people: People, cloud: Cloud, api: Api, server: str) -> None:
    operator = at(people, "2.53")
    operator.put(f"{SERVICES}/{Host.objects.get().id}", {"forced_down": True})
    host = Host.objects.get()
    assert not is_alive(host, timezone.now())
    assert [state.alive for state in selectors.host_states()] == [False]
    assert operator.get(f"{V21}/os-hypervisors").json()["hypervisors"][0]["state"] == "down"
    second = launch(api, cloud)
    assert Instance.objects.get(id=second).vm_state == "error"
    assert api.delete(f"{V21}/servers/{server}").status_code == 204
    assert Instance.objects.get(id=server).vm_state == "deleted", "a delete does not wait for its word"
    assert Allocation.objects.filter(instance_id=server).exists(), "what it may still run stays accounted for"


def test_a_delete_that_waits_for_a_host_ends_when_it_is_forced_down(
    people: People, cloud: Cloud, api: Api, server: str
) -> None:
    api.delete(f"{V21}/servers/{server}")
    assert Instance.objects.get(id=server).task_state == "deleting"
    reaper.reap()
    assert Instance.objects.get(id=server).task_state == "deleting"
    at(people, "2.53").put(f"{SERVICES}/{Host.objects.get().id}", {"forced_down": True})
    reaper.reap()
    assert Instance.objects.get(id=server).vm_state == "deleted"
    assert not HostCommand.objects.filter(kind="destroy_request", subject_id=server).exclude(generation=2).exists()


# ----- forgetting -----------------------------------------------------------------------------------------------------


def test_a_host_with_servers_is_not_forgotten(people: People, cloud: Cloud, api: Api) -> None:
    launch(api, cloud)
    answer = at(people, "2.53").delete(f"{SERVICES}/{Host.objects.get().id}")
    assert answer.status_code == 409
    assert "hosting instances" in answer.json()["conflictingRequest"]["message"]


@each_row(("status", "answer"), [("migrating", 409), ("finished", 409), ("confirmed", 204), ("reverted", 204)])
def test_a_host_that_a_server_may_go_back_to_is_not_forgotten(
    people: People, cloud: Cloud, api: Api, status: str, answer: int
) -> None:
    server, now = launch(api, cloud), timezone.now()
    gone = cloud.add_host("h2").host
    columns = {"old_flavor": {}, "new_flavor": {}, "created_at": now, "updated_at": now}
    Migration.objects.create(
        instance_id=server, migration_type="migration", status=status, source_compute="h2", dest_compute="h1", **columns
    )
    assert at(people, "2.53").delete(f"{SERVICES}/{gone.id}").status_code == answer
    assert Host.objects.filter(name="h2").exists() is (answer == 409)


@pytest.mark.slow
def test_a_forgotten_host_leaves_nothing(people: People, cloud: Cloud, api: Api) -> None:
    """Room, addresses and quota of deleted servers that waited for its word, its aggregates, tokens and orders."""
    agent = cloud.agents["h1"]
    server = launch(api, cloud)
    Host.objects.update(last_seen_at=timezone.now() - timedelta(hours=1))
    api.delete(f"{V21}/servers/{server}")
    assert Instance.objects.get(id=server).vm_state == "deleted"
    assert usage_of(people.alice.project_id)["ports"] == 1
    aggregate = Aggregate.objects.create(name="rack")
    AggregateHost.objects.create(aggregate=aggregate, host=agent.host)
    enrolment.create_join_token("h1")
    enrolment.create_join_token("h2")
    assert at(people, "2.53").delete(f"{SERVICES}/{agent.host.id}").status_code == 204
    assert not Host.objects.exists()
    assert not Allocation.objects.exists()
    assert not AggregateHost.objects.exists()
    assert Aggregate.objects.get() == aggregate
    assert usage_of(people.alice.project_id)["ports"] == 0
    assert list(JoinToken.objects.filter(used_at=None).values_list("host_name", flat=True)) == ["h2"]
    assert not HostCommand.objects.filter(finished_at=None).exists()
    assert Instance.objects.get(id=server).host is None
    invariants.check_empty()
    with pytest.raises(NotAuthenticatedError):
        enrolment.authenticate("h1", "x" * 64)
    cloud.agents.pop("h1")
    assert cloud.add_host("h1").host.id != agent.host.id, "it may come back, as a new host"


@pytest.mark.both_databases("locks")
def test_forgetting_names_a_service_as_the_version_does(people: People, cloud: Cloud) -> None:
    host = Host.objects.get()
    number = at(people, "2.52").get(SERVICES).json()["services"][0]["id"]
    assert at(people, "2.53").delete(f"{SERVICES}/{number}").status_code == 400
    assert at(people, "2.52").delete(f"{SERVICES}/{host.id}").status_code == 400
    assert at(people, "2.52").delete(f"{SERVICES}/{number + 1}").status_code == 404
    assert at(people, "2.52").delete(f"{SERVICES}/{number}").status_code == 204
    assert not Host.objects.exists()


def test_a_list_costs_the_same_however_many_there_are(
    people: People, cloud: Cloud, django_assert_max_num_queries: Any
) -> None:
    for number in range(5):
        cloud.add_host(f"more-{number}")
        worker_groups.beat(f"m{number}:boot:1.2", ["scheduler"])
    api = at(people, "2.53")
    api.get(SERVICES)
    with django_assert_max_num_queries(4):
        assert len(listed(api)) == 16
