"""A cloud with the records that resources refer to."""

from __future__ import annotations

import pytest

from provisioning.identity.services.catalog import create_service
from provisioning.identity.services.unified_limits import create_registered_limits
from provisioning.network import services as networking
from provisioning.volumes.models import GroupType, VolumeType
from tests.api.resources import World
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.standing import standing


@pytest.fixture
@standing
def world(people: People) -> World:
    alice, operator = people.alice, people.operator
    cloud = Cloud.make()
    agent = cloud.add_host("kelvin")
    agent.serve()
    service = create_service("dns").id.hex
    create_registered_limits([{"service_id": service, "resource_name": "zones", "default_limit": 1}])
    network = networking.create_network(alice.project_id, "net")
    networking.create_subnet(network, "10.20.0.0/24")
    outside = networking.create_network(operator.project_id, "outside", external=True)
    networking.create_subnet(outside, "203.0.113.0/24")
    group = networking.create_security_group(alice.project_id, "group")
    kind, together = VolumeType.objects.create(name="some"), GroupType.objects.create(name="together")
    made = Api(alice).post("/volume/v3/volumes", {"volume": {"size": 1}})
    agent.work()
    namespace = {"namespace": "Several"}
    assert Api(operator).post("/image/v2/metadefs/namespaces", namespace).status_code == 201
    ids = {
        "admin": operator.project_id.hex,
        "bob": people.bob.user_id.hex,
        "factory": people.charlie.project_id.hex,
        "group": str(group.id),
        "group_type": str(together.id),
        "network": str(network.id),
        "outside": str(outside.id),
        "project": alice.project_id.hex,
        "service": service,
        "user": alice.user_id.hex,
        "volume": made.json()["volume"]["id"],
        "volume_type": str(kind.id),
        **namespace,
    }
    return World(ids, agent, people)
