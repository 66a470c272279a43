"""What projects used, by the records of their servers."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext

from provisioning.compute.models import Instance
from tests.compute_api.conftest import V21
from tests.support.cast import Api, People
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db
USAGE = f"{V21}/os-simple-tenant-usage"
NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
WEEK = "start=2026-03-03T12:00:00&end=2026-03-10T12:00:00"
FLAVOR = {"name": "m1.small", "vcpus": 2, "memory_mb": 1024, "root_gb": 10, "ephemeral_gb": 5, "flavorid": "1"}


def at(version: str) -> dict[str, str]:
    return {"OpenStack_API_Version": f"compute {version}"}


@pytest.fixture(autouse=True)
def _at_noon() -> Any:
    with time_machine.travel(NOON, tick=False):
        yield


def ran(project: uuid.UUID, began: float | None, ended: float | None = None, **more: Any) -> Instance:
    """A server that began and ended so many hours before noon."""

    def moment(hours: float | None) -> datetime | None:
        return None if hours is None else NOON - timedelta(hours=hours)

    columns = {"name": "web", "vm_state": "deleted" if ended is not None else "active", "task_state": None} | more
    return Instance.objects.create(
        project_id=project,
        user_id=project,
        hostname="web",
        flavor=FLAVOR,
        reservation_id="r-1",
        request_id="req-1",
        created_at=NOON,
        updated_at=NOON,
        launched_at=moment(began),
        terminated_at=moment(ended),
        deleted_at=moment(ended),
        **columns,
    )


def usages(answer: Any) -> dict[str, float]:
    assert answer.status_code == 200, answer.content
    return {each["tenant_id"]: each["total_hours"] for each in answer.json()["tenant_usages"]}


def test_hours_count_what_lies_in_the_period(people: People) -> None:
    mine, other = people.alice.project_id, people.charlie.project_id
    ran(mine, 300, 200)  # before the period
    ran(mine, 200, 167)  # an hour of it
    ran(mine, 24)  # a day, and it still runs
    ran(mine, 10, 4)
    ran(mine, None)  # never launched
    ran(other, 500)  # the whole week
    operator = Api(people.operator)
    assert usages(operator.get(f"{USAGE}?{WEEK}")) == {mine.hex: 31.0, other.hex: 168.0}
    [result] = [
        each for each in operator.get(f"{USAGE}?{WEEK}").json()["tenant_usages"] if each["tenant_id"] == mine.hex
    ]
    assert result == {
        "tenant_id": mine.hex,
        "start": "2026-03-03T12:00:00.000000",
        "stop": "2026-03-10T12:00:00.000000",
        "total_hours": 31.0,
        "total_vcpus_usage": 62.0,
        "total_memory_mb_usage": 31.0 * 1024,
        "total_local_gb_usage": 31.0 * 15,
    }


def test_a_project_sees_its_servers_and_no_others(people: People) -> None:
    mine = people.alice.project_id
    server = ran(mine, 6, 2, name="gone")
    ran(people.charlie.project_id, 6)
    for person in (people.alice, people.bob, people.operator):
        shown = Api(person).get(f"{USAGE}/{mine.hex}?{WEEK}").json()["tenant_usage"]
        assert shown["server_usages"] == [
            {
                "instance_id": str(server.id),
                "name": "gone",
                "tenant_id": mine.hex,
                "flavor": "m1.small",
                "hours": 4.0,
                "vcpus": 2,
                "memory_mb": 1024,
                "local_gb": 15,
                "state": "terminated",
                "started_at": "2026-03-10T06:00:00.000000",
                "ended_at": "2026-03-10T10:00:00.000000",
                "uptime": 4 * 3600,
            }
        ]
    assert Api(people.charlie).get(f"{USAGE}/{mine.hex}").status_code == 403
    assert Api(people.alice).get(USAGE).status_code == 403
    assert Api(people.operator).get(f"{USAGE}/{uuid.uuid4().hex}?{WEEK}").json() == {"tenant_usage": {}}
    assert Api(people.operator).get(f"{USAGE}/nonsense?{WEEK}").json() == {"tenant_usage": {}}


def test_details_are_shown_when_asked_for(people: People) -> None:
    ran(people.alice.project_id, 3, vm_state="stopped")
    operator = Api(people.operator)
    for query, shown in (
        ("", False),
        ("&detailed=0", False),
        ("&detailed=1", True),
        ("&detailed=True", True),
        ("&detailed=yes", False),
    ):
        [project_usage] = operator.get(f"{USAGE}?{WEEK}{query}").json()["tenant_usages"]
        assert ("server_usages" in project_usage) == shown
        if shown:
            [server] = project_usage["server_usages"]
            assert (server["state"], server["ended_at"], server["uptime"]) == ("stopped", None, 3 * 3600)


@each_row(
    ("query", "hours"),
    [
        ("", None),
        ("start=2026-03-10T11:00:00", 1.0),
        ("start=2026-03-10T11:00:00.500000", 1 - 0.5 / 3600),
        ("start=2026-03-10%2011:30:00.0", 0.5),
        ("start=2026-03-10T10:00:00&end=2026-03-10T11:00:00", 1.0),
        ("start=2026-03-10T11:00:00&end=2030-01-01T00:00:00", 1.0),
        ("start=0001-01-01T00:00:00", 500.0),
    ],
)
def test_periods(people: People, query: str, hours: float | None) -> None:
    ran(people.alice.project_id, 500)
    result = usages(Api(people.operator).get(f"{USAGE}?{query}"))
    if hours is None:
        assert sum(result.values()) == 0
    else:
        assert result[people.alice.project_id.hex] == pytest.approx(hours)


@each_row(
    "query",
    [
        "start=yesterday",
        "start=2026-02-30T00:00:00",
        "start=2026-03-10",
        "start=2026-03-10%2011:30:00",
        "end=2026-13-01T00:00:00",
        "start=2026-03-10T11:00:00&end=2026-03-10T10:00:00",
        "start=2026-03-10T11:00:00&end=2026-03-10T11:00:00",
        "start=2027-01-01T00:00:00",
        "start=%00",
    ],
)
def test_wrong_periods_are_400(people: People, query: str) -> None:
    assert Api(people.operator).get(f"{USAGE}?{query}").status_code == 400
    assert Api(people.alice).get(f"{USAGE}/{people.alice.project_id.hex}?{query}").status_code == 400


def test_pages_from_2_40(people: People) -> None:
    mine, operator = people.alice.project_id, Api(people.operator)
    servers = sorted(str(ran(mine, 6).id) for _ in range(3))
    whole = operator.get(f"{USAGE}?{WEEK}&limit=2", **at("2.39"))
    assert usages(whole) == {mine.hex: 18.0}, "limit is not looked at before"
    assert "tenant_usages_links" not in whole.json()
    hours, url = [], f"{USAGE}?{WEEK}&limit=2&detailed=1"
    for _ in range(4):
        answer = operator.get(url, **at("2.40"))
        hours.append(usages(answer))
        links = answer.json().get("tenant_usages_links")
        if not links:
            break
        assert f"marker={servers[1]}" in links[0]["href"]
        url = links[0]["href"].partition("8000")[2]
    assert hours == [{mine.hex: 12.0}, {mine.hex: 6.0}]
    one = Api(people.alice).get(f"{USAGE}/{mine.hex}?{WEEK}&limit=1", **at("2.40")).json()
    assert len(one["tenant_usage"]["server_usages"]) == 1
    assert f"/os-simple-tenant-usage/{mine.hex}?" in one["tenant_usage_links"][0]["href"]
    for marker in ("nothing", str(uuid.uuid4())):
        assert operator.get(f"{USAGE}?{WEEK}&marker={marker}", **at("2.40")).status_code == 400
    elsewhere = ran(people.charlie.project_id, 6)
    foreign = Api(people.alice).get(f"{USAGE}/{mine.hex}?{WEEK}&marker={elsewhere.id}", **at("2.40"))
    assert foreign.status_code == 400


@pytest.mark.parametrize(("version", "status"), [("2.74", 200), ("2.75", 400)])
def test_unknown_parameters_are_refused_from_2_75(people: People, version: str, status: int) -> None:
    operator = Api(people.operator)
    assert operator.get(f"{USAGE}?{WEEK}&colour=red", **at(version)).status_code == status
    shown = operator.get(f"{USAGE}/{people.alice.project_id.hex}?{WEEK}&detailed=1", **at(version))
    assert shown.status_code == status, "detailed is for the list"


def test_many_servers_cost_as_many_queries_as_few(people: People) -> None:
    mine, operator = people.alice.project_id, Api(people.operator)
    counts = []
    for many in (1, 300):
        row = ran(mine, 6)
        rows = [Instance(**_columns(row)) for _ in range(many - 1)]
        Instance.objects.bulk_create(rows)
        with CaptureQueriesContext(connection) as captured:
            [project_usage] = operator.get(f"{USAGE}?{WEEK}&detailed=1").json()["tenant_usages"]
        counts.append((len(project_usage["server_usages"]), len(captured)))
    assert [servers for servers, _ in counts] == [1, 301]
    assert counts[0][1] == counts[1][1]


def _columns(row: Instance) -> dict[str, Any]:
    columns = {field.attname: getattr(row, field.attname) for field in Instance._meta.concrete_fields}
    return columns | {"id": uuid.uuid4()}
