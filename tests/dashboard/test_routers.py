"""Routers: the list, one with its gateway, interfaces and routes, what is wrong at its field, and who may do what."""

from __future__ import annotations

import pytest
from django.test import Client

from portal.dashboard.live import render
from provisioning.events import selectors as events
from provisioning.network import services
from provisioning.network.models import Network, Port, Router, Subnet
from tests.dashboard.conftest import SignedIn, offered
from tests.support.cast import Person
from tests.support.standing import standing

INTERFACE = "network:router_interface"


@pytest.fixture
@standing
def outside(operator: Person) -> Network:
    made = services.create_network(operator.project_id, "outside", external=True)
    services.create_subnet(made, "203.0.113.0/24", enable_dhcp=False)
    return made


@pytest.fixture
@standing
def subnet(alice: Person) -> Subnet:
    return services.create_subnet(services.create_network(alice.project_id, "front"), "10.77.0.0/24")


@pytest.fixture
@standing
def router(alice: Person) -> Router:
    return services.create_router(alice.project_id, name="<r>")


def legs(router: Router) -> list[str]:
    rows = Port.objects.filter(device_owner=INTERFACE, device_id=router.id)
    return [str(each) for each in rows.values_list("fixed_ips__address", flat=True)]


def test_one_form_makes_a_router_with_its_gateway_and_networks(
    at_alice: Client, alice: Person, outside: Network, subnet: Subnet
) -> None:
    page = at_alice.get(f"/routers/create/?subnet={subnet.id}")
    assert page.context["form"]["subnets"].value() == [str(subnet.id)]
    assert offered(page, "gateway") == ["outside", "None"]
    assert "enable_snat" not in page.context["form"].fields
    typed = {"name": "way-out", "gateway": str(outside.id), "subnets": [str(subnet.id)], "admin_state_up": "on"}
    answer = at_alice.post("/routers/create/", typed)
    router = Router.objects.get(project_id=alice.project_id)
    assert answer["Location"] == f"/routers/{router.id}/"
    assert router.gateway_port is not None
    assert legs(router) == ["10.77.0.1"]
    shown = at_alice.get("/routers/").content.decode()
    assert "way-out" in shown
    assert "203.0.113." in shown


def test_a_network_that_does_not_go_makes_no_router(
    at_alice: Client, alice: Person, outside: Network, subnet: Subnet
) -> None:
    twin = services.create_subnet(services.create_network(alice.project_id, "twin"), "10.77.0.0/25")
    typed = {"name": "r", "gateway": "", "subnets": [str(subnet.id), str(twin.id)]}
    answer = at_alice.post("/routers/create/", typed)
    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == ["subnets"]
    assert not Router.objects.filter(project_id=alice.project_id).exists()
    wrong = at_alice.post("/routers/create/", {"gateway": str(subnet.network_id), "subnets": ["nothing"]})
    assert set(wrong.context["form"].errors) == {"name", "gateway", "subnets"}


def test_the_gateway_is_set_and_cleared(at_alice: Client, outside: Network, router: Router) -> None:
    assert at_alice.post(f"/routers/{router.id}/gateway/", {"gateway": ""}).status_code == 422
    at_alice.post(f"/routers/{router.id}/gateway/", {"gateway": str(outside.id)})
    router.refresh_from_db()
    assert router.gateway_port is not None
    assert "Clear the gateway of &lt;r&gt;?" in at_alice.get(f"/routers/{router.id}/gateway/clear/").content.decode()
    at_alice.post(f"/routers/{router.id}/gateway/clear/")
    router.refresh_from_db()
    assert router.gateway_port is None


def test_a_gateway_that_floating_ips_need_stays_and_why_is_reported(
    at_alice: Client, alice: Person, outside: Network, subnet: Subnet
) -> None:
    router = services.create_connected_router(alice.project_id, [subnet], name="r", gateway=services.Gateway(outside))
    services.create_floating_ip(alice.project_id, outside, port=services.create_port(alice.project_id, subnet.network))
    shown = at_alice.post(f"/routers/{router.id}/gateway/clear/", follow=True).content.decode()
    assert "Floating IPs use the gateway" in shown


def test_only_operators_choose_snat(signed_in: SignedIn, operator: Person, outside: Network) -> None:
    own = services.create_router(operator.project_id, name="own")
    typed = {"gateway": str(outside.id)}
    assert "enable_snat" in signed_in(operator).get(f"/routers/{own.id}/gateway/").context["form"].fields
    signed_in(operator).post(f"/routers/{own.id}/gateway/", typed)
    own.refresh_from_db()
    assert not own.enable_snat


def test_a_network_is_connected_and_disconnected(at_alice: Client, router: Router, subnet: Subnet) -> None:
    add = f"/routers/{router.id}/interfaces/add/"
    assert at_alice.get(f"{add}?subnet={subnet.id}").context["form"]["subnet"].value() == str(subnet.id)
    at_alice.post(add, {"subnet": str(subnet.id)})
    assert legs(router) == ["10.77.0.1"]
    assert offered(at_alice.get(add), "subnet") == []
    shown = at_alice.get(f"/routers/{router.id}/").content.decode()
    assert "10.77.0.0/24" in shown
    port = Port.objects.get(device_id=router.id)
    gone = f"/routers/{router.id}/interfaces/{port.id}/remove/"
    assert "Disconnect front?" in at_alice.get(gone).content.decode()
    at_alice.post(gone)
    assert legs(router) == []
    assert at_alice.post(gone).status_code == 404


@pytest.mark.slow
def test_a_network_is_connected_at_another_address_than_its_gateways(
    at_alice: Client, alice: Person, charlie: Person, router: Router, subnet: Subnet
) -> None:
    bare = services.create_subnet(subnet.network, "10.78.0.0/24", gateway_ip=None)
    common = services.create_network(charlie.project_id, "common", shared=True)
    theirs = services.create_subnet(common, "10.79.0.0/24")
    add = f"/routers/{router.id}/interfaces/add/"
    at_alice.post(add, {"subnet": str(subnet.id), "address": "10.77.0.77"})
    assert legs(router) == ["10.77.0.77"]
    assert list(at_alice.post(add, {"subnet": str(bare.id)}).context["form"].errors) == ["address"]
    wrong = at_alice.post(add, {"subnet": str(bare.id), "address": "192.0.2.1"})
    assert list(wrong.context["form"].errors) == ["address"]
    assert at_alice.post(add, {"subnet": str(theirs.id), "address": "10.79.0.9"}).status_code == 422
    at_alice.post(add, {"subnet": str(theirs.id)})
    (address,) = [each for each in legs(router) if each.startswith("10.79.")]
    assert address != "10.79.0.1"
    offers = offered(at_alice.get("/routers/create/"), "subnets")
    assert offers == ["front"]


def test_subnets_of_others_and_of_outside_are_not_offered(
    at_alice: Client, charlie: Person, outside: Network, router: Router
) -> None:
    theirs = services.create_subnet(services.create_network(charlie.project_id, "theirs"), "10.88.0.0/24")
    add = f"/routers/{router.id}/interfaces/add/"
    assert offered(at_alice.get(add), "subnet") == []
    for subnet in (theirs, outside.subnets.get()):
        assert list(at_alice.post(add, {"subnet": str(subnet.id)}).context["form"].errors) == ["subnet"]


def test_routes_come_and_go(at_alice: Client, router: Router, subnet: Subnet) -> None:
    services.add_interface_by_subnet(router, subnet)
    add = f"/routers/{router.id}/routes/add/"
    wrong = at_alice.post(add, {"destination": "x", "nexthop": "y"})
    assert set(wrong.context["form"].errors) == {"destination", "nexthop"}
    unreachable = at_alice.post(add, {"destination": "10.9.0.0/24", "nexthop": "192.0.2.1"})
    assert list(unreachable.context["form"].errors) == ["nexthop"]
    at_alice.post(add, {"destination": "10.9.0.7/24", "nexthop": "10.77.0.9"})
    router.refresh_from_db()
    assert router.routes == [{"destination": "10.9.0.0/24", "nexthop": "10.77.0.9"}]
    gone = f"/routers/{router.id}/routes/remove/?destination=10.9.0.0/24&nexthop=10.77.0.9"
    assert "10.9.0.0/24 by 10.77.0.9" in at_alice.get(gone).content.decode()
    at_alice.post(gone)
    router.refresh_from_db()
    assert router.routes == []
    assert at_alice.get(gone).status_code == 404


def test_it_is_renamed_switched_off_and_deleted(at_alice: Client, router: Router, subnet: Subnet) -> None:
    at_alice.post(f"/routers/{router.id}/edit/", {"name": "new"})
    router.refresh_from_db()
    assert (router.name, router.admin_state_up) == ("new", False)
    assert "Switched off" in at_alice.get(f"/routers/{router.id}/").content.decode()
    services.add_interface_by_subnet(router, subnet)
    asked = at_alice.get(f"/routers/{router.id}/delete/").content.decode()
    assert "It is still on front" in asked
    assert 'data-testid="confirm"' not in asked
    at_alice.post(f"/routers/{router.id}/delete/")
    assert Router.objects.filter(id=router.id).exists()
    services.remove_interface_by_subnet(router, subnet)
    at_alice.post(f"/routers/{router.id}/delete/")
    assert not Router.objects.filter(id=router.id).exists()


@pytest.mark.slow
def test_those_of_others_are_not_there_and_readers_change_nothing(
    signed_in: SignedIn, bob: Person, charlie: Person, router: Router, subnet: Subnet
) -> None:
    services.add_interface_by_subnet(router, subnet)
    port = Port.objects.get(device_id=router.id)
    tails = ("", "edit/", "delete/", "gateway/", "gateway/clear/", "interfaces/add/", "routes/add/")
    tails += (f"interfaces/{port.id}/remove/",)
    for person, status in ((charlie, 404), (bob, 403)):
        client = signed_in(person)
        for tail in tails:
            expected = 200 if person is bob and not tail else status
            assert client.get(f"/routers/{router.id}/{tail}").status_code == expected, (person, tail)
            if tail:
                assert client.post(f"/routers/{router.id}/{tail}").status_code == status, (person, tail)
    for path in ("/routers/", f"/routers/{router.id}/"):
        shown = signed_in(bob).get(path).content.decode()
        assert "/delete/" not in shown
        assert "/add/" not in shown


def test_pages_follow(alice: Person, router: Router, subnet: Subnet) -> None:
    before = events.latest_id()
    services.add_interface_by_subnet(router, subnet)
    log = events.since([f"project:{alice.project_id}"], before)
    assert "10.77.0.1" in render(f"router/{router.id}", log, alice.context)
    assert "&lt;r&gt;" in render("routers", log, alice.context)


def test_a_new_router_leads_out_by_default_and_names_what_it_cannot_join(
    at_alice: Client, alice: Person, outside: Network, subnet: Subnet
) -> None:
    services.create_connected_router(alice.project_id, [subnet], name="first")
    form = at_alice.get("/routers/create/").context["form"]
    assert form["gateway"].value() == str(outside.id)
    answer = at_alice.post("/routers/create/", {"name": "second", "gateway": "", "subnets": [str(subnet.id)]})
    assert list(answer.context["form"].errors) == ["subnets"]
    assert str(subnet.network_id) not in str(answer.context["form"].errors)
