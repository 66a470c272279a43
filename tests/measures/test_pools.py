"""Measures of storage pools: a point each minute, from the sizes that hosts report."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from provisioning.hosts.models import Host
from provisioning.measures import condensing, selectors
from provisioning.measures.codes import MOST
from provisioning.measures.collect import LATE
from provisioning.measures.pools import POOL_SERIES, collect_pools
from provisioning.measures.resolutions import DAY, SPANS
from provisioning.volumes.models import PoolHost, StoragePool
from tests.measures.conftest import BEGAN, Lab

END = BEGAN + 120


@pytest.fixture
def pool(lab: Lab) -> StoragePool:
    made = StoragePool.objects.create(name="fast", driver="nbd", total_gb=100, free_gb=60, allocated_gb=250)
    seen = datetime.fromtimestamp(END + LATE, UTC)
    PoolHost.objects.create(pool=made, host=lab.host, last_seen_at=seen)
    Host.objects.filter(id=lab.host.id).update(last_seen_at=seen)
    return made


def known(pool: StoragePool, series: str, span: str = "1h") -> set[float]:
    result = selectors.of_pool(pool.id, SPANS[span]).series[series].means
    return {round(value) for value in result if value is not None}


@pytest.mark.both_databases("constraints")
def test_two_minutes_have_the_present_sizes_and_a_repetition_changes_nothing(pool: StoragePool, at: Any) -> None:
    for _ in range(2):
        collect_pools(END + LATE)
    at(END)
    assert [known(pool, each) for each in POOL_SERIES] == [{40}, {250}, {100}]
    means = selectors.of_pool(pool.id).series["used"].means
    assert sum(value is not None for value in means) == 12
    assert known(pool, "used", "24h") == {40}, "also before the block is condensed"


def test_points_are_kept_in_the_longer_spans(pool: StoragePool, at: Any) -> None:
    collect_pools(END + LATE)
    condensing.condense_complete(END + 3600)
    at(END)
    assert [known(pool, "used", span) for span in SPANS] == [{40}] * 3


def test_a_pool_without_a_host_that_is_up_has_a_gap(pool: StoragePool, at: Any) -> None:
    collect_pools(END + LATE)
    collect_pools(END + LATE + 600)
    at(END + 600)
    assert selectors.of_pool(pool.id).series["used"].means[-1] is None
    PoolHost.objects.update(serving=False)
    StoragePool.objects.update(free_gb=0)
    collect_pools(END + LATE)
    at(END)
    assert known(pool, "used") == {40}


def test_a_host_that_lies_stops_no_other_measures(pool: StoragePool, at: Any) -> None:
    StoragePool.objects.update(total_gb=1e300, free_gb=1e301)
    collect_pools(END + LATE)
    at(END)
    assert known(pool, "used") == {0}
    assert known(pool, "size").pop() == pytest.approx(MOST, rel=0.001)


def test_lines_of_a_day_have_the_used_space(pool: StoragePool, at: Any) -> None:
    collect_pools(END + LATE)
    at(END)
    [line] = selectors.first_lines([pool.id], width=len(POOL_SERIES), seconds=DAY).values()
    assert len(line) == selectors.LINE_POINTS
    assert line[-1] == pytest.approx(40, rel=0.001)
    assert set(line[:-1]) == {None}
