"""Several servers by one request, the reservation, partial success; and deleting more than once."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from provisioning.compute.models import Allocation, Instance, InstanceAction
from provisioning.hosts.models import Host
from provisioning.quotas.selectors import usage_of
from provisioning.quotas.services.limits import set_limit
from tests.compute_api.conftest import V21, launch, server_body
from tests.support import invariants
from tests.support.cast import Api, Person
from tests.support.clouds import Cloud
from tests.support.ports import guest_ports
from tests.support.tables import each_row

SERVERS = f"{V21}/servers"


def create(api: Api, cloud: Cloud, **changes: Any) -> Any:
    return api.post(SERVERS, server_body(cloud, return_reservation_id=True, **changes))


def made_by(api: Api, reservation: str) -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = api.get(f"{SERVERS}/detail?reservation_id={reservation}").json()["servers"]
    return result


@pytest.mark.parametrize(
    ("asked", "free", "made"),
    [
        ({"min_count": 2, "max_count": 6}, 4, 4),
        ({"min_count": 2, "max_count": 3}, 4, 3),
        ({"min_count": 4, "max_count": 9}, 4, 4),
        ({"max_count": 3}, 4, 3),
        ({"max_count": 9}, 1, 1),
        ({"min_count": 3}, 4, 3),
        ({"min_count": "2", "max_count": "3"}, 4, 3),
        ({"min_count": 5, "max_count": 9}, 4, 0),
        ({"min_count": 5}, 4, 0),
    ],
)
def test_as_many_as_the_quota_allows_and_at_least_the_least(
    api: Api, cloud: Cloud, alice: Person, asked: dict[str, Any], free: int, made: int
) -> None:
    set_limit(alice.project_id, "instances", free)
    answer = create(api, cloud, **asked)
    if not made:
        assert answer.status_code == 403
        assert "Quota exceeded" in answer.json()["forbidden"]["message"]
        assert not Instance.objects.exists()
        assert usage_of(alice.project_id)["instances"] == 0
        return
    assert answer.status_code == 202
    assert set(answer.json()) == {"reservation_id"}
    names = sorted(server["name"] for server in made_by(api, answer.json()["reservation_id"]))
    assert names == ([f"web-{number}" for number in range(1, made + 1)] if made > 1 else ["web"])
    cloud.run()
    invariants.check()


@pytest.mark.parametrize("resource", ["cores", "ram", "ports"])
def test_whichever_quota_is_the_narrowest_counts(api: Api, cloud: Cloud, alice: Person, resource: str) -> None:
    set_limit(alice.project_id, resource, {"cores": 2, "ram": 2048 + 1023, "ports": 2}[resource])
    assert len(made_by(api, create(api, cloud, max_count=5).json()["reservation_id"])) == 2


def test_a_reservation_is_the_requests_alone(api: Api, cloud: Cloud) -> None:
    first, second = (create(api, cloud, min_count=2).json()["reservation_id"] for _ in range(2))
    assert first != second
    rows = Instance.objects.filter(reservation_id=first).order_by("launch_index")
    assert list(rows.values_list("launch_index", flat=True)) == [0, 1]
    assert len(set(InstanceAction.objects.filter(instance__in=rows).values_list("request_id", flat=True))) == 1
    plain = api.post(SERVERS, server_body(cloud, min_count=2))
    assert "reservation_id" not in plain.json()
    assert plain.json()["server"]["id"]


@pytest.mark.slow
def test_one_that_finds_no_host_leaves_the_others(api: Api, cloud: Cloud) -> None:
    for agent in cloud.agents.values():
        Host.objects.filter(id=agent.host.id).update(memory_mb_total=1024)
    rooms = len(cloud.agents)
    answer = create(api, cloud, min_count=rooms + 2)
    cloud.run()
    result = made_by(api, answer.json()["reservation_id"])
    assert Counter(server["status"] for server in result) == {"ACTIVE": rooms, "ERROR": 2}
    for server in result:
        if server["status"] == "ERROR":
            assert server["fault"]["message"].startswith("No valid host was found.")
    assert Allocation.objects.count() == rooms
    invariants.check()


@pytest.mark.slow
def test_one_that_fails_on_its_host_leaves_the_others(api: Api, cloud: Cloud) -> None:
    cloud.network.subnets.update(allocation_pools=[{"start": "10.20.0.10", "end": "10.20.0.11"}])
    answer = create(api, cloud, min_count=3)
    cloud.run()
    result = made_by(api, answer.json()["reservation_id"])
    assert Counter(server["status"] for server in result) == {"ACTIVE": 2, "ERROR": 1}
    invariants.check()


@pytest.mark.parametrize("interface", ["port", "fixed_ip"])
def test_what_only_one_can_have_is_not_for_several(api: Api, cloud: Cloud, interface: str) -> None:
    launch(api, cloud)
    port = guest_ports().get()
    one = {"port": str(port.id)} if interface == "port" else {"uuid": str(cloud.network.id), "fixed_ip": "10.20.0.50"}
    answer = create(api, cloud, min_count=2, networks=[one])
    assert answer.status_code == 400
    assert Instance.objects.count() == 1


@each_row("wrong", [0, -1, "x", 101, 10**30, None, [], 1.5])
@each_row("field", ["min_count", "max_count"])
def test_a_wrong_count_is_400(api: Api, cloud: Cloud, field: str, wrong: Any) -> None:
    body = server_body(cloud)
    body["server"][field] = wrong
    answer = api.post(SERVERS, body)
    assert answer.status_code == 400
    assert field in answer.json()["badRequest"]["message"]
    assert not Instance.objects.exists()


def test_the_second_delete_answers_as_the_reference_says(api: Api, cloud: Cloud, server: str) -> None:
    """204 as long as it goes, 404 when it is gone."""
    assert api.delete(f"{SERVERS}/{server}").status_code == 204
    assert api.get(f"{SERVERS}/{server}").json()["server"]["OS-EXT-STS:task_state"] == "deleting"
    assert api.delete(f"{SERVERS}/{server}").status_code == 204
    cloud.run()
    assert api.delete(f"{SERVERS}/{server}").status_code == 404
    assert api.get(f"{SERVERS}/{server}").status_code == 404
    assert InstanceAction.objects.filter(action="delete").count() == 1


def test_with_its_host_down_it_is_gone_at_the_first(api: Api, cloud: Cloud, server: str) -> None:
    Host.objects.update(last_seen_at=timezone.now() - timedelta(hours=1))
    assert api.delete(f"{SERVERS}/{server}").status_code == 204
    assert api.get(f"{SERVERS}/{server}").status_code == 404
    assert api.delete(f"{SERVERS}/{server}").status_code == 404
    for agent in cloud.agents.values():
        agent.hello()
    cloud.run()
    assert all(agent.guests == {} for agent in cloud.agents.values())
    invariants.check_empty()
