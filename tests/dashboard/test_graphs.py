"""Graphs: charts drawn on the server, their words and tables, and who sees which."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from compute_agent.contract.samples import GUEST_SERIES, HOST_SERIES, GuestSample, Samples
from portal.dashboard.graphs import sparklines
from portal.dashboard.graphs.charts import BYTES, HEIGHT, MEBIBYTES, PERCENT, PLAIN, path
from provisioning.compute.models import Instance
from provisioning.compute.states import VmState
from provisioning.hosts.models import Host
from provisioning.measures import collect, inbound
from provisioning.measures.pools import collect_pools
from provisioning.volumes.models import PoolHost, StoragePool
from tests.dashboard.conftest import SignedIn
from tests.support.cast import Person
from tests.support.clouds import Cloud
from tests.support.standing import standing

HTMX = {"HX-Request": "true"}


@pytest.fixture
@standing
def server(cloud: Cloud, alice: Person) -> Instance:
    return cloud.running(alice.context, name="web")


@pytest.fixture
def web(server: Instance) -> Instance:
    """A server that has used half a processor for twenty minutes, until now."""
    host, now = Host.objects.get(), time.time()
    values = [0.5, 300.0, *(2e6,) * (len(GUEST_SERIES) - 2)]
    frame = Samples(
        host=[*values, 0.7, 3.0][: len(HOST_SERIES)],
        guests=[GuestSample(instance_id=str(server.id), values=values)],
    )
    for slot in range(int(now - 1200) // 10, int(now) // 10, 3):
        inbound.receive(host.id, slot, frame, inbound.Inbox(), now)
    collect.collect(now)
    return server


def test_a_unit_has_three_digits_and_its_largest_name() -> None:
    assert [unit.text(value).replace("\u00a0", " ") for unit, value in (
        (BYTES, 0), (BYTES, 999), (BYTES, 1234), (BYTES, 2.5e9), (PERCENT, 7.26), (MEBIBYTES, 1536.0), (PLAIN, 0.05),
        (BYTES, None),
    )] == ["0 B/s", "999 B/s", "1.23 kB/s", "2.5 GB/s", "7.26 %", "1.5 GiB", "0.05", "\N{EN DASH}"]  # fmt: skip


@pytest.mark.parametrize(("value", "end"), [(0, 1), (0.3, 0.5), (7, 10), (1200, 2000), (2.4e6, 2.5e6), (1e6, 1e6)])
def test_an_axis_ends_at_a_round_number(value: float, end: float) -> None:
    assert BYTES.above(value) == pytest.approx(end)


def test_a_missing_point_interrupts_a_line() -> None:
    assert path([0.0, 5.0, None, 10.0], 10.0) == f"M0 {HEIGHT}h0L1 {HEIGHT // 2}M3 0h0"


def test_the_tab_shows_charts_with_texts_and_tables(at_alice: Client, web: Instance) -> None:
    answer = at_alice.get(f"/instances/{web.id}/graphs/")
    text = answer.content.decode().replace("\u00a0", " ")
    assert [chart.key for chart in answer.context["graphs"].charts][:2] == ["cpu", "memory"]
    assert "Used: now 50 %, average 50 %, maximum 50 %" in text
    assert "Read: now 2 MB/s" in text
    assert text.count("<table") == text.count("<figure") == 6
    assert "style=" not in text.split('id="graphs"')[1]


@pytest.mark.slow
@pytest.mark.parametrize("span", ["1h", "24h", "30d", "nonsense"])
def test_every_span_has_an_address(at_alice: Client, web: Instance, span: str) -> None:
    answer = at_alice.get(f"/instances/{web.id}/graphs/{span}/")
    (shown,) = [each for each in answer.context["graphs"].spans if each["shown"]]
    assert shown["url"].endswith(f"/graphs/{span if span != 'nonsense' else '1h'}/")
    assert [each["label"] for each in answer.context["tabs"] if each["shown"]] == ["Graphs"]
    assert not answer.context["graphs"].empty
    part = at_alice.get(f"/instances/{web.id}/graphs/{span}/", headers=HTMX).content.decode()
    assert part.lstrip().startswith('<div id="graphs"')
    assert len(part) < 60_000


def test_a_server_without_measures_says_so(at_alice: Client, cloud: Cloud, alice: Person) -> None:
    server = cloud.launch(alice.context, name="new")
    text = at_alice.get(f"/instances/{server.id}/graphs/").content.decode()
    assert "Nothing to draw" in text
    assert "<figure" not in text


def test_others_see_nothing(signed_in: SignedIn, charlie: Person, web: Instance) -> None:
    for kwargs in ({}, {"headers": HTMX}):
        answer = signed_in(charlie).get(f"/instances/{web.id}/graphs/24h/", **kwargs)  # type: ignore[arg-type]
        assert answer.status_code == 404
    own = signed_in(charlie).get("/graphs/project/1h/").context["graphs"]
    assert own.empty


def test_the_project_is_drawn_on_the_overview(at_alice: Client, web: Instance) -> None:
    assert 'hx-get="/graphs/project/1h/"' in at_alice.get("/").content.decode()
    drawn = at_alice.get("/graphs/project/1h/", headers=HTMX).context["graphs"]
    assert drawn.charts[0].lines[0].now.replace("\u00a0", " ") == "0.5 vCPUs"


def test_hosts_and_the_cloud_are_for_operators(
    signed_in: SignedIn, operator: Person, at_alice: Client, web: Instance
) -> None:
    host = Host.objects.get()
    for address in (f"/graphs/hosts/{host.id}/1h/", "/graphs/cloud/1h/"):
        assert at_alice.get(address).status_code == 403
        answer = signed_in(operator).get(address)
        assert answer.status_code == 200
        assert not answer.context["graphs"].empty
    assert signed_in(operator).get(f"/graphs/hosts/{web.id}/1h/").status_code == 404


def test_a_line_for_a_list_is_small_and_has_a_text(web: Instance, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(1):
        lines = sparklines.of_servers([web])
    line = str(lines[web.id]).replace("\u00a0", " ")
    assert "now 50 %, at most 50 %" in line
    assert re.search(r'd="M\d+ 5l1 0', line)
    assert len(line) < 400
    assert sparklines.spark([None] * 12) == ""


def test_a_server_that_is_being_built_has_no_line_and_costs_no_query(
    web: Instance, django_assert_num_queries: Any
) -> None:
    web.vm_state = VmState.BUILDING
    with django_assert_num_queries(0):
        assert sparklines.of_servers([web]) == {}


def test_a_line_has_a_point_for_each_value_and_a_gap_for_each_missing_one() -> None:
    drawn = sparklines.spark([0, 50, 100, None, 250])
    assert 'd="M0 10l1-5 1-5M4 0h0"' in drawn


def test_pools_have_graphs_and_a_line_on_the_page_of_their_host(
    signed_in: SignedIn, operator: Person, at_alice: Client, cloud: Cloud
) -> None:
    host = Host.objects.get()
    pool = StoragePool.objects.create(name="fast", driver="nbd", total_gb=100, free_gb=60)
    PoolHost.objects.create(pool=pool, host=host, last_seen_at=timezone.now())
    at_operator, address = signed_in(operator), f"/graphs/pools/{pool.id}/24h/"
    assert at_operator.get(address).context["graphs"].empty
    assert f'href="{address}"' in at_operator.get(f"/hosts/{host.id}/").content.decode()
    collect_pools(time.time())
    page = at_operator.get(address)
    assert [chart.title for chart in page.context["graphs"].charts] == ["Used space", "Sizes of its volumes"]
    assert "Used: now 40" in page.content.decode().replace("\u00a0", " ")
    assert "Used in the last day: now 40" in at_operator.get(f"/hosts/{host.id}/").content.decode()
    assert at_operator.get(f"/graphs/pools/{host.id}/24h/").status_code == 404
    assert at_alice.get(address).status_code == 403
