"""``novella-measures``: what a server, a host, the project and the cloud use."""

from __future__ import annotations

import time
import uuid

import pytest
from django.utils import timezone

from compute_agent.contract.samples import GUEST_SERIES, HOST_SERIES, GuestSample, Samples
from provisioning.compute.models import Instance
from provisioning.hosts.models import Host
from provisioning.measures import collect, inbound
from provisioning.measures.pools import collect_pools
from provisioning.volumes.models import PoolHost, StoragePool
from tests.compute_api.conftest import V21, launch
from tests.support.cast import Api, People
from tests.support.clouds import Cloud

pytestmark = pytest.mark.django_db


@pytest.fixture
def server(api: Api, cloud: Cloud) -> Instance:
    instance = Instance.objects.get(id=launch(api, cloud))
    assert instance.host_id is not None
    now = time.time()
    frame = Samples(
        host=[1.0] * len(HOST_SERIES),
        guests=[GuestSample(instance_id=str(instance.id), values=[0.5] * len(GUEST_SERIES))],
    )
    for slot in range(int(now - 300) // 10, int(now) // 10):
        inbound.receive(instance.host_id, slot, frame, inbound.Inbox(), now)
    collect.collect(now)
    return instance


def test_a_server_has_averages_and_maximums(api: Api, server: Instance) -> None:
    measures = api.get(f"{V21}/servers/{server.id}/novella-measures").json()["measures"]
    assert (measures["span"], measures["step"], list(measures["series"])) == ("1h", 10, list(GUEST_SERIES))
    cpu = measures["series"]["cpu"]
    assert len(cpu["average"]) == len(cpu["maximum"]) == 360
    assert cpu["average"][-20] == pytest.approx(0.5, rel=0.01)
    assert cpu["average"][0] is None


def test_the_query_chooses_span_series_and_points(api: Api, server: Instance) -> None:
    path = f"{V21}/servers/{server.id}/novella-measures"
    measures = api.get(f"{path}?span=24h&series=cpu&series=memory&points=48").json()["measures"]
    assert (measures["step"], list(measures["series"])) == (1800, ["cpu", "memory"])
    assert len(measures["series"]["cpu"]["average"]) == 48
    for wrong in ("span=2h", "series=price", "points=0", "points=99999", "points=x"):
        assert api.get(f"{path}?{wrong}").status_code == 400


def test_the_project_sees_the_sum_of_its_servers(api: Api, people: People, server: Instance) -> None:
    cpu = api.get(f"{V21}/novella-measures?series=cpu").json()["measures"]["series"]["cpu"]["average"]
    assert cpu[-20] == pytest.approx(0.5, rel=0.01)
    other = Api(people.charlie).get(f"{V21}/novella-measures").json()["measures"]["series"]["cpu"]["average"]
    assert set(other) == {None}


def test_another_projects_server_and_an_unknown_host_are_not_found(api: Api, people: People, server: Instance) -> None:
    assert Api(people.charlie).get(f"{V21}/servers/{server.id}/novella-measures").status_code == 404
    for unknown in (uuid.uuid4(), "nonsense"):
        assert Api(people.operator).get(f"{V21}/os-hypervisors/{unknown}/novella-measures").status_code == 404


def test_operators_see_hosts_and_the_cloud(people: People, server: Instance) -> None:
    for path in (f"os-hypervisors/{server.host_id}/novella-measures", "novella-measures/cloud"):
        series = Api(people.operator).get(f"{V21}/{path}").json()["measures"]["series"]
        assert series["load"]["average"][-20] == pytest.approx(1.0, rel=0.01)


def test_operators_see_pools(people: People) -> None:
    pool = StoragePool.objects.create(name="fast", driver="nbd", total_gb=100, free_gb=60)
    host = Host.objects.create(name="h", last_seen_at=timezone.now())
    PoolHost.objects.create(pool=pool, host=host, last_seen_at=timezone.now())
    collect_pools(time.time())
    path = f"{V21}/novella-measures/pools/{pool.id}"
    series = Api(people.operator).get(f"{path}?series=used&series=size").json()["measures"]["series"]
    assert {name: [round(each) for each in result["average"] if each] for name, result in series.items()} == {
        "used": [40] * 12,
        "size": [100] * 12,
    }
    assert Api(people.alice).get(path).status_code == 403
    for unknown in (uuid.uuid4(), "nonsense"):
        assert Api(people.operator).get(f"{V21}/novella-measures/pools/{unknown}").status_code == 404
