"""Port forwardings over the Networking API: lists, parts of one, and several made at once."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.network import services
from provisioning.network.models import FloatingIP, Network, Port, PortForwarding
from provisioning.network.services.floating_ips.port_forwardings import MOST_ELEMENTS
from tests.network.test_security_groups_api import V2, refused
from tests.support.cast import Api, Person
from tests.support.standing import standing

pytestmark = pytest.mark.django_db


@pytest.fixture
@standing
def floating(alice: Person, operator: Person, net: Network) -> FloatingIP:
    """A floating IP of alice's on a network that her router leads to."""
    external = services.create_network(operator.project_id, "public", external=True)
    services.create_subnet(external, "203.0.113.0/24", enable_dhcp=False)
    router = services.create_router(alice.project_id, gateway=services.Gateway(external))
    services.add_interface_by_subnet(router, net.subnets.get())
    return services.create_floating_ip(alice.project_id, external)


@pytest.fixture
@standing
def port(alice: Person, net: Network) -> Port:
    return services.create_port(alice.project_id, net)


@pytest.fixture
def url(floating: FloatingIP) -> str:
    return f"{V2}/floatingips/{floating.id}/port_forwardings"


def forwarding_of(port: Port, external: int | str, internal: int | str, **values: Any) -> dict[str, Any]:
    """A body's forwarding; text is a range."""
    ports = {"external": external, "internal": internal}
    names = {f"{side}_port{'_range' if isinstance(value, str) else ''}": value for side, value in ports.items()}
    return {"protocol": "tcp", "internal_port_id": str(port.id), **names, **values}


def make_three(alice: Person, url: str, port: Port) -> list[dict[str, Any]]:
    bodies = [
        forwarding_of(port, 2222, 22, description="shell"),
        forwarding_of(port, 53, 53, protocol="udp"),
        forwarding_of(port, "9000:9010", "80:90"),
    ]
    answer = Api(alice).post(url, {"port_forwardings": bodies})
    assert answer.status_code == 201, answer.content
    made: list[dict[str, Any]] = answer.json()["port_forwardings"]
    return made


@pytest.mark.slow
def test_several_are_made_at_once_all_or_none(alice: Person, url: str, port: Port) -> None:
    assert [row["external_port_range"] for row in make_three(alice, url, port)] == ["2222:2222", "53:53", "9000:9010"]
    again = [forwarding_of(port, 81, 81), forwarding_of(port, 9005, 82)]
    refused(Api(alice).post(url, {"port_forwardings": again}), 400, "BadRequest")
    for wrong in ([], {}, [{}], [forwarding_of(port, 81, 81), {**forwarding_of(port, 82, 82), "external_port": None}]):
        refused(Api(alice).post(url, {"port_forwardings": wrong}), 400, "HTTPBadRequest")
    assert PortForwarding.objects.count() == 3


@pytest.mark.slow
def test_ranges_end_at_the_last_port_and_are_one_port_or_equally_long(alice: Person, url: str, port: Port) -> None:
    api = Api(alice)
    for external, internal in (("65000:65010", 65520), ("9000:9004", "65530:65534"), (65535, 65535), ("1:10", "1:10")):
        assert api.post(url, {"port_forwarding": forwarding_of(port, external, internal)}).status_code == 201
    for external, internal in (
        ("100:110", "65530:65540"), ("65530:65540", 80), ("100:110", "100:105"), ("110:100", 80), ("0:10", 80),
    ):  # fmt: skip
        refused(api.post(url, {"port_forwarding": forwarding_of(port, external, internal)}), 400, "BadRequest")


@pytest.mark.slow
def test_a_floating_ip_has_so_many_forwardings_as_hosts_can_load(alice: Person, url: str, port: Port) -> None:
    """Ranges that keep their ports, or lead to one, are one however long; each port that is moved is one."""
    api = Api(alice)
    body = forwarding_of(port, f"1:{MOST_ELEMENTS}", f"2001:{2000 + MOST_ELEMENTS}")
    assert api.post(url, {"port_forwarding": body}).status_code == 201
    for external, internal in ((5000, 80), ("5000:6000", 80), ("5000:6000", "5000:6000")):
        refused(api.post(url, {"port_forwarding": forwarding_of(port, external, internal)}), 400, "BadRequest")
    (row,) = PortForwarding.objects.all()
    changed = {"port_forwarding": {"external_port_range": "1:65000", "internal_port_range": "1:65000"}}
    assert api.put(f"{url}/{row.id}", changed).status_code == 200
    body = forwarding_of(port, "1:65000", 80, protocol="udp")
    assert api.post(url, {"port_forwarding": body}).status_code == 201
    body = forwarding_of(port, "1:60000", "1001:61000", protocol="sctp")
    refused(api.post(url, {"port_forwarding": body}), 400, "BadRequest")


@pytest.mark.slow
def test_filters(alice: Person, url: str, port: Port) -> None:
    shell, names, _ = make_three(alice, url, port)
    address = port.fixed_ips.get().address

    def found(query: str) -> list[int | None]:
        rows = Api(alice).get(f"{url}?sort_key=external_port&{query}").json()["port_forwardings"]
        return [row["external_port"] for row in rows]

    assert found(f"id={shell['id']}&id={names['id']}") == [53, 2222]
    assert found("protocol=udp") == found("internal_port=53") == found("external_port_range=53:53") == [53]
    assert found("description=shell") == found("external_port=2222") == found("internal_port_range=22:22") == [2222]
    assert found("external_port_range=9000:9010") == found("internal_port_range=80:90") == [None]
    assert found(f"internal_port_id={port.id}&internal_ip_address={address}") == [53, 2222, None]
    for nothing in ("external_port=9000", "external_port=x", "external_port_range=x", f"id={port.id}", "protocol=sctp"):
        assert found(nothing) == [], nothing
    refused(Api(alice).get(f"{url}?colour=red"), 400, "InvalidInput")


@pytest.mark.slow
def test_sorting_pages_and_fields(alice: Person, url: str, port: Port) -> None:
    shell = make_three(alice, url, port)[0]
    api = Api(alice)

    def page(path: str) -> tuple[list[str], dict[str, str]]:
        body = api.get(path).json()
        links = {link["rel"]: link["href"] for link in body.get("port_forwardings_links", [])}
        return [row["external_port_range"] for row in body["port_forwardings"]], links

    first, links = page(f"{url}?limit=2&sort_key=external_port&sort_dir=desc&fields=external_port_range")
    assert first == ["9000:9010", "2222:2222"]
    assert links["next"].partition("?")[0].endswith(url)
    second, links = page(V2 + links["next"].partition(V2)[2])
    assert second == ["53:53"]
    assert page(V2 + links["previous"].partition(V2)[2])[0] == first
    assert api.get(f"{url}/{shell['id']}?fields=id").json() == {"port_forwarding": {"id": shell["id"]}}
    assert api.get(f"{url}?fields=protocol&protocol=udp").json() == {"port_forwardings": [{"protocol": "udp"}]}
    refused(api.get(f"{url}?marker={port.id}"), 400, "InvalidInput")


@pytest.mark.slow
def test_if_match_is_read_though_there_is_no_revision(alice: Person, url: str, port: Port) -> None:
    shell = make_three(alice, url, port)[0]
    where = f"{url}/{shell['id']}"
    client, headers = Api(alice).client, Api(alice).headers
    refused(client.delete(where, headers={**headers, "If-Match": "revision_number=yesterday"}), 400, "BadRequest")
    assert client.delete(where, headers={**headers, "If-Match": "revision_number=7"}).status_code == 204


def test_the_floating_ip_shows_which_port_each_leads_to(alice: Person, url: str, port: Port) -> None:
    made = make_three(alice, url, port)
    shown = Api(alice).get(url.rpartition("/")[0]).json()["floatingip"]["port_forwardings"]
    assert {(row["id"], row["internal_port_id"]) for row in shown} == {(row["id"], str(port.id)) for row in made}


def test_another_project_sees_and_makes_none(alice: Person, charlie: Person, url: str, port: Port) -> None:
    shell = make_three(alice, url, port)[0]
    theirs = Api(charlie)
    for answer in (
        theirs.get(url),
        theirs.get(f"{url}/{shell['id']}"),
        theirs.post(url, {"port_forwardings": [forwarding_of(port, 1, 1)]}),
    ):
        refused(answer, 404, "FloatingIPNotFound")
