"""What holds for every list of networking: as many queries however long it is, and rows for who may look only."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from portal.dashboard.network import live
from portal.dashboard.network.live import RECORDS
from portal.dashboard.records import paging
from provisioning.network import services
from provisioning.network.models import Network
from tests.support.cast import Person
from tests.support.clouds import Cloud
from tests.support.standing import standing


@pytest.fixture
@standing
def outside(operator: Person) -> Network:
    made = services.create_network(operator.project_id, "outside", external=True)
    services.create_subnet(made, "203.0.113.0/24", enable_dhcp=False)
    return made


def one_more(alice: Person, outside: Network, number: int) -> None:
    """One more row for each list, as full as a row can be."""
    net = services.create_network(alice.project_id, f"net-{number}")
    subnet = services.create_subnet(net, f"10.{100 + number}.0.0/24")
    services.create_connected_router(alice.project_id, [subnet], name=str(number), gateway=services.Gateway(outside))
    port = services.create_port(alice.project_id, net)
    services.create_floating_ip(alice.project_id, outside, port=port)
    services.allow_ingress(services.create_security_group(alice.project_id, str(number)), "tcp", 22)


@pytest.mark.slow
def test_a_network_s_page_needs_no_more_queries_for_more_ports(
    at_alice: Client, alice: Person, cloud: Cloud, outside: Network
) -> None:
    one_more(alice, outside, 1)
    net = Network.objects.get(name="net-1")
    path = f"/networks/{net.id}/"
    at_alice.get(path)
    with CaptureQueriesContext(connection) as few:
        at_alice.get(path)
    for _ in range(4):
        services.create_port(alice.project_id, net)
    with CaptureQueriesContext(connection) as many:
        at_alice.get(path)
    assert len(many) == len(few), [query["sql"] for query in many.captured_queries]


def test_every_live_page_asks_a_rule(alice: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(live.policy, "allows", lambda context, rule: bool(calls.append(rule)))
    for page in (f"{kind}/{alice.project_id}" for kind in RECORDS):
        assert live.render(page, alice.context) == ""
    assert len(calls) == len(RECORDS)


@pytest.mark.slow
def test_a_long_table_has_pages_and_its_live_page_shows_the_same(
    at_alice: Client, alice: Person, cloud: Cloud, outside: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "PAGE_SIZE", 2)
    one_more(alice, outside, 1)
    net = Network.objects.get(name="net-1")
    for number in range(2, 5):
        one_more(alice, outside, number)
        services.create_port(alice.project_id, net)
    for path in (f"/networks/{net.id}/",):
        first, second = at_alice.get(path), at_alice.get(f"{path}?page=2")
        assert [answer.context["pages"].number for answer in (first, second)] == [1, 2], path
        assert 'href="?page=2"' in first.content.decode(), path
        assert 'href="?page=1"' in second.content.decode(), path
        follows = second.context["shell"]["live_page"]
        assert follows == f"{first.context['shell']['live_page']}/2"
        ids = re.findall(r'<tr id="([^"]+)"', second.content.decode())
        assert re.findall(r'<tr id="([^"]+)"', live.render(follows, alice.context)) == ids
        assert not set(re.findall(r'<tr id="((?!subnet)[^"]+)"', first.content.decode())) & set(ids)


def test_what_has_no_name_is_called_by_the_beginning_of_its_id_and_comes_last(
    at_alice: Client, alice: Person, cloud: Cloud, outside: Network
) -> None:
    nameless = services.create_network(alice.project_id, "")
    services.create_network(alice.project_id, "zoo")
    page = at_alice.get("/networks/").content.decode()
    shown = re.findall(r'<a href="/networks/[0-9a-f-]{36}/"[^>]*><bdi>([^<]+)</bdi></a>', page)
    assert shown == ["zoo", f"({str(nameless.id)[:8]}…)", "net", "outside"]
    assert f'title="{nameless.id}"' in page
