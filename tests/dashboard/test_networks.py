"""Networks, subnets and ports: lists, forms with sensible defaults, what is wrong at its field, and who may do what."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from django.test import Client

from portal.dashboard.live import render
from provisioning.events import selectors as events
from provisioning.network import services
from provisioning.network.models import Network, Port, Subnet
from tests.dashboard.conftest import SignedIn, ticked
from tests.support.cast import Person
from tests.support.clouds import Cloud
from tests.support.standing import standing
from tests.support.tables import each_row


@pytest.fixture
@standing
def net(alice: Person) -> Network:
    made = services.create_network(alice.project_id, "front <1>")
    services.create_subnet(made, "10.77.0.0/24", dns_nameservers=["9.9.9.9"])
    return made


@pytest.fixture
@standing
def subnet(net: Network) -> Subnet:
    return net.subnets.get()


def create(client: Client, **typed: str) -> Any:
    defaults = {"name": "web", "admin_state_up": "on", "with_gateway": "on", "enable_dhcp": "on"}
    return client.post("/networks/create/", {**defaults, **typed})


def test_the_form_offers_a_range_that_nobody_has(at_alice: Client, alice: Person, net: Network) -> None:
    services.create_subnet(net, "10.0.0.0/15")
    proposed = ipaddress.ip_network(at_alice.get("/networks/create/").context["form"]["cidr"].value())
    assert proposed.prefixlen == 24
    assert proposed.is_private
    taken = [ipaddress.ip_network(each) for each in Subnet.objects.values_list("cidr", flat=True)]
    assert not any(proposed.overlaps(each) for each in taken)  # type: ignore[arg-type]


@pytest.mark.slow
def test_one_form_makes_a_network_with_both_versions(at_alice: Client, alice: Person) -> None:
    answer = create(
        at_alice, cidr="10.78.0.0/24", cidr6="fd00:78::/64", ipv6_mode="slaac", dns_nameservers="9.9.9.9, 2620:fe::fe"
    )
    made = Network.objects.get(project_id=alice.project_id)
    assert answer["Location"] == f"/networks/{made.id}/"
    four, six = made.subnets.order_by("ip_version")
    assert (four.cidr, four.gateway_ip, four.dns_nameservers) == ("10.78.0.0/24", "10.78.0.1", ["9.9.9.9"])
    assert (six.cidr, six.ipv6_address_mode, six.dns_nameservers) == ("fd00:78::/64", "slaac", ["2620:fe::fe"])
    shown = at_alice.get(f"/networks/{made.id}/").content.decode()
    assert "SLAAC" in shown
    assert "10.78.0.2-10.78.0.254" in shown


@pytest.mark.slow
@pytest.mark.parametrize("target", ["charlie", "*"])
def test_the_list_and_the_page_say_with_whom_a_network_is_shared(
    signed_in: SignedIn, alice: Person, charlie: Person, net: Network, target: str
) -> None:
    everybody = target == "*"
    services.create_rbac_policy(
        alice.project_id, "network", net, "access_as_shared", target if everybody else charlie.project_id.hex
    )
    for person, tag, words in (
        (alice, "shared" if everybody else "shared with others", "this project, shared with other projects"),
        (charlie, "shared", "another project, shared with this project"),
    ):
        client = signed_in(person)
        assert f'<span class="tag">{tag}</span>' in client.get("/networks/").content.decode()
        shown = client.get(f"/networks/{net.id}/").content.decode()
        assert (f"{words.split(',')[0]}, shared with all" if everybody else words) in shown


def test_without_ranges_there_are_no_subnets(at_alice: Client, alice: Person) -> None:
    create(at_alice, cidr="", cidr6="")
    assert not Network.objects.get(project_id=alice.project_id).subnets.exists()


def test_nothing_is_left_of_a_network_whose_subnet_is_refused(at_alice: Client, alice: Person) -> None:
    answer = create(at_alice, cidr6="fd00:78::/72", ipv6_mode="slaac")
    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == ["ipv6_mode"]
    assert not Network.objects.filter(project_id=alice.project_id).exists()


def test_all_that_is_wrong_is_reported_at_once(at_alice: Client) -> None:
    answer = create(at_alice, name="", cidr="fd00::/64", cidr6="10.0.0.0/24", mtu="many", dns_nameservers="x\ny")
    assert answer.status_code == 422
    assert set(answer.context["form"].errors) == {"name", "cidr", "cidr6", "mtu", "dns_nameservers"}


def test_what_only_operators_set_is_theirs(
    at_alice: Client, signed_in: SignedIn, alice: Person, operator: Person
) -> None:
    typed = {"shared": "on", "external": "on", "network_type": "flat", "physical_network": "wan"}
    create(at_alice, **typed)
    own = Network.objects.get(project_id=alice.project_id)
    assert (own.shared, own.external, own.network_type) == (False, False, "vxlan")
    create(signed_in(operator), **typed)
    made = Network.objects.get(project_id=operator.project_id, name="web")
    assert (made.shared, made.external, made.network_type, made.physical_network) == (True, True, "flat", "wan")
    assert "flat on wan" in signed_in(operator).get(f"/networks/{made.id}/").content.decode()
    assert "flat on wan" not in at_alice.get(f"/networks/{made.id}/").content.decode()


def test_a_network_is_edited(at_alice: Client, net: Network) -> None:
    at_alice.post(f"/networks/{net.id}/edit/", {"name": "new", "mtu": "1400"})
    net.refresh_from_db()
    assert (net.name, net.mtu, net.admin_state_up, net.port_security_enabled) == ("new", 1400, False, False)
    wrong = at_alice.post(f"/networks/{net.id}/edit/", {"name": "new", "mtu": "9000"})
    assert list(wrong.context["form"].errors) == ["mtu"]


@pytest.mark.slow
def test_one_in_use_says_by_what_and_stays(at_alice: Client, alice: Person, cloud: Cloud, net: Network) -> None:
    services.create_connected_router(alice.project_id, [net.subnets.get()], name="way-out")
    services.create_port(alice.project_id, net, name="spare")
    shown = at_alice.get(f"/networks/{net.id}/delete/").content.decode()
    assert "in use by way-out and port spare" in shown
    refused = at_alice.post(f"/networks/{net.id}/delete/", follow=True).content.decode()
    assert "still in use" in refused
    assert Network.objects.filter(id=net.id).exists()


def test_a_network_nobody_uses_is_deleted(at_alice: Client, net: Network) -> None:
    assert "Its subnets are deleted with it" in at_alice.get(f"/networks/{net.id}/delete/").content.decode()
    at_alice.post(f"/networks/{net.id}/delete/")
    assert not Network.objects.filter(id=net.id).exists()


@pytest.mark.slow
def test_a_subnet_in_full(at_alice: Client, net: Network) -> None:
    crumbs = at_alice.get(f"/networks/{net.id}/subnets/create/").content.decode()
    assert f'<li><a href="/networks/{net.id}/"><bdi>front &lt;1&gt;</bdi></a></li>' in crumbs
    typed = {
        "cidr": "10.79.0.0/24", "name": "db", "gateway": "own", "gateway_ip": "10.79.0.254", "enable_dhcp": "on",
        "allocation_pools": "10.79.0.10-10.79.0.19\n10.79.0.30 - 10.79.0.39", "dns_nameservers": "9.9.9.9",
        "host_routes": "10.9.0.0/24 via 10.79.0.9",
    }  # fmt: skip
    at_alice.post(f"/networks/{net.id}/subnets/create/", typed)
    made = net.subnets.get(name="db")
    assert made.gateway_ip == "10.79.0.254"
    assert [pool["start"] for pool in made.allocation_pools] == ["10.79.0.10", "10.79.0.30"]
    assert made.host_routes == [{"destination": "10.9.0.0/24", "nexthop": "10.79.0.9"}]
    page = at_alice.get(f"/subnets/{made.id}/edit/")
    shown = {name: page.context["form"][name].value() for name in ("gateway", "gateway_ip", "allocation_pools")}
    assert shown["allocation_pools"] == "10.79.0.10-10.79.0.19\n10.79.0.30-10.79.0.39"
    at_alice.post(f"/subnets/{made.id}/edit/", {**shown, "gateway": "none", "name": "later"})
    made.refresh_from_db()
    assert (made.name, made.gateway_ip, made.enable_dhcp, made.host_routes) == ("later", None, False, [])
    at_alice.post(f"/subnets/{made.id}/delete/")
    assert not Subnet.objects.filter(id=made.id).exists()


@each_row(
    ("typed", "places"),
    [
        (
            {"cidr": "10.0.0.0", "gateway": "own", "allocation_pools": "x", "host_routes": "y", "dns_nameservers": "z"},
            {"cidr", "gateway_ip", "allocation_pools", "host_routes", "dns_nameservers"},
        ),
        ({"cidr": "10.77.0.128/25"}, {"cidr"}),
        ({"cidr": "10.79.0.0/24", "allocation_pools": "10.80.0.1-10.80.0.9"}, {"allocation_pools"}),
        ({"cidr": "10.79.0.0/24", "gateway": "own", "gateway_ip": "10.79.0.255"}, {"gateway_ip"}),
        ({"cidr": "10.79.0.0/24", "ipv6_mode": "slaac", "enable_dhcp": "on"}, {"ipv6_mode"}),
    ],
)
def test_what_is_wrong_with_a_subnet_is_reported_at_its_field(
    at_alice: Client, net: Network, typed: dict[str, str], places: set[str]
) -> None:
    answer = at_alice.post(f"/networks/{net.id}/subnets/create/", typed)
    assert answer.status_code == 422
    assert set(answer.context["form"].errors) == places
    assert net.subnets.count() == 1


def test_a_subnet_in_use_says_by_what(at_alice: Client, alice: Person, net: Network, subnet: Subnet) -> None:
    services.create_port(alice.project_id, net, name="spare")
    asked = at_alice.get(f"/subnets/{subnet.id}/delete/").content.decode()
    assert "port spare use its addresses" in asked
    assert 'data-testid="confirm"' not in asked, "the action could only fail"
    asked = at_alice.get(f"/networks/{net.id}/delete/").content.decode()
    assert "in use by port spare" in asked
    assert 'data-testid="confirm"' not in asked
    at_alice.post(f"/subnets/{subnet.id}/delete/")
    assert Subnet.objects.filter(id=subnet.id).exists()


@pytest.mark.slow
def test_a_port_is_made_changed_and_deleted(at_alice: Client, alice: Person, net: Network) -> None:
    group = services.create_security_group(alice.project_id, "front")
    typed = {
        "name": "kept", "fixed_ips": "10.77.0.50", "mac_address": "FA-16-3E-00-00-01", "groups": [str(group.id)],
        "port_security_enabled": "on", "allowed_address_pairs": "10.77.0.100\n10.77.0.128/25 fa:16:3e:00:00:02",
        "extra_dhcp_opts": "mtu 1400\nipv6 ntp-server fd00::1,fd00::2",
    }  # fmt: skip
    at_alice.post(f"/networks/{net.id}/ports/create/", typed)
    port = Port.objects.get(name="kept")
    assert port.mac_address == "fa:16:3e:00:00:01"
    assert [row.address for row in port.fixed_ips.all()] == ["10.77.0.50"]
    assert [pair["ip_address"] for pair in port.allowed_address_pairs] == ["10.77.0.100", "10.77.0.128/25"]
    page = at_alice.get(f"/ports/{port.id}/edit/")
    assert ticked(page, "groups") == [str(group.id)]
    assert page.context["form"]["allowed_address_pairs"].value() == "10.77.0.100\n10.77.0.128/25 fa:16:3e:00:00:02"
    assert "mac_address" not in page.context["form"].fields
    assert page.context["form"]["extra_dhcp_opts"].value() == "mtu 1400\nipv6 ntp-server fd00::1,fd00::2"
    changed = {"name": "kept", "fixed_ips": "10.77.0.51", "extra_dhcp_opts": "mtu 1300"}
    at_alice.post(f"/ports/{port.id}/edit/", changed)
    port.refresh_from_db()
    assert port.extra_dhcp_opts == [{"opt_name": "mtu", "opt_value": "1300", "ip_version": 4}]
    assert [row.address for row in port.fixed_ips.all()] == ["10.77.0.51"]
    assert (port.port_security_enabled, port.security_groups.count()) == (False, 0)
    assert "kept" in at_alice.get(f"/networks/{net.id}/").content.decode()
    at_alice.post(f"/ports/{port.id}/delete/")
    assert not Port.objects.filter(id=port.id).exists()


@pytest.mark.slow
def test_all_that_is_wrong_with_a_port_is_reported_at_once(at_alice: Client, alice: Person, net: Network) -> None:
    path = f"/networks/{net.id}/ports/create/"
    typed = {"fixed_ips": "x", "mac_address": "y", "groups": "z", "allowed_address_pairs": "0.0.0.0/0"}
    wrong = at_alice.post(path, typed)
    assert wrong.status_code == 422
    assert set(wrong.context["form"].errors) == {"fixed_ips", "mac_address", "groups", "allowed_address_pairs"}
    for more in ("0.0.0.0/1, 128.0.0.0/1", "fe80::1%x/128", "fe80::1%x"):
        refused = at_alice.post(path, {"allowed_address_pairs": more, "port_security_enabled": "on"})
        assert list(refused.context["form"].errors) == ["allowed_address_pairs"]
    elsewhere = at_alice.post(path, {"fixed_ips": "192.0.2.1", "port_security_enabled": "on"})
    assert list(elsewhere.context["form"].errors) == ["fixed_ips"]


@pytest.mark.slow
def test_on_a_network_of_others_only_the_network_s_owner_chooses(at_alice: Client, cloud: Cloud, alice: Person) -> None:
    page = at_alice.get(f"/networks/{cloud.network.id}/ports/create/")
    assert set(page.context["form"].fields) == {"name", "groups", "extra_dhcp_opts", "admin_state_up", "description"}
    at_alice.post(f"/networks/{cloud.network.id}/ports/create/", {"name": "mine", "fixed_ips": "10.20.0.77"})
    assert [row.address for row in Port.objects.get(name="mine").fixed_ips.all()] != ["10.20.0.77"]
    shown = at_alice.get(f"/networks/{cloud.network.id}/").content.decode()
    for tail in ("edit/", "delete/", "subnets/create/"):
        assert f"/networks/{cloud.network.id}/{tail}" not in shown
        assert at_alice.get(f"/networks/{cloud.network.id}/{tail}").status_code == 403


@pytest.mark.slow
def test_who_uses_it_is_notified_of_one_s_own_project(
    at_alice: Client, signed_in: SignedIn, alice: Person, charlie: Person, cloud: Cloud
) -> None:
    theirs = cloud.running(charlie.context, name="theirs")
    mine = cloud.running(alice.context, name="mine")
    shown = at_alice.get(f"/networks/{cloud.network.id}/").content.decode()
    assert f'href="/instances/{mine.id}/"' in shown
    assert str(theirs.id) not in shown


@pytest.mark.slow
def test_those_of_others_are_not_there_and_readers_change_nothing(
    signed_in: SignedIn, alice: Person, bob: Person, charlie: Person, net: Network, subnet: Subnet
) -> None:
    port = services.create_port(alice.project_id, net)
    paths = [f"/networks/{net.id}/{tail}" for tail in ("", "edit/", "delete/", "subnets/create/", "ports/create/")]
    paths += [f"/subnets/{subnet.id}/{tail}" for tail in ("edit/", "delete/")]
    paths += [f"/ports/{port.id}/{tail}" for tail in ("edit/", "delete/")]
    for person, status in ((charlie, 404), (bob, 403)):
        client = signed_in(person)
        for path in paths:
            looks = path == f"/networks/{net.id}/"
            assert client.get(path).status_code == (200 if person is bob and looks else status), (person, path)
            if not looks:
                assert client.post(path).status_code == status, (person, path)
    for path in ("/networks/", paths[0]):
        shown = signed_in(bob).get(path).content.decode()
        assert "front &lt;1&gt;" in shown
        assert "/delete/" not in shown
        assert "/create/" not in shown
    assert "front &lt;1&gt;" not in signed_in(charlie).get("/networks/").content.decode()


def test_pages_follow(at_alice: Client, alice: Person, net: Network) -> None:
    before = events.latest_id()
    services.create_subnet(net, "10.99.0.0/24")
    log = events.since([f"project:{alice.project_id}"], before)
    assert "10.99.0.0/24" in render("networks", log, alice.context)
    html = render(f"network/{net.id}", log, alice.context)
    for part in ("subnets", "ports", "facts"):
        assert f'id="network-{part}"' in html
    assert "<form" not in html


@pytest.mark.slow
def test_a_new_network_is_connected_to_the_router_there_is(at_alice: Client, alice: Person, operator: Person) -> None:
    assert "router" not in at_alice.get("/networks/create/").context["form"].fields
    outside = services.create_network(operator.project_id, "outside", external=True)
    services.create_subnet(outside, "203.0.113.0/24", enable_dhcp=False)
    router = services.create_router(alice.project_id, name="way-out", gateway=services.Gateway(outside))
    proposed = at_alice.get("/networks/create/").context["form"]["router"].value()
    assert proposed == str(router.id)
    create(at_alice, name="led", cidr="10.78.0.0/24", router=proposed)
    create(at_alice, name="alone", cidr="10.79.0.0/24", router="")
    legs = Port.objects.filter(device_id=router.id, device_owner="network:router_interface")
    assert list(legs.values_list("network__name", flat=True)) == ["led"]
    wrong = create(at_alice, cidr="10.80.0.0/24", router=str(outside.id))
    assert list(wrong.context["form"].errors) == ["router"]


@pytest.mark.slow
def test_one_click_makes_a_network_with_a_way_out(
    at_alice: Client, signed_in: SignedIn, alice: Person, bob: Person, operator: Person
) -> None:
    assert "/networks/own/" not in at_alice.get("/networks/").content.decode()  # there is no external network
    outside = services.create_network(operator.project_id, "outside", external=True, is_default=True)
    services.create_subnet(outside, "203.0.113.0/24", enable_dhcp=False)
    assert "/networks/own/" in at_alice.get("/networks/").content.decode()
    assert "/networks/own/" not in signed_in(bob).get("/networks/").content.decode()
    assert signed_in(bob).post("/networks/own/").status_code == 403
    assert "Create a network with external access?" in at_alice.get("/networks/own/").content.decode()
    answer = at_alice.post("/networks/own/")
    made = Network.objects.get(project_id=alice.project_id)
    assert answer["Location"] == f"/networks/{made.id}/"
    leg = Port.objects.get(network=made, device_owner="network:router_interface")
    assert leg.device_id is not None
    assert "/networks/own/" not in at_alice.get("/networks/").content.decode()


def test_name_servers_without_a_range_of_their_version_are_not_lost_silently(at_alice: Client, alice: Person) -> None:
    answer = create(at_alice, cidr="10.78.0.0/24", dns_nameservers="9.9.9.9, 2620:fe::fe")
    assert list(answer.context["form"].errors) == ["dns_nameservers"]
    assert "2620:fe::fe" in str(answer.context["form"].errors)
    assert not Network.objects.filter(project_id=alice.project_id).exists()


def test_a_range_that_the_router_is_on_already_is_refused_at_the_router(
    at_alice: Client, alice: Person, subnet: Subnet
) -> None:
    outside = services.create_network(alice.project_id, "outside", external=True)
    services.create_subnet(outside, "203.0.113.0/24")
    way = services.Gateway(outside)
    router = services.create_connected_router(alice.project_id, [subnet], name="way-out", gateway=way)
    answer = create(at_alice, cidr="10.77.0.0/25", router=str(router.id))
    form = answer.context["form"]
    assert list(form.errors) == ["router"]
    assert str(subnet.id) not in str(form.errors)
    assert subnet.cidr in str(form.errors)


def test_what_is_wrong_with_the_first_address_as_gateway_is_reported_where_it_was_chosen(
    at_alice: Client, net: Network
) -> None:
    typed = {"cidr": "10.79.0.0/24", "gateway": "auto", "allocation_pools": "10.79.0.1-10.79.0.9"}
    answer = at_alice.post(f"/networks/{net.id}/subnets/create/", typed)
    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == ["gateway"]  # the field of its address is hidden


def test_a_refusal_has_no_ids(at_alice: Client, alice: Person, net: Network, subnet: Subnet) -> None:
    answer = at_alice.post(f"/networks/{net.id}/subnets/create/", {"cidr": "10.77.0.128/25", "gateway": "auto"})
    assert str(net.id) not in str(answer.context["form"].errors)
    assert "10.77.0.128/25" in str(answer.context["form"].errors)
    services.create_connected_router(alice.project_id, [subnet], name="way-out")
    answer = at_alice.post(f"/networks/{net.id}/delete/", follow=True)
    (message,) = answer.context["messages"]
    assert str(net.id) not in str(message)


def test_the_page_has_the_id_that_the_api_has(at_alice: Client, net: Network) -> None:
    assert f'data-copy="{net.id}"' in at_alice.get(f"/networks/{net.id}/").content.decode()
