"""Ports that people make, change and delete over the Networking API."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from provisioning.identity.services.assignments import assign_role
from provisioning.network import services
from provisioning.network.models import FixedIP, Network, Port, Subnet
from provisioning.quotas.models import Reservation
from provisioning.quotas.services.limits import set_limits
from tests.network.test_security_groups_api import V2, made, refused
from tests.support.cast import Api, Person
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db


@pytest.fixture
def api(alice: Person) -> Api:
    return Api(alice)


@pytest.fixture
def subnet(net: Network) -> Subnet:
    return net.subnets.get()


def new(api: Api, net: Network, **values: Any) -> Any:
    return api.post(f"{V2}/ports", {"port": {"network_id": str(net.id), **values}})


def put(api: Api, port: str, **values: Any) -> Any:
    return api.put(f"{V2}/ports/{port}", {"port": values})


def addresses(port: dict[str, Any]) -> list[str]:
    return [each["ip_address"] for each in port["fixed_ips"]]


def held(port: str) -> dict[str, int]:
    return dict(Reservation.objects.filter(owner_id=port).values_list("resource", "amount"))


def test_a_port_is_made_with_an_address_and_the_default_group_and_goes(api: Api, net: Network) -> None:
    port = made(api, "port", network_id=str(net.id), name="p", description="d")
    default = api.get(f"{V2}/security-groups?name=default").json()["security_groups"][0]["id"]
    assert (port["name"], port["description"], port["status"], port["admin_state_up"]) == ("p", "d", "DOWN", True)
    assert (port["security_groups"], len(port["fixed_ips"]), port["port_security_enabled"]) == ([default], 1, True)
    assert held(port["id"]) == {"ports": 1, "fixed_ips": 1}
    url = f"{V2}/ports/{port['id']}"
    assert api.delete(url).status_code == 204
    refused(api.get(url), 404, "PortNotFound")
    assert held(port["id"]) == {}


def test_a_port_that_is_switched_off_is_down(api: Api, net: Network) -> None:
    port = made(api, "port", network_id=str(net.id))["id"]
    Port.objects.filter(id=port).update(status="ACTIVE")

    def found(status: str) -> bool:
        rows = api.get(f"{V2}/ports?status={status}").json()["ports"]
        assert {row["status"] for row in rows} <= {status}
        return port in {row["id"] for row in rows}

    assert (found("ACTIVE"), found("DOWN")) == (True, False)
    assert put(api, port, admin_state_up=False).json()["port"]["status"] == "DOWN"
    assert (found("ACTIVE"), found("DOWN")) == (False, True)
    assert put(api, port, admin_state_up=True).json()["port"]["status"] == "ACTIVE"


def test_no_port_is_made_on_an_external_network_that_one_only_sees(api: Api, operator: Person) -> None:
    outside = services.create_network(operator.project_id, "public", external=True)
    services.create_subnet(outside, "203.0.113.0/24")
    refused(new(api, outside), 403, "PolicyNotAuthorized")
    services.update_network(outside, {"shared": True})
    assert new(api, outside).status_code == 201
    Port.objects.all().delete()
    services.update_network(outside, {"shared": False, "external": False})
    refused(new(api, outside), 404, "NetworkNotFound")


def test_several_ports_are_made_at_once_or_none(api: Api, net: Network) -> None:
    one = {"network_id": str(net.id)}
    assert len(api.post(f"{V2}/ports", {"ports": [one, one]}).json()["ports"]) == 2
    before = Port.objects.count()
    taken = {**one, "fixed_ips": [{"ip_address": "10.20.0.77"}]}
    refused(api.post(f"{V2}/ports", {"ports": [taken, taken]}), 409, "IpAddressInUse")
    assert Port.objects.count() == before


def test_addresses_are_requested_by_subnet_by_address_and_by_both(api: Api, net: Network, subnet: Subnet) -> None:
    six = services.create_subnet(net, "2001:db8::/64", ip_version=6)
    auto = services.create_subnet(net, "2001:db8:1::/64", ip_version=6, ipv6_address_mode="slaac", ipv6_ra_mode="slaac")
    requested = [
        {"subnet_id": str(subnet.id)},
        {"ip_address": "10.20.0.50"},
        {"subnet_id": str(six.id), "ip_address": "2001:db8::50"},
    ]
    port = made(api, "port", network_id=str(net.id), mac_address="02:00:00:00:00:01", fixed_ips=requested)
    result = addresses(port)
    assert {"10.20.0.50", "2001:db8::50", "2001:db8:1::ff:fe00:1"} <= set(result)
    assert len(result) == 4
    assert held(port["id"])["fixed_ips"] == 4
    wrong = new(api, net, fixed_ips=[{"subnet_id": str(auto.id), "ip_address": "2001:db8:1::9"}])
    refused(wrong, 400, "AllocationOnAutoAddressSubnet")


@pytest.mark.slow
def test_ports_have_what_guests_make_themselves_of_a_subnet_that_comes_later(
    api: Api, net: Network, charlie: Person
) -> None:
    services.update_network(net, {"shared": True})
    port = made(api, "port", network_id=str(net.id), mac_address="02:00:00:00:00:01")
    other = made(Api(charlie), "port", network_id=str(net.id))
    router = made(api, "router", name="r")
    own = made(api, "port", network_id=str(net.id), mac_address="02:00:00:00:00:03")
    url = f"{V2}/routers/{router['id']}/add_router_interface"
    assert api.put(url, {"port_id": own["id"]}).status_code == 200
    set_limits(charlie.project_id, {"fixed_ips": 1})
    auto = services.create_subnet(net, "2001:db8:1::/64", ip_version=6, ipv6_address_mode="slaac", ipv6_ra_mode="slaac")
    shown = api.get(f"{V2}/ports/{port['id']}").json()["port"]
    assert addresses(shown)[1:] == ["2001:db8:1::ff:fe00:1"]
    assert shown["revision_number"] == port["revision_number"] + 1
    assert held(port["id"]) == {"ports": 1, "fixed_ips": 2}
    assert held(other["id"]) == {"ports": 1, "fixed_ips": 2}
    refused(Api(charlie).post(f"{V2}/ports", {"port": {"network_id": str(net.id)}}), 409, "OverQuota")
    assert FixedIP.objects.filter(port=own["id"]).count() == 1
    assert api.delete(f"{V2}/subnets/{auto.id}").status_code == 204
    assert held(port["id"]) == held(other["id"]) == {"ports": 1, "fixed_ips": 1}
    assert addresses(api.get(f"{V2}/ports/{port['id']}").json()["port"]) == addresses(port)


def test_a_port_may_have_no_address(api: Api, net: Network) -> None:
    port = made(api, "port", network_id=str(net.id), fixed_ips=[])
    assert port["fixed_ips"] == []
    assert held(port["id"]) == {"ports": 1}
    bare = made(api, "network", name="bare")
    assert made(api, "port", network_id=bare["id"])["fixed_ips"] == []


@pytest.mark.slow
def test_wrong_addresses_are_refused(api: Api, net: Network, subnet: Subnet) -> None:
    refused(new(api, net, fixed_ips=[{"ip_address": "10.99.0.1"}]), 400, "InvalidIpForNetwork")
    both = {"subnet_id": str(subnet.id), "ip_address": "10.99.0.1"}
    refused(new(api, net, fixed_ips=[both]), 400, "InvalidIpForSubnet")
    refused(new(api, net, fixed_ips=[{"ip_address": "10.20.0.255"}]), 400, "InvalidIpForNetwork")
    refused(new(api, net, fixed_ips=[{"subnet_id": str(net.id)}]), 400, "InvalidInput")
    refused(new(api, net, fixed_ips=[{"ip_address": f"10.20.0.{last}"} for last in range(50, 56)]), 400, "InvalidInput")
    made(api, "port", network_id=str(net.id), fixed_ips=[{"ip_address": "10.20.0.9"}])
    refused(new(api, net, fixed_ips=[{"ip_address": "10.20.0.9"}]), 409, "IpAddressInUse")
    Subnet.objects.update(allocation_pools=[])
    refused(new(api, net), 409, "IpAddressGenerationFailure")
    refused(new(api, net, fixed_ips=[{"subnet_id": str(subnet.id)}]), 409, "IpAddressGenerationFailure")


def test_a_mac_address_is_there_once_on_a_network(api: Api, net: Network) -> None:
    port = made(api, "port", network_id=str(net.id), mac_address="02-00-00-00-00-0A")
    assert port["mac_address"] == "02:00:00:00:00:0a"
    refused(new(api, net, mac_address="02:00:00:00:00:0a"), 409, "MacAddressInUse")
    for wrong in ("x", "ff:ff:ff:ff:ff:ff", "02:00:00:00:00 :0b", "00:00:00:00:00:00"):
        refused(new(api, net, mac_address=wrong), 400, "HTTPBadRequest")


@pytest.mark.slow
def test_operators_and_managers_of_the_network_change_a_mac_address(
    api: Api, alice: Person, operator: Person, net: Network
) -> None:
    first, second = (made(api, "port", network_id=str(net.id)) for _ in range(2))
    refused(put(api, first["id"], mac_address="02:00:00:00:00:0b"), 403, "PolicyNotAuthorized")
    changed = put(Api(operator), first["id"], mac_address="02:00:00:00:00:0b")
    assert changed.json()["port"]["mac_address"] == "02:00:00:00:00:0b"
    refused(put(Api(operator), second["id"], mac_address="02:00:00:00:00:0b"), 409, "MacAddressInUse")
    assign_role(alice.user, alice.project, "manager")
    assert put(Api(alice), first["id"], mac_address="02:00:00:00:00:0c").status_code == 200
    Network.objects.update(project_id=operator.project_id)
    refused(put(Api(alice), first["id"], mac_address="02:00:00:00:00:0d"), 403, "PolicyNotAuthorized")


def test_addresses_are_replaced_and_the_quota_follows(api: Api, net: Network, subnet: Subnet) -> None:
    port = made(api, "port", network_id=str(net.id), fixed_ips=[{"ip_address": "10.20.0.30"}])
    kept = FixedIP.objects.get(port=port["id"]).pk
    requested = [{"subnet_id": str(subnet.id)}, {"ip_address": "10.20.0.40"}]
    changed = put(api, port["id"], fixed_ips=requested).json()["port"]
    assert sorted(addresses(changed)) == ["10.20.0.30", "10.20.0.40"]
    assert FixedIP.objects.get(address="10.20.0.30").pk == kept, "an address that is meant stays"
    assert held(port["id"])["fixed_ips"] == 2
    assert changed["revision_number"] == port["revision_number"] + 1
    assert addresses(put(api, port["id"], fixed_ips=[]).json()["port"]) == []
    assert held(port["id"]) == {"ports": 1}


@pytest.mark.slow
def test_port_security_groups_and_pairs_go_together(api: Api, net: Network) -> None:
    group = made(api, "security_group", name="web")["id"]
    pair = {"ip_address": "10.20.0.200"}
    refused(
        new(api, net, port_security_enabled=False, security_groups=[group]),
        400,
        "PortSecurityAndIPRequiredForSecurityGroups",
    )
    refused(
        new(api, net, port_security_enabled=False, allowed_address_pairs=[pair]),
        409,
        "AddressPairAndPortSecurityRequired",
    )
    port = made(api, "port", network_id=str(net.id), security_groups=[group], allowed_address_pairs=[pair])
    assert port["allowed_address_pairs"] == [{"mac_address": port["mac_address"], **pair}]
    refused(put(api, port["id"], port_security_enabled=False), 409, "PortSecurityPortHasSecurityGroup")
    refused(
        put(api, port["id"], port_security_enabled=False, security_groups=[]),
        409,
        "AddressPairAndPortSecurityRequired",
    )
    off = put(api, port["id"], port_security_enabled=False, security_groups=[], allowed_address_pairs=[])
    assert (off.json()["port"]["port_security_enabled"], off.json()["port"]["security_groups"]) == (False, [])
    assert made(api, "port", network_id=str(net.id), port_security_enabled=False)["security_groups"] == []


@pytest.fixture
def narrow(api: Api, net: Network) -> str:
    """The id of a port that may use some addresses more."""
    pairs = [{"ip_address": "10.0.0.0/8"}]
    return str(made(api, "port", network_id=str(net.id), allowed_address_pairs=pairs)["id"])


@each_row("wide", ["0.0.0.0/0", "::/0", "128.0.0.0/1", "2000::/3", "11.0.0.0/32"])
def test_address_pairs_never_open_everything(api: Api, net: Network, narrow: str, wide: str) -> None:
    pairs = [{"ip_address": "10.0.0.0/8"}, {"ip_address": wide}]
    message = refused(new(api, net, allowed_address_pairs=pairs), 400, "InvalidInput")
    assert "port_security_enabled" in message
    refused(put(api, narrow, allowed_address_pairs=pairs), 400, "InvalidInput")


def test_narrow_address_pairs_of_both_families_are_taken(api: Api, narrow: str) -> None:
    pairs = [{"ip_address": "10.0.0.0/8"}]
    six = [{"ip_address": each} for each in ("fd00::/17", "fd00:8000::/17", "fd00::5")]
    assert put(api, narrow, allowed_address_pairs=[*pairs, *six]).status_code == 200


def test_a_port_on_a_network_without_subnets_has_no_address(api: Api, alice: Person) -> None:
    bare = services.create_network(alice.project_id, "bare")
    port = made(api, "port", network_id=str(bare.id))
    assert (port["fixed_ips"], held(port["id"])) == ([], {"ports": 1})


def test_groups_are_the_projects_own_or_shared_with_it(api: Api, alice: Person, charlie: Person, net: Network) -> None:
    foreign = made(Api(charlie), "security_group", name="theirs")["id"]
    refused(new(api, net, security_groups=[foreign]), 404, "SecurityGroupNotFound")
    shared = {
        "object_type": "security_group",
        "object_id": foreign,
        "action": "access_as_shared",
        "target_tenant": alice.project_id.hex,
    }
    answer = Api(charlie).post(f"{V2}/rbac-policies", {"rbac_policy": shared})
    assert answer.status_code == 201, answer.content
    assert made(api, "port", network_id=str(net.id), security_groups=[foreign])["security_groups"] == [foreign]


@pytest.mark.slow
def test_dhcp_options_are_replaced_one_by_one(api: Api, net: Network) -> None:
    options = [{"opt_name": "bootfile-name", "opt_value": "a"}, {"opt_name": "mtu", "opt_value": "1400"}]
    port = made(api, "port", network_id=str(net.id), extra_dhcp_opts=options)
    assert port["extra_dhcp_opts"] == [{"ip_version": 4, **each} for each in options]
    changes = [{"opt_name": "mtu", "opt_value": None}, {"opt_name": "bootfile-name", "opt_value": "b"}]
    changed = put(api, port["id"], extra_dhcp_opts=changes).json()["port"]["extra_dhcp_opts"]
    assert changed == [{"ip_version": 4, "opt_name": "bootfile-name", "opt_value": "b"}]
    lines = [{"opt_name": "mtu", "opt_value": "1\ndhcp-script=/bin/sh"}]
    refused(put(api, port["id"], extra_dhcp_opts=lines), 400, "HTTPBadRequest")
    for name in ("", " ", "x" * 65, "a\nb"):
        options = [{"opt_name": name, "opt_value": "x"}]
        refused(put(api, port["id"], extra_dhcp_opts=options), 400, "HTTPBadRequest")
        refused(new(api, net, extra_dhcp_opts=options), 400, "HTTPBadRequest")
    refused(new(api, net, extra_dhcp_opts=[{"opt_name": "mtu", "opt_value": " "}]), 400, "HTTPBadRequest")
    kept = [{"opt_name": name, "opt_value": "x"} for name in ("0", "999", "tag:other,router", "nonsense", "²")]
    kept.append({"opt_name": "router", "opt_value": ""})
    shown = made(api, "port", network_id=str(net.id), extra_dhcp_opts=kept)["extra_dhcp_opts"]
    assert [(each["opt_name"], each["opt_value"]) for each in shown] == [
        (each["opt_name"], each["opt_value"]) for each in kept
    ]
    six = [{"opt_name": name, "opt_value": "x", "ip_version": 6} for name in ("bootfile-url", "59")]
    assert put(api, port["id"], extra_dhcp_opts=six).status_code == 200


def test_a_dhcp_option_without_a_value_is_none(api: Api, net: Network) -> None:
    port = made(api, "port", network_id=str(net.id), extra_dhcp_opts=[{"opt_name": "mtu", "opt_value": None}])
    assert port["extra_dhcp_opts"] == []
    Port.objects.filter(pk=port["id"]).update(extra_dhcp_opts=[{"opt_name": "of-before", "opt_value": "x"}])
    gone = [{"opt_name": "of-before", "opt_value": None}]
    assert put(api, port["id"], extra_dhcp_opts=gone).json()["port"]["extra_dhcp_opts"] == []


def test_only_operators_make_ports_of_the_cloud_and_bind_them(api: Api, operator: Person, net: Network) -> None:
    refused(new(api, net, device_owner="network:mine"), 403, "PolicyNotAuthorized")
    refused(new(api, net, **{"binding:host_id": "h"}), 403, "PolicyNotAuthorized")
    refused(new(api, net, **{"binding:profile": {"a": "b"}}), 403, "PolicyNotAuthorized")
    own = new(Api(operator), net, device_owner="network:mine", **{"binding:profile": {"a": "b"}}).json()["port"]
    assert (own["binding:profile"], held(own["id"])) == ({"a": "b"}, {})
    port = made(api, "port", network_id=str(net.id))
    refused(put(Api(operator), port["id"], device_owner="network:mine"), 400, "InvalidInput")


def test_a_device_that_is_named_is_no_device_of_ours(api: Api, net: Network) -> None:
    """Else the port would become an interface of another project's server."""
    named = "11111111-1111-4111-8111-111111111111"
    port = made(api, "port", network_id=str(net.id), device_id=named, device_owner="compute:nova")
    assert (port["device_id"], port["device_owner"]) == (named, "compute:nova")
    assert Port.objects.get(pk=port["id"]).device_id is None
    assert [each["id"] for each in api.get(f"{V2}/ports?device_id={named}").json()["ports"]] == [port["id"]]
    assert put(api, port["id"], device_id="", device_owner="").json()["port"]["device_id"] == ""


def test_ports_of_routers_and_dhcp_are_not_deleted_or_changed(api: Api, net: Network, subnet: Subnet) -> None:
    router = made(api, "router", name="r")["id"]
    answer = api.put(f"{V2}/routers/{router}/add_router_interface", {"subnet_id": str(subnet.id)})
    port = answer.json()["port_id"]
    refused(api.delete(f"{V2}/ports/{port}"), 409, "ServicePortInUse")
    refused(put(api, port, fixed_ips=[]), 409, "ServicePortInUse")
    assert put(api, port, name="leg").json()["port"]["name"] == "leg"


def test_a_port_of_another_project_is_unknown(api: Api, charlie: Person, net: Network) -> None:
    port = made(api, "port", network_id=str(net.id))["id"]
    other = Api(charlie)
    refused(put(other, port, name="x"), 404, "PortNotFound")
    refused(other.delete(f"{V2}/ports/{port}"), 404, "PortNotFound")
    refused(new(other, net), 404, "NetworkNotFound")


@pytest.mark.slow
def test_on_a_shared_network_only_its_owner_chooses_addresses(api: Api, charlie: Person, net: Network) -> None:
    services.update_network(Network.objects.get(), {"shared": True})
    other = Api(charlie)
    assert new(other, net).status_code == 201
    assert new(other, net, fixed_ips=[{"subnet_id": str(net.subnets.get().id)}]).status_code == 201
    for values in (
        {"fixed_ips": [{"ip_address": "10.20.0.60"}]},
        {"mac_address": "02:00:00:00:00:0c"},
        {"port_security_enabled": False},
        {"allowed_address_pairs": [{"ip_address": "10.20.0.61"}]},
    ):
        refused(new(other, net, **values), 403, "PolicyNotAuthorized")


def test_a_change_asks_for_its_revision(api: Api, net: Network) -> None:
    port = made(api, "port", network_id=str(net.id))
    url, body = f"{V2}/ports/{port['id']}", {"port": {"name": "x"}}
    answer = api.put(url, body, if_match="revision_number=99")
    refused(answer, 412, "RevisionNumberConstraintFailed")
    assert api.put(url, body, if_match="revision_number=0").status_code == 200


@pytest.mark.slow
def test_lists_are_filtered_by_every_field(api: Api, net: Network, subnet: Subnet) -> None:
    group = made(api, "security_group", name="web")["id"]
    port = made(
        api, "port", network_id=str(net.id), mac_address="02:00:00:00:00:0d", security_groups=[group],
        fixed_ips=[{"ip_address": "10.20.0.123"}], dns_name="Web", name="one",
    )  # fmt: skip
    made(api, "port", network_id=str(net.id))
    for query in (
        "fixed_ips=ip_address=10.20.0.123", "fixed_ips=ip_address_substr=0.12", "ip_address_substr=0.12",
        f"fixed_ips=ip_address=10.20.0.123&fixed_ips=subnet_id={subnet.id}", "mac_address=02:00:00:00:00:0D",
        f"security_groups={group}", "dns_name=web", "name=one",
    ):  # fmt: skip
        body = api.get(f"{V2}/ports?{query}").json()
        assert [each["id"] for each in body["ports"]] == [port["id"]], query


@pytest.mark.slow
def test_names_that_resolve_are_reported(api: Api, alice: Person, operator: Person, net: Network) -> None:
    port = made(api, "port", network_id=str(net.id), fixed_ips=[{"ip_address": "10.20.0.9"}], dns_name="Web")
    expected = {"ip_address": "10.20.0.9", "hostname": "web", "fqdn": "web.novalocal."}
    assert port["dns_assignment"] == [expected]
    assert api.put(f"{V2}/networks/{net.id}", {"network": {"dns_domain": "example.org."}}).status_code == 200
    assert api.get(f"{V2}/ports/{port['id']}").json()["port"]["dns_assignment"][0]["fqdn"] == "web.example.org."
    assert Api(operator).put(f"{V2}/networks/{net.id}", {"network": {"shared": True}}).status_code == 200
    own = f"web.{alice.project_id.hex[:12]}.example.org."
    assert api.get(f"{V2}/ports/{port['id']}").json()["port"]["dns_assignment"][0]["fqdn"] == own
    assert Api(operator).put(f"{V2}/networks/{net.id}", {"network": {"shared": False}}).status_code == 200
    services.create_rbac_policy(alice.project_id, "network", net, "access_as_shared", uuid.uuid4().hex)
    assert api.get(f"{V2}/ports?dns_name=web").json()["ports"][0]["dns_assignment"][0]["fqdn"] == own
    [unnamed] = put(api, port["id"], dns_name="").json()["port"]["dns_assignment"]
    assert (unnamed["hostname"], unnamed["fqdn"]) == ("host-10-20-0-9", own.replace("web", "host-10-20-0-9"))


def test_the_quota_of_ports_limits(api: Api, alice: Person, operator: Person, net: Network) -> None:
    answer = Api(operator).put(f"{V2}/quotas/{alice.project_id.hex}", {"quota": {"port": 1}})
    assert answer.status_code == 200, answer.content
    assert new(api, net).status_code == 201
    refused(new(api, net), 409, "OverQuota")
