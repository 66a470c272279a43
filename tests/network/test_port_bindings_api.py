"""Bindings of ports over the Networking API: the host of a port, and the second one during a live migration."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.network import services
from provisioning.network.models import Network, Port
from provisioning.network.services.ports.ports import bind
from tests.network.test_security_groups_api import V2, refused
from tests.support.cast import Api, Person
from tests.support.standing import standing

pytestmark = pytest.mark.django_db


@pytest.fixture
@standing
def port(alice: Person, net: Network) -> Port:
    return services.create_port(alice.project_id, net)


def listed(person: Person, port: Port, query: str = "") -> Any:
    answer = Api(person).get(f"{V2}/ports/{port.id}/bindings{query}")
    assert answer.status_code == 200, answer.content
    return answer.json()["bindings"]


def test_a_port_without_a_host_has_no_binding(operator: Person, port: Port) -> None:
    assert listed(operator, port) == []


def test_a_port_is_bound_to_both_hosts_of_a_live_migration(operator: Person, port: Port) -> None:
    bind([port], "host-1")
    Port.objects.filter(id=port.id).update(second_host="host-2")
    first, second = listed(operator, port)
    assert first == {
        "host": "host-1",
        "status": "ACTIVE",
        "vif_type": "bridge",
        "vif_details": {"port_filter": True},
        "vnic_type": "normal",
        "profile": {},
    }
    assert (second["host"], second["status"]) == ("host-2", "INACTIVE")
    assert listed(operator, port, "?status=INACTIVE&fields=host") == [{"host": "host-2"}]
    assert listed(operator, port, "?host=host-3") == []
    assert Api(operator).get(f"{V2}/ports/{port.id}/bindings?color=red").status_code == 400
    one = Api(operator).get(f"{V2}/ports/{port.id}/bindings/host-2")
    assert one.json() == {"binding": second}


def test_hosts_are_for_operators(alice: Person, charlie: Person, operator: Person, port: Port) -> None:
    bind([port], "host-1")
    assert listed(alice, port) == []
    for person, host in ((alice, "host-1"), (charlie, "host-1"), (operator, "host-2")):
        assert Api(person).get(f"{V2}/ports/{port.id}/bindings/{host}").status_code == 404
    assert Api(charlie).get(f"{V2}/ports/{port.id}/bindings").status_code == 404


def test_the_cloud_itself_activates_bindings(alice: Person, operator: Person, port: Port) -> None:
    bind([port], "host-1")
    Port.objects.filter(id=port.id).update(second_host="host-2")
    path = f"{V2}/ports/{port.id}/bindings"
    refused(Api(operator).put(f"{path}/host-1/activate", {}), 409, "PortBindingAlreadyActive")
    refused(Api(operator).put(f"{path}/host-2/activate", {}), 409, "PortBindingInMigration")
    refused(Api(operator).put(f"{path}/host-3/activate", {}), 404, "PortBindingNotFound")
    assert Api(alice).put(f"{path}/host-2/activate", {}).status_code == 403


def test_bindings_are_created_and_deleted_by_the_cloud(operator: Person, port: Port) -> None:
    path = f"{V2}/ports/{port.id}/bindings"
    assert Api(operator).post(path, {"binding": {"host": "host-2"}}).status_code == 405
    assert Api(operator).delete(f"{path}/host-2").status_code == 405
