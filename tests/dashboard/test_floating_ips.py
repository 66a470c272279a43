"""Floating IPs: the list, leading them to instances in two clicks, what is missing for that, forwardings."""

from __future__ import annotations

import pytest
from django.test import Client

from portal.dashboard.live import render
from provisioning.compute.launch.request import NetworkRequest
from provisioning.events import selectors as events
from provisioning.network import services
from provisioning.network.models import FloatingIP, Network, Port, PortForwarding, Router
from provisioning.quotas.models import QuotaLimit
from tests.dashboard.conftest import SignedIn, offered
from tests.support.cast import Person
from tests.support.clouds import Cloud
from tests.support.ports import guest_ports
from tests.support.standing import standing


@pytest.fixture
@standing
def outside(operator: Person) -> Network:
    made = services.create_network(operator.project_id, "outside", external=True)
    services.create_subnet(made, "203.0.113.0/24", enable_dhcp=False)
    return made


@pytest.fixture
@standing
def port(cloud: Cloud, alice: Person) -> Port:
    """The port of alice's instance on a network of her own."""
    net = services.create_network(alice.project_id, "front")
    services.create_subnet(net, "10.77.0.0/24")
    instance = cloud.running(alice.context, name="web", networks=(NetworkRequest(network_id=str(net.id)),))
    return guest_ports().get(device_id=instance.id)


@pytest.fixture
@standing
def router(alice: Person, outside: Network, port: Port) -> Router:
    made = services.create_router(alice.project_id, name="way-out", gateway=services.Gateway(outside))
    services.add_interface_by_subnet(made, port.network.subnets.get(), anywhere=True)
    return made


def path(port: Port) -> str:
    return f"/ports/{port.id}/floating-ip/"


@pytest.mark.slow
def test_two_clicks_lead_a_new_one_to_an_instance(
    at_alice: Client, alice: Person, outside: Network, port: Port, router: Router
) -> None:
    instance_page = f"/instances/{port.device_id}/network/"
    assert path(port) in at_alice.get(instance_page).content.decode()
    page = at_alice.get(path(port))
    chosen = page.context["form"]["floating"].value()
    assert chosen == f"new:{outside.id}"
    assert at_alice.post(path(port), {"floating": chosen})["Location"] == instance_page
    made = FloatingIP.objects.get(project_id=alice.project_id)
    assert (made.fixed_port_id, made.router_id) == (port.id, router.id)
    shown = at_alice.get(instance_page).content.decode()
    assert made.address in shown
    assert path(port) not in shown


@pytest.mark.slow
def test_one_that_is_there_comes_first_and_one_that_leads_elsewhere_is_moved(
    at_alice: Client, alice: Person, outside: Network, port: Port, router: Router
) -> None:
    elsewhere = services.create_port(alice.project_id, port.network)
    moved = services.create_floating_ip(alice.project_id, outside, port=elsewhere)
    free = services.create_floating_ip(alice.project_id, outside)
    page = at_alice.get(path(port))
    assert offered(page, "floating") == [free.address, "Allocate a new one", moved.address]
    assert page.context["form"]["floating"].value() == str(free.id)
    at_alice.post(path(port), {"floating": str(moved.id)})
    moved.refresh_from_db()
    assert moved.fixed_port_id == port.id


@pytest.mark.parametrize("step", ["external", "router", "gateway", "interface"])
def test_what_is_missing_is_reported_with_the_way_to_mend_it(
    at_alice: Client, alice: Person, operator: Person, port: Port, step: str
) -> None:
    subnet = port.network.subnets.get()
    lacks, link = {
        "external": ("There is no external network", ""),
        "router": ("No router is on", f"/routers/create/?subnet={subnet.id}"),
        "gateway": ("has no gateway", "/gateway/"),
        "interface": ("is not connected to this network", f"/interfaces/add/?subnet={subnet.id}"),
    }[step]
    if step != "external":
        outside = services.create_network(operator.project_id, "outside", external=True)
        services.create_subnet(outside, "203.0.113.0/24", enable_dhcp=False)
    if step == "gateway":
        services.create_connected_router(alice.project_id, [subnet], name="r")
    if step == "interface":
        services.create_router(alice.project_id, name="r", gateway=services.Gateway(outside))
    page = at_alice.get(path(port))
    assert page.status_code == 200
    assert lacks in page.content.decode()
    assert link in page.context.get("to", "")
    assert bool(page.context.get("to")) == bool(link)
    if link:
        assert at_alice.get(page.context["to"]).status_code == 200


def test_a_port_without_ipv4_is_notified(at_alice: Client, alice: Person, outside: Network) -> None:
    net = services.create_network(alice.project_id, "six")
    services.create_subnet(net, "fd00:77::/64", ipv6_ra_mode="slaac", ipv6_address_mode="slaac")
    lonely = services.create_port(alice.project_id, net)
    assert "no IPv4 address" in at_alice.get(path(lonely)).content.decode()


@pytest.mark.slow
def test_what_is_not_offered_is_refused(
    at_alice: Client, charlie: Person, outside: Network, port: Port, router: Router
) -> None:
    theirs = services.create_floating_ip(charlie.project_id, outside)
    for wrong in ("", str(theirs.id), f"new:{port.network_id}"):
        answer = at_alice.post(path(port), {"floating": wrong})
        assert answer.status_code == 422
        assert list(answer.context["form"].errors) == ["floating"]


@pytest.mark.slow
def test_one_is_allocated_led_disassociated_and_released(
    at_alice: Client, alice: Person, outside: Network, port: Port, router: Router
) -> None:
    assert "No floating IPs yet" in at_alice.get("/floating-ips/").content.decode()
    at_alice.post("/floating-ips/allocate/", {"network": str(outside.id), "description": "for the web"})
    made = FloatingIP.objects.get(project_id=alice.project_id)
    page = at_alice.get(f"/floating-ips/{made.id}/associate/")
    (target,) = page.context["form"].targets
    assert offered(page, "target")[0].startswith("web: 10.77.0.")
    at_alice.post(f"/floating-ips/{made.id}/associate/", {"target": target})
    made.refresh_from_db()
    assert made.fixed_port_id == port.id
    shown = at_alice.get("/floating-ips/").content.decode()
    assert made.address in shown
    assert f'href="/instances/{port.device_id}/"' in shown
    back = at_alice.post(f"/floating-ips/{made.id}/disassociate/?to=instance")["Location"]
    assert back == f"/instances/{port.device_id}/network/"
    made.refresh_from_db()
    assert made.fixed_port_id is None
    assert "Release" in at_alice.get(f"/floating-ips/{made.id}/release/").content.decode()
    at_alice.post(f"/floating-ips/{made.id}/release/")
    assert not FloatingIP.objects.filter(id=made.id).exists()


@pytest.mark.slow
def test_wrong_networks_and_a_full_quota_are_reported_in_the_form(
    at_alice: Client, alice: Person, port: Port, outside: Network
) -> None:
    answer = at_alice.post("/floating-ips/allocate/", {"network": str(port.network_id)})
    assert list(answer.context["form"].errors) == ["network"]
    QuotaLimit.objects.create(project_id=alice.project_id, resource="floatingips", limit=0)
    answer = at_alice.post("/floating-ips/allocate/", {"network": str(outside.id)})
    assert answer.status_code == 422
    (message,) = answer.context["form"].non_field_errors()
    assert message == "The project's quota is exceeded. Floating IPs: 0 of 0 used, 1 more requested."


def test_only_operators_choose_the_address(
    at_alice: Client, signed_in: SignedIn, operator: Person, outside: Network
) -> None:
    assert "address" not in at_alice.get("/floating-ips/allocate/").context["form"].fields
    typed = {"network": str(outside.id), "address": "203.0.113.77"}
    signed_in(operator).post("/floating-ips/allocate/", typed)
    at_alice.post("/floating-ips/allocate/", typed)
    assert [row.address for row in FloatingIP.objects.filter(project_id=operator.project_id)] == ["203.0.113.77"]


@pytest.mark.slow
def test_ports_are_forwarded_and_not(
    at_alice: Client, alice: Person, outside: Network, port: Port, router: Router
) -> None:
    floating = services.create_floating_ip(alice.project_id, outside)
    add = f"/floating-ips/{floating.id}/forwardings/add/"
    (target,) = at_alice.get(add).context["form"].targets
    at_alice.post(add, {"protocol": "tcp", "outside": "8000-8010", "inside": "80", "target": target})
    row = PortForwarding.objects.get()
    assert (row.external_port_first, row.external_port_last, row.internal_port_first) == (8000, 8010, 80)
    shown = at_alice.get(f"/floating-ips/{floating.id}/").content.decode()
    assert f"TCP 8000-8010 to {row.internal_ip_address}, port 80" in shown
    edit = f"/floating-ips/{floating.id}/forwardings/{row.id}/edit/"
    initial = at_alice.get(edit).context["form"]
    assert [initial[name].value() for name in ("outside", "inside", "target")] == ["8000-8010", "80", target]
    at_alice.post(edit, {"protocol": "udp", "outside": "53", "inside": "", "target": target, "description": "names"})
    changed = at_alice.get(f"/floating-ips/{floating.id}/").content.decode()
    assert f"UDP 53 to {row.internal_ip_address}, port 53" in changed
    gone = f"/floating-ips/{floating.id}/forwardings/{row.id}/delete/"
    assert "Delete forwarding?" in at_alice.get(gone).content.decode()
    at_alice.post(gone)
    assert not PortForwarding.objects.exists()
    assert at_alice.post(gone).status_code == 404


@pytest.mark.parametrize(
    ("typed", "places"),
    [
        ({"outside": "x", "inside": "70000", "target": "7"}, {"outside", "inside", "target"}),
        ({"outside": "80-90", "inside": "80-81"}, {"inside", "target"}),
        ({"protocol": "ah"}, {"protocol", "outside", "target"}),
    ],
)
def test_all_that_is_wrong_with_a_forwarding_is_reported_at_once(
    at_alice: Client, alice: Person, outside: Network, typed: dict[str, str], places: set[str]
) -> None:
    floating = services.create_floating_ip(alice.project_id, outside)
    answer = at_alice.post(f"/floating-ips/{floating.id}/forwardings/add/", {"protocol": "tcp", **typed})
    assert answer.status_code == 422
    assert set(answer.context["form"].errors) == places


@pytest.mark.slow
def test_those_of_others_are_not_there_and_readers_change_nothing(
    signed_in: SignedIn, alice: Person, bob: Person, charlie: Person, outside: Network, port: Port
) -> None:
    floating = services.create_floating_ip(alice.project_id, outside)
    tails = ("", "release/", "associate/", "disassociate/", "forwardings/add/")
    for person, status in ((charlie, 404), (bob, 403)):
        client = signed_in(person)
        for tail in tails:
            expected = 200 if person is bob and not tail else status
            assert client.get(f"/floating-ips/{floating.id}/{tail}").status_code == expected, (person, tail)
        assert client.get(path(port)).status_code == status
    shown = signed_in(bob).get("/floating-ips/").content.decode()
    assert floating.address in shown
    assert "/release/" not in shown
    assert floating.address not in signed_in(charlie).get("/floating-ips/").content.decode()


def test_the_list_follows(alice: Person, outside: Network) -> None:
    before = events.latest_id()
    made = services.create_floating_ip(alice.project_id, outside)
    log = events.since([f"project:{alice.project_id}"], before)
    assert made.address in render("floating_ips", log, alice.context)
    assert "Not associated" in render(f"floating_ip/{made.id}", log, alice.context)


@pytest.mark.slow
def test_the_instance_is_drawn_anew_when_one_is_led_to_it_or_taken_away(
    alice: Person, outside: Network, port: Port, router: Router
) -> None:
    made = services.create_floating_ip(alice.project_id, outside)
    steps = (lambda: services.associate(made, port), lambda: services.delete_floating_ip(made))
    for there, step in zip((True, False), steps, strict=True):
        before = events.latest_id()
        step()
        log = events.since([f"project:{alice.project_id}"], before)
        for page in ("instances", f"instance/{port.device_id}", "overview"):
            html = render(page, log, alice.context)
            assert "10.77.0." in html, page
            assert (made.address in html) == there, page
