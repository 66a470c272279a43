"""Search: by name, id, address, MAC address and tag, within what the caller sees."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from provisioning.common.errors import NotFoundError
from provisioning.compute.launch.request import NetworkRequest
from provisioning.compute.models import Instance
from provisioning.compute.services.key_pairs import create_key_pair
from provisioning.compute.services.server_groups import create_server_group
from provisioning.compute.services.tags import add_tag
from provisioning.network import services as network
from provisioning.network.models import Port
from provisioning.search.find import OF_KIND, Hit, one, search
from provisioning.volumes.models import Volume
from tests.support.cast import People, Person
from tests.support.clouds import Cloud
from tests.support.standing import standing


@pytest.fixture
@standing
def cloud(db: None) -> Cloud:
    cloud = Cloud.make()
    cloud.add_host("host-1")
    return cloud


@pytest.fixture
@standing
def web(alice: Person, cloud: Cloud) -> Instance:
    net = network.create_network(alice.project_id, "blue")
    network.create_subnet(net, "10.77.0.0/24", name="blue-v4")
    made = cloud.launch(alice.context, name="web-1", networks=(NetworkRequest(network_id=str(net.id)),))
    cloud.run()
    return made


def hits_of(person: Person, text: str) -> list[tuple[str, str]]:
    return [(hit.kind, hit.name) for hit in search(person.context, text)]


def port_of(server: Instance) -> Port:
    return Port.objects.get(device_id=server.id)


@pytest.mark.slow
def test_names_are_found_by_beginning_and_by_part(alice: Person, web: Instance) -> None:
    for text in ("web-1", "WEB", "eb-1", "  web-1  "):
        assert ("instance", "web-1") in hits_of(alice, text)
    assert hits_of(alice, "blue")[:2] == [("network", "blue"), ("subnet", "blue-v4")]
    assert hits_of(alice, "") == []
    assert hits_of(alice, "\0") == []


def test_ids_are_found_whole_and_by_their_beginning(alice: Person, web: Instance) -> None:
    for text in (str(web.id), web.id.hex, str(web.id)[:8], str(web.id)[:13].upper()):
        assert ("instance", "web-1") in hits_of(alice, text)
    assert hits_of(alice, str(uuid.uuid4())) == []


@pytest.mark.slow
def test_addresses_lead_to_their_owner(alice: Person, web: Instance) -> None:
    port = port_of(web)
    address = port.fixed_ips.get().address
    for text in (address, address[:-1], port.mac_address, port.mac_address.upper()):
        assert ("instance", "web-1") in hits_of(alice, text), text
    assert ("subnet", "blue-v4") in hits_of(alice, "10.77.0.0/24")
    (hit,) = (each for each in search(alice.context, address) if each.kind == "instance")
    assert hit.detail == address


def test_a_floating_ip_leads_to_its_instance(alice: Person, operator: Person, web: Instance) -> None:
    outside = network.create_network(operator.project_id, "outside", external=True)
    network.create_subnet(outside, "203.0.113.0/24", enable_dhcp=False)
    blue = port_of(web).network
    network.create_connected_router(alice.project_id, list(blue.subnets.all()), gateway=network.Gateway(outside))
    floating = network.create_floating_ip(alice.project_id, outside, port=port_of(web))
    kinds = hits_of(alice, floating.address)
    assert ("floating_ip", floating.address) in kinds
    assert ("instance", "web-1") in kinds


def test_tags_are_found(alice: Person, web: Instance) -> None:
    add_tag(alice.context, web.id, "Laboratory")
    assert ("instance", "web-1") in hits_of(alice, "labo")
    network.set_tags(port_of(web).network, ["physics"])
    assert ("network", "blue") in hits_of(alice, "physics")


@pytest.mark.slow
def test_another_projects_things_are_never_found(charlie: Person, alice: Person, web: Instance) -> None:
    port = port_of(web)
    create_key_pair(alice.context, "secret-key")
    add_tag(alice.context, web.id, "secret-tag")
    texts = (
        *("web-1", str(web.id), str(web.id)[:8], port.fixed_ips.get().address, port.mac_address, "blue", "secret"),
        *("10.77.0.0/24", str(port.id), str(port.network_id)),
    )
    for text in texts:
        assert hits_of(charlie, text) == [], text


def test_server_groups_are_found_with_their_policy(alice: Person, charlie: Person, operator: Person) -> None:
    group = create_server_group(alice.context, "apart", "anti-affinity")
    for person in (alice, operator):
        (hit,) = search(person.context, "apart")
        assert (hit.kind, hit.id, hit.detail) == ("server_group", str(group.id), "anti-affinity")
    assert hits_of(charlie, "apart") == []


@pytest.mark.slow
def test_operators_find_everything(operator: Person, alice: Person, web: Instance) -> None:
    port = port_of(web)
    assert ("instance", "web-1") in hits_of(operator, "web-1")
    assert ("instance", "web-1") in hits_of(operator, port.fixed_ips.get().address)
    assert ("network", "blue") in hits_of(operator, "blue")
    assert ("user", "alice") in hits_of(operator, "alice")
    assert ("project", "wonderland") in hits_of(operator, "wonder")
    assert ("host", "host-1") in hits_of(operator, "host-1")
    (hit,) = (each for each in search(operator.context, "web-1") if each.kind == "instance")
    assert hit.project_id == alice.project_id


def test_members_find_no_people_and_no_hosts(alice: Person, web: Instance) -> None:
    assert hits_of(alice, "charlie") == []
    assert hits_of(alice, "host-1") == []


def test_each_kind_is_bounded_and_the_exact_name_is_first(alice: Person, db: None) -> None:
    Volume.objects.bulk_create(
        Volume(project_id=alice.project_id, name=name, size_gb=1)
        for name in [*(f"data-{number}" for number in range(30)), "data"]
    )
    hits = hits_of(alice, "data")
    assert len(hits) == OF_KIND
    assert hits_of(alice, "data-29") == [("volume", "data-29")]


@pytest.mark.parametrize("text", ["%", "_", "'", '"; --', "\u202e", "😀", ":" * 300, "....", "ffffff", "-" * 40, "/"])
def test_strange_texts_find_nothing_and_break_nothing(alice: Person, web: Instance, text: str) -> None:
    assert [name for kind, name in hits_of(alice, text) if kind == "instance"] == []


def test_one_resource_is_found_by_kind_and_id(alice: Person, charlie: Person, web: Instance) -> None:
    hit = one(alice.context, "instance", str(web.id))
    assert isinstance(hit, Hit)
    assert hit.name == "web-1"
    wrong: list[tuple[Any, str, str]] = [
        (charlie, "instance", str(web.id)),
        (alice, "volume", str(web.id)),
        (alice, "nothing", str(web.id)),
        (alice, "instance", "nonsense"),
        (alice, "user", str(alice.user_id)),
    ]
    for person, kind, ident in wrong:
        with pytest.raises(NotFoundError):
            one(person.context, kind, ident)


def test_the_number_of_queries_does_not_depend_on_the_number_of_resources(
    people: People, web: Instance, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(60):
        hits_of(people.operator, "10.77.0.")
