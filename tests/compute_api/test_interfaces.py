"""Interfaces, groups and addresses of servers over HTTP (Compute API reference: port interfaces, server actions)."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from provisioning.compute.models import Instance
from provisioning.network import services as network
from provisioning.network.models import Network, Port, SecurityGroup
from provisioning.quotas.services.limits import set_limit
from tests.compute_api.conftest import V21, launch, server_body
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.ports import guest_addresses, guest_ports
from tests.support.standing import standing
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

NOBODY = "5f1d2c3b-0000-4000-8000-000000000001"


def at(version: str) -> dict[str, str]:
    return {"OpenStack-API-Version": f"compute {version}"}


def attach(api: Api, ident: str, **wanted: Any) -> Any:
    return api.post(f"{V21}/servers/{ident}/os-interface", {"interfaceAttachment": wanted})


def act(api: Api, ident: str, name: str, body: Any) -> Any:
    return api.post(f"{V21}/servers/{ident}/action", {name: body})


def message(answer: Any, status: int) -> str:
    assert answer.status_code == status, answer.content
    [fault] = answer.json().values()
    assert fault["code"] == status
    return str(fault["message"])


@pytest.fixture
@standing
def server(api: Api, cloud: Cloud) -> str:
    return launch(api, cloud)


def other_network(cloud: Cloud, cidr: str = "10.21.0.0/24") -> Network:
    made = network.create_network(cloud.network.project_id, "other", shared=True)
    network.create_subnet(made, cidr)
    return made


# ----- interfaces -----------------------------------------------------------------------------------------------------


def test_no_server_is_put_on_an_external_network_that_one_only_sees(api: Api, cloud: Cloud, server: str) -> None:
    outside = other_network(cloud, "203.0.113.0/24")
    network.update_network(outside, {"external": True, "shared": False})
    words = f"It is not allowed to create an interface on external network {outside.id}"
    assert message(attach(api, server, net_id=str(outside.id)), 403) == words
    body = server_body(cloud, networks=[{"uuid": str(outside.id)}])
    assert message(api.post(f"{V21}/servers", body), 403) == words


@pytest.mark.slow
def test_an_operator_puts_servers_on_external_networks_and_on_those_of_others(
    cloud: Cloud, people: People, server: str
) -> None:
    outside, operator = other_network(cloud, "203.0.113.0/24"), Api(people.operator)
    network.update_network(outside, {"external": True, "shared": False})
    private = network.create_network(people.charlie.project_id, "theirs")
    bare = server_body(cloud, networks=[{"uuid": str(private.id)}])
    assert "requires a subnet" in message(operator.post(f"{V21}/servers", bare), 400)
    network.create_subnet(private, "10.23.0.0/24")
    for each in (outside, private):
        made = operator.post(f"{V21}/servers", server_body(cloud, networks=[{"uuid": str(each.id)}]))
        assert made.status_code == 202, made.content
        cloud.run()
        [port] = guest_ports().filter(device_id=made.json()["server"]["id"])
        assert (port.network_id, port.project_id) == (each.id, people.operator.project_id)
        assert attach(operator, server, net_id=str(each.id)).status_code == 200
    assert message(attach(Api(people.alice), server, net_id=str(private.id)), 404)


@pytest.mark.slow
def test_there_and_back(api: Api, cloud: Cloud, server: str) -> None:
    other = other_network(cloud)
    answer = attach(api, server, net_id=str(other.id), fixed_ips=[{"ip_address": "10.21.0.77"}])
    assert answer.status_code == 200
    interface = answer.json()["interfaceAttachment"]
    port = guest_ports().get(network=other)
    assert interface == {
        "port_state": "BUILD",
        "port_id": str(port.id),
        "net_id": str(other.id),
        "mac_addr": port.mac_address,
        "fixed_ips": [{"ip_address": "10.21.0.77", "subnet_id": str(other.subnets.get().id)}],
    }
    cloud.run()
    url = f"{V21}/servers/{server}/os-interface"
    assert api.get(f"{url}/{port.id}").json()["interfaceAttachment"] == {**interface, "port_state": "ACTIVE"}
    assert api.get(f"{url}/{port.id.hex}").status_code == 200
    _, attached = api.get(url).json()["interfaceAttachments"]
    assert attached["port_id"] == str(port.id)
    shown = api.get(f"{V21}/servers/{server}").json()["server"]
    assert [each["addr"] for each in shown["addresses"]["other"]] == ["10.21.0.77"]
    for _ in range(2):
        answer = api.delete(f"{url}/{port.id}")
        assert (answer.status_code, answer.content) == (202, b"")
    assert len(api.get(url).json()["interfaceAttachments"]) == 2
    cloud.run()
    assert len(api.get(url).json()["interfaceAttachments"]) == 1
    for answer in (api.get(f"{url}/{port.id}"), api.delete(f"{url}/{port.id}")):
        assert "port" in message(answer, 404).lower()
    done = [each["action"] for each in api.get(f"{V21}/servers/{server}/os-instance-actions").json()["instanceActions"]]
    assert sorted(done) == ["attach_interface", "create", "detach_interface"]


@pytest.mark.parametrize("body", [{}, {"interfaceAttachment": {}}])
def test_nothing_asked_for_is_the_only_network(api: Api, cloud: Cloud, server: str, body: dict[str, Any]) -> None:
    answer = api.post(f"{V21}/servers/{server}/os-interface", body)
    assert answer.json()["interfaceAttachment"]["net_id"] == str(cloud.network.id)
    other_network(cloud)
    text = message(api.post(f"{V21}/servers/{server}/os-interface", body), 400)
    assert text == "Multiple possible networks found, use a Network ID to be more specific."
    Network.objects.update(shared=False)
    text = message(api.post(f"{V21}/servers/{server}/os-interface", body), 400)
    assert text.startswith("No specific network was requested and none are available for project")


def test_tags_are_taken_from_2_49_and_shown_from_2_70(people: People, cloud: Cloud, api: Api, server: str) -> None:
    assert "tag" in message(attach(Api(people.alice, **at("2.48")), server, tag="back"), 400)
    answer = attach(Api(people.alice, **at("2.49")), server, tag="back")
    assert "tag" not in answer.json()["interfaceAttachment"]
    answer = attach(Api(people.alice, **at("2.70")), server, tag="more")
    assert answer.json()["interfaceAttachment"]["tag"] == "more"
    url = f"{V21}/servers/{server}/os-interface"
    listed = api.get(url, **at("2.70")).json()["interfaceAttachments"]
    assert [interface["tag"] for interface in listed] == [None, "back", "more"]
    port = listed[1]["port_id"]
    assert api.get(f"{url}/{port}", **at("2.70")).json()["interfaceAttachment"]["tag"] == "back"
    assert "tag" not in api.get(f"{url}/{port}", **at("2.69")).json()["interfaceAttachment"]
    for wrong in ("", "a,b", "a/b", "x" * 61, 7):
        message(attach(Api(people.alice, **at("2.49")), server, tag=wrong), 400)


def test_what_cannot_be_attached(api: Api, cloud: Cloud, people: People, server: str) -> None:
    used = str(guest_ports().get().id)
    net = str(cloud.network.id)
    address = guest_ports().get().fixed_ips.get().address
    foreign = network.create_port(people.charlie.project_id, cloud.network)
    bare = network.create_port(people.alice.project_id, cloud.network, fixed_ips=[])
    cases: list[tuple[dict[str, Any], int, str]] = [
        ({"net_id": net, "port_id": used}, 400, "Must not input both network_id and port_id"),
        ({"fixed_ips": [{"ip_address": "10.20.0.9"}]}, 400, "Must input network_id when request IP address"),
        (
            {"port_id": used, "fixed_ips": [{"ip_address": "10.20.0.9"}]},
            400,
            "Must input network_id when request IP address",
        ),
        ({"port_id": used}, 409, f"Port {used} is still in use."),
        ({"port_id": NOBODY}, 404, f"Port id {NOBODY} could not be found."),
        ({"port_id": str(foreign.id)}, 404, f"Port id {foreign.id} could not be found."),
        ({"port_id": str(bare.id)}, 400, f"Port {bare.id} requires a FixedIP in order to be used."),
        ({"net_id": NOBODY}, 404, f"Network {NOBODY} could not be found."),
        ({"net_id": net, "fixed_ips": [{"ip_address": address}]}, 409, "already in use"),
        ({"net_id": net, "fixed_ips": [{"ip_address": "10.99.0.9"}]}, 400, "is not a valid IP address"),
        ({"net_id": net, "fixed_ips": [{"ip_address": "fd00::1"}]}, 400, "is not a valid IP address"),
        ({"net_id": "x"}, 400, "net_id"),
        ({"net_id": None}, 400, "net_id"),
        ({"port_id": [used]}, 400, "port_id"),
        ({"net_id": net, "fixed_ips": []}, 400, "fixed_ips"),
        ({"net_id": net, "fixed_ips": [{"ip_address": "10.20.0.9"}] * 2}, 400, "fixed_ips"),
        ({"net_id": net, "fixed_ips": [{"ip_address": "here"}]}, 400, "ip_address"),
        ({"net_id": net, "fixed_ips": [{"ip_address": "fe80::1%eth0"}]}, 400, "ip_address"),
        ({"net_id": net, "more": 1}, 400, "more"),
    ]
    for body, status, text in cases:
        assert text in message(attach(api, server, **body), status), body
    for body in ([], "x", {"interfaceAttachment": None}, {"other": {}}):
        message(api.post(f"{V21}/servers/{server}/os-interface", body), 400)
    assert Port.objects.filter(device_id=server).count() == 1


@pytest.mark.slow
def test_quota_states_lock_and_strangers(api: Api, cloud: Cloud, people: People, server: str) -> None:
    url = f"{V21}/servers/{server}/os-interface"
    port = guest_ports().get().id
    set_limit(people.alice.project_id, "ports", 1)
    assert "Quota exceeded for ports" in message(attach(api, server), 403)
    set_limit(people.alice.project_id, "ports", 20)
    for _ in range(7):
        assert attach(api, server).status_code == 200
    assert "at most 8 network interfaces" in message(attach(api, server), 400)
    cloud.run()
    for person, status in ((people.bob, 403), (people.charlie, 404)):
        stranger = Api(person)
        message(attach(stranger, server), status)
        message(stranger.delete(f"{url}/{port}"), status)
    for ident in (NOBODY, "x"):
        message(attach(api, ident), 404)
    for ident in (NOBODY, "x"):
        message(api.delete(f"{url}/{ident}"), 404)
    assert act(api, server, "lock", None).status_code == 202
    assert "is locked" in message(api.delete(f"{url}/{port}"), 409)
    assert attach(Api(people.operator), server).status_code in {400, 409}  # eight there are; but no lock for operators
    assert act(api, server, "unlock", None).status_code == 202
    assert act(api, server, "suspend", None).status_code == 202
    text = message(api.delete(f"{url}/{port}"), 409)
    assert text == f"Cannot 'detach_interface' instance {server} while it is in task_state suspending"


def test_an_operator_acts_within_the_servers_project(api: Api, cloud: Cloud, people: People, server: str) -> None:
    answer = attach(Api(people.operator), server, net_id=str(cloud.network.id))
    assert answer.status_code == 200
    port = guest_ports().get(id=answer.json()["interfaceAttachment"]["port_id"])
    assert port.project_id == people.alice.project_id


# ----- security groups ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_groups_come_and_go(api: Api, cloud: Cloud, people: People, server: str) -> None:
    web = SecurityGroup.objects.create(project_id=people.alice.project_id, name="web")
    answer = act(api, server, "addSecurityGroup", {"name": "web"})
    assert (answer.status_code, answer.content) == (202, b"")
    attach(api, server)
    shown = api.get(f"{V21}/servers/{server}").json()["server"]["security_groups"]
    assert sorted(group["name"] for group in shown) == ["default", "web"]
    listed = api.get(f"{V21}/servers/{server}/os-security-groups").json()["security_groups"]
    assert sorted(group["name"] for group in listed) == ["default", "web"]
    assert act(api, server, "removeSecurityGroup", {"name": str(web.id)}).status_code == 202
    text = message(act(api, server, "removeSecurityGroup", {"name": "web"}), 404)
    assert text == f"Security group web not associated with the instance {server}"
    assert str(web.id) not in Instance.objects.get().security_groups
    SecurityGroup.objects.create(project_id=people.alice.project_id, name="web")
    SecurityGroup.objects.create(project_id=people.charlie.project_id, name="theirs")
    for name in ("addSecurityGroup", "removeSecurityGroup"):
        message(act(api, server, name, {"name": "web"}), 409)
        for unknown in ("nowhere", "theirs", NOBODY, "x" * 255):
            message(act(api, server, name, {"name": unknown}), 404)
        for wrong in ({}, {"name": ""}, {"name": 1}, {"name": "x", "more": 1}, None, {"name": "x" * 256}):
            message(act(api, server, name, wrong), 400)
        message(act(Api(people.bob), server, name, {"name": "web"}), 403)
        message(act(Api(people.charlie), server, name, {"name": "web"}), 404)


# ----- addresses ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_fixed_addresses_come_and_go_up_to_2_43(api: Api, cloud: Cloud, people: People, server: str) -> None:
    (first,) = guest_addresses().all()
    answer = act(api, server, "addFixedIp", {"networkId": str(cloud.network.id)})
    assert (answer.status_code, answer.content) == (202, b"")
    second = guest_addresses().exclude(id=first.id).get()
    assert second.port_id == first.port_id
    cloud.run()
    assert act(api, server, "removeFixedIp", {"address": first.address}).status_code == 202
    text = message(act(api, server, "removeFixedIp", {"address": first.address}), 404)
    assert text == f"Instance {server} does not have fixed IP '{first.address}'."
    assert [fixed.address for fixed in guest_addresses().all()] == [second.address]
    for unknown in (NOBODY, "x", 7):
        message(act(api, server, "addFixedIp", {"networkId": unknown}), 404)
    for wrong in ({}, {"networkId": ""}, {"networkId": "x" * 37}, {"networkId": None}, {"more": 1}):
        message(act(api, server, "addFixedIp", wrong), 400)
    for wrong in ({}, {"address": "here"}, {"address": None}):
        message(act(api, server, "removeFixedIp", wrong), 400)
    full = other_network(cloud, "10.22.0.0/29")
    assert attach(api, server, net_id=str(full.id)).status_code == 200
    for _ in range(3):
        assert act(api, server, "addFixedIp", {"networkId": str(full.id)}).status_code == 202
    text = message(act(api, server, "addFixedIp", {"networkId": str(full.id)}), 400)
    assert text == f"No more IP addresses available on network {full.id}."
    assert "No more IP addresses" in message(attach(api, server, net_id=str(full.id)), 400)
    cloud.run()


@pytest.mark.slow
def test_a_floating_ip_leads_to_a_server_and_is_shown_at_it(
    people: People, api: Api, cloud: Cloud, server: str
) -> None:
    fixed, mac = guest_addresses().get(), guest_ports().get().mac_address
    outside = network.create_network(people.operator.project_id, "public", external=True)
    network.create_subnet(outside, "203.0.113.0/24", enable_dhcp=False)
    floating = network.create_floating_ip(people.alice.project_id, outside)
    body = {"address": floating.address}
    assert "is not reachable" in message(act(api, server, "addFloatingIp", body), 400)
    router = network.create_router(people.alice.project_id, gateway=network.Gateway(outside))
    network.add_interface_by_subnet(router, fixed.subnet, anywhere=True)
    message(act(Api(people.bob), server, "addFloatingIp", body), 403)
    assert message(act(api, server, "removeFloatingIp", body), 409).endswith(f"instance {server}.")
    assert act(api, server, "addFloatingIp", body).status_code == 202
    expected = [
        {"version": 4, "addr": address, "OS-EXT-IPS:type": kind, "OS-EXT-IPS-MAC:mac_addr": mac}
        for address, kind in ((fixed.address, "fixed"), (floating.address, "floating"))
    ]
    assert [*api.get(f"{V21}/servers/{server}").json()["server"]["addresses"].values()] == [expected]
    [listed] = api.get(f"{V21}/servers/detail").json()["servers"]
    assert [*listed["addresses"].values()] == [expected]
    [plain] = api.get(f"{V21}/servers/{server}/ips").json()["addresses"].values()
    assert plain == [{"version": 4, "addr": each["addr"]} for each in expected]
    [taken] = api.get(f"{V21}/os-floating-ips").json()["floating_ips"]
    assert (taken["instance_id"], taken["fixed_ip"]) == (server, fixed.address)
    assert act(api, server, "removeFloatingIp", body).status_code == 202
    floating.refresh_from_db()
    assert floating.fixed_port is None


def test_a_floating_ip_that_is_not_the_projects_is_not_found(api: Api, cloud: Cloud, server: str) -> None:
    address = guest_addresses().get().address
    for name, body in (
        ("addFloatingIp", {"address": "198.51.100.7"}),
        ("addFloatingIp", {"address": "198.51.100.7", "fixed_address": address}),
        ("removeFloatingIp", {"address": "198.51.100.7"}),
    ):
        assert message(act(api, server, name, body), 404) == "floating IP not found"
    text = message(act(api, server, "addFloatingIp", {"address": "198.51.100.7", "fixed_address": "10.20.0.99"}), 400)
    assert text == "Specified fixed address not assigned to instance"
    for wrong in ({}, {"address": "here"}, {"address": "198.51.100.7", "more": 1}):
        message(act(api, server, "addFloatingIp", wrong), 400)


@each_row(
    ("name", "body"),
    [
        ("addFixedIp", {"networkId": NOBODY}),
        ("removeFixedIp", {"address": "10.20.0.99"}),
        ("addFloatingIp", {"address": "198.51.100.7"}),
        ("removeFloatingIp", {"address": "198.51.100.7"}),
    ],
)
def test_the_last_version_of_the_actions_on_addresses(
    people: People, cloud: Cloud, server: str, name: str, body: dict[str, Any]
) -> None:
    message(act(Api(people.alice, **at("2.43")), server, name, body), 404)
    message(act(Api(people.alice, **at("2.44")), server, name, body), 404)
    message(act(Api(people.bob, **at("2.43")), server, name, body), 403)
    assert uuid.UUID(server)
