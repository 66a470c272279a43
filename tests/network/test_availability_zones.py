"""Hints at availability zones, and the zones where networks and routers are."""

from __future__ import annotations

import pytest

from provisioning.compute.launch.request import NetworkRequest
from provisioning.hosts.models import Host
from provisioning.network import services
from provisioning.network.models import Network, Router
from tests.network.test_security_groups_api import V2, made, refused
from tests.support.cast import Api, People
from tests.support.clouds import Cloud

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("kind", ["network", "router"])
def test_hints_name_zones_that_there_are(people: People, kind: str) -> None:
    Cloud.make().add_host("kelvin")
    api, url, before = Api(people.alice), f"{V2}/{kind}s", Network.objects.count()
    row = made(api, kind, availability_zone_hints=["nova"])
    assert (row["availability_zone_hints"], row["availability_zones"]) == (["nova"], [])
    assert made(api, kind)["availability_zone_hints"] == []
    body = {kind: {"availability_zone_hints": ["nova", "mars"]}}
    assert "mars could not be found" in refused(api.post(url, body), 404, "AvailabilityZoneNotFound")
    for wrong in ("nova", None, [1], [""], ["nova", "nova"], ["nova"] * 21):
        refused(api.post(url, {kind: {"availability_zone_hints": wrong}}), 400, "HTTPBadRequest")
    refused(api.put(f"{url}/{row['id']}", {kind: {"availability_zone_hints": []}}), 400, "HTTPBadRequest")
    assert (Network.objects.count() - before, Router.objects.count()) == ((2, 0) if kind == "network" else (0, 2))


@pytest.mark.slow
def test_zones_are_those_of_the_hosts_where_it_is(people: People) -> None:
    cloud, alice = Cloud.make(), people.alice
    cloud.add_host("kelvin", documents=True)
    Host.objects.update(availability_zone="west")
    own = services.create_network(alice.project_id, "own")
    router = services.create_router(alice.project_id)
    services.add_interface_by_subnet(router, services.create_subnet(own, "10.31.0.0/24"))
    api = Api(alice)

    def zones() -> list[list[str]]:
        shown = [api.get(f"{V2}/{kind}s/{row.id}").json()[kind] for kind, row in (("network", own), ("router", router))]
        return [each["availability_zones"] for each in shown]

    assert zones() == [[], []]
    server = cloud.running(alice.context, networks=(NetworkRequest(network_id=str(own.id)),))
    assert zones() == [["west"], ["west"]]
    assert api.delete(f"/compute/v2.1/servers/{server.id}").status_code == 204
    cloud.run()
    assert zones() == [[], []]
