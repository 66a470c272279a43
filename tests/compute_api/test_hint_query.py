"""The hint ``query`` over HTTP: obeyed, kept for later moves, and refused with the field's name when it is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from provisioning.compute.models import Instance
from tests.compute_api.conftest import V21, server_body
from tests.support.cast import Api
from tests.support.clouds import Cloud
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db
KEYS = ("os:scheduler_hints", "OS-SCH-HNT:scheduler_hints")
LARGE = [">=", "$total_usable_ram_mb", 30_000]


def response_of(api: Api, cloud: Cloud, query: object, key: str = KEYS[0]) -> Any:
    return api.post(f"{V21}/servers", server_body(cloud) | {key: {"query": query}})


@pytest.mark.parametrize("query", [LARGE, json.dumps(LARGE)])
@pytest.mark.parametrize("key", KEYS)
def test_a_query_chooses_among_the_hosts(api: Api, cloud: Cloud, query: object, key: str) -> None:
    cloud.add_host("large", memory_mb=65_536)
    for number in range(3):
        cloud.add_host(f"small-{number}", memory_mb=8192)
    answer = response_of(api, cloud, query, key)
    assert answer.status_code == 202, answer.content
    cloud.run()
    server = Instance.objects.get(id=answer.json()["server"]["id"])
    assert (server.host.name if server.host else None) == "large"
    assert server.scheduler_hints == {"query": LARGE}


def test_a_query_that_no_host_meets_is_reported_in_the_fault(api: Api, cloud: Cloud) -> None:
    server = Instance.objects.get(id=response_of(api, cloud, ["<", "$vcpus_total", 0]).json()["server"]["id"])
    cloud.run()
    message = server.faults.get().message
    assert message.endswith("1 host → 0 match the hint query: 1 host is excluded by the hint query.")


@each_row("query", ["", "nonsense", "[]", [], {}, {"=": 1}, ["=", "$host", "h1"], [[[[[[[[[[1]]]]]]]]]]])
def test_a_wrong_query_is_400_and_named(api: Api, cloud: Cloud, query: object) -> None:
    answer = response_of(api, cloud, query)
    assert answer.status_code == 400
    assert "query" in answer.json()["badRequest"]["message"]
    assert not Instance.objects.exists()


def test_a_cloud_without_the_filter_refuses_the_hint(api: Api, cloud: Cloud, settings: Any) -> None:
    settings.SCHEDULER_FILTERS = ["RamFilter"]
    answer = response_of(api, cloud, LARGE)
    assert answer.status_code == 400
    assert "'query' is not offered by this cloud; use one of group" in answer.json()["badRequest"]["message"]
