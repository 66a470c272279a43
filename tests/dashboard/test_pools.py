"""The list of storage pools, and the page of one: capacity, overcommit, state, hosts, volumes and faults."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.dashboard.live import render
from provisioning.events.selectors import OPERATORS, LoggedEvent
from provisioning.hosts.models import Host
from provisioning.volumes.models import PoolClaim, PoolHost, StoragePool, Volume
from tests.dashboard.conftest import SignedIn
from tests.support.cast import People, Person
from tests.support.clouds import Cloud

POOLS = "/pools/"


@pytest.fixture
def at_operator(signed_in: SignedIn, operator: Person, people: People) -> Client:
    return signed_in(operator)


@pytest.fixture
def pool(cloud: Cloud) -> StoragePool:
    """A pool of 100 GiB, of which 70 are used and 150 are allocated."""
    pool = StoragePool.objects.create(
        name="fast",
        driver="rbd",
        shared=True,
        total_gb=100,
        free_gb=30,
        allocated_gb=150,
        max_over_subscription_ratio=2,
    )
    serve(pool, "host-1")
    return pool


def serve(pool: StoragePool, name: str) -> None:
    host = Host.objects.get(name=name)
    PoolHost.objects.create(pool=pool, host=host, last_seen_at=timezone.now())


def fill(pool: StoragePool, people: People, *names: str) -> None:
    for name in names:
        Volume.objects.create(project_id=people.alice.project_id, pool=pool, name=name, size_gb=7, status="available")


def row_of(page: str, pool: StoragePool) -> str:
    rows: list[str] = re.findall(r"<tr.*?</tr>", page, re.DOTALL)
    [row] = [each for each in rows if f'href="{POOLS}{pool.id}/"' in each]
    return row


def page_of(client: Client, pool: StoragePool) -> str:
    return client.get(f"{POOLS}{pool.id}/").content.decode()


def test_a_row_shows_usage_and_overcommit(at_operator: Client, people: People, pool: StoragePool) -> None:
    fill(pool, people, "a", "b")
    row = row_of(at_operator.get(POOLS).content.decode(), pool)
    for text in ("Used: 70\u202fGiB of 100\u202fGiB", "Allocated: 150\u202fGiB of 200\u202fGiB"):
        assert text.replace("\u202f", " ") in re.sub(r"[\u202f\u00a0]", " ", row)
    assert "1.5\N{MULTIPLICATION SIGN}" in row
    assert "In service" in row
    assert f'href="/hosts/{Host.objects.get(name="host-1").id}/"' in row
    assert re.search(r">\s*2\s*</td>", row), "the number of its volumes"


def disabled(pool: StoragePool) -> str:
    StoragePool.objects.filter(id=pool.id).update(enabled=False, disabled_reason="<b>Repairs.")
    return "Disabled"


def frozen(pool: StoragePool) -> str:
    StoragePool.objects.filter(id=pool.id).update(frozen=True)
    return "Frozen"


def faulty(pool: StoragePool) -> str:
    StoragePool.objects.filter(id=pool.id).update(warning="<b>Its file system is read-only.")
    return "Has a fault"


def faulty_at_a_host(pool: StoragePool) -> str:
    PoolHost.objects.filter(pool=pool).update(warning="<b>It is not mounted.")
    return "Has a fault"


def silent(pool: StoragePool) -> str:
    Host.objects.update(connected=False, last_seen_at=None)
    return "Does not answer"


def unserved(pool: StoragePool) -> str:
    PoolHost.objects.filter(pool=pool).delete()
    return "No host serves it"


@pytest.mark.parametrize(
    ("change", "state"),
    [(disabled, "disabled"), (frozen, "disabled"), (faulty, "fault"), (faulty_at_a_host, "fault"), (silent, "down"),
     (unserved, "down")],
)  # fmt: skip
def test_the_reason_why_a_pool_gets_no_volumes_is_shown_and_filtered(
    at_operator: Client, pool: StoragePool, change: Callable[[StoragePool], str], state: str
) -> None:
    message = change(pool)
    listed = at_operator.get(f"{POOLS}?state={state}").content.decode()
    for text in (row_of(listed, pool), page_of(at_operator, pool)):
        assert message in text
        assert "<b>" not in text


@pytest.mark.parametrize(
    ("query", "found"),
    [("state=up", True), ("state=down", False), ("state=fault", False), ("state=disabled", False),
     ("host=host-1", True), ("host=host-2", False), ("driver=rbd", True), ("driver=nbd", False), ("q=fas", True)],
)  # fmt: skip
def test_filters(at_operator: Client, pool: StoragePool, query: str, *, found: bool) -> None:
    assert (f"{POOLS}{pool.id}/" in at_operator.get(f"{POOLS}?{query}").content.decode()) is found


def test_the_page_of_a_pool(at_operator: Client, cloud: Cloud, people: People, pool: StoragePool) -> None:
    fill(pool, people, "data", "<i>log")
    other = cloud.add_host("host-2").host
    PoolClaim.objects.create(pool=pool, host=other, last_seen_at=timezone.now())
    page = page_of(at_operator, pool)
    assert "1.5 times as large as the pool" in page
    assert "<bdi>data</bdi>" in page
    assert "<i>" not in page
    assert "not admitted to it: <bdi>host-2</bdi>" in page
    assert f'href="/graphs/pools/{pool.id}/24h/"' in page
    StoragePool.objects.filter(id=pool.id).update(free_gb=1)
    event = LoggedEvent(0, OPERATORS, "host", {})
    assert "It is 99% full" in render(f"pool/{pool.id}", [event], people.operator.context.without_person())


def test_hosts_and_cloud_lead_to_it(at_operator: Client, pool: StoragePool) -> None:
    host = Host.objects.get(name="host-1")
    assert f'href="{POOLS}{pool.id}/"' in at_operator.get(f"/hosts/{host.id}/").content.decode()
    assert f'href="{POOLS}"' in at_operator.get("/cloud/").content.decode()


def test_only_operators_see_it(at_alice: Client, at_operator: Client, pool: StoragePool) -> None:
    assert [at_alice.get(path).status_code for path in (POOLS, f"{POOLS}{pool.id}/")] == [403, 403]
    assert at_operator.get(f"{POOLS}{uuid.uuid4()}/").status_code == 404


def test_the_pages_cost_the_same_for_many_pools_hosts_and_volumes(
    at_operator: Client, cloud: Cloud, people: People, pool: StoragePool
) -> None:
    fill(pool, people, "one")

    def costs() -> list[int]:
        values = []
        for path in (POOLS, f"{POOLS}{pool.id}/"):
            at_operator.get(path)
            with CaptureQueriesContext(connection) as queries:
                at_operator.get(path)
            values.append(len(queries))
        return values

    before = costs()
    for name in ("host-2", "host-3"):
        cloud.add_host(name)
        serve(pool, name)
        serve(StoragePool.objects.create(name=name, driver="nbd", total_gb=10, free_gb=5), name)
    fill(pool, people, "two", "three")
    assert costs() == before
