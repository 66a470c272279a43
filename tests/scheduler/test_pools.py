"""Which pool a volume is given, and what is said when there is none."""

from __future__ import annotations

import random
import uuid
from dataclasses import replace

import pytest

from provisioning.scheduler.pools import PoolRequest, PoolView, decide_pool, explain_pool


def pool(name: str = "local", **values: object) -> PoolView:
    made = PoolView(uuid.uuid5(uuid.NAMESPACE_DNS, name), name, "nbd", "nova", 100, 80, 0)
    return replace(made, **values)  # type: ignore[arg-type]


ONE = pool("one", free_gb=10)
TWO = pool("two", driver="rbd", capabilities={"ssd": "true", "tier": "gold", "level": "3"}, zone="east")


def names(request: PoolRequest, *pools: PoolView) -> list[str]:
    ranked = decide_pool(pools or (ONE, TWO), request, choose=random.Random(1)).ranked  # noqa: S311
    return [each.pool.name for each in ranked]


def test_the_roomiest_comes_first() -> None:
    assert names(PoolRequest(1)) == ["two", "one"]


@pytest.mark.parametrize(
    ("specs", "fits"),
    [
        ({"ssd": "<is> True"}, True),
        ({"capabilities:ssd": "<is> False"}, False),
        ({"tier": "<or> gold <or> silver"}, True),
        ({"tier": "silver"}, False),
        ({"level": ">= 2"}, True),
        ({"level": "<= 2"}, False),
        ({"volume_backend_name": "two"}, True),
        ({"volume_backend_name": "three"}, False),
        ({"nothing": "x"}, False),
        ({"multiattach": "<is> True"}, True),
        ({"vendor:odd": "x"}, True),
    ],
)
def test_what_a_type_asks_for(specs: dict[str, str], fits: bool) -> None:
    assert names(PoolRequest(1, extra_specs=specs), TWO) == (["two"] if fits else [])


def test_zone_hints_and_retries() -> None:
    assert names(PoolRequest(1, zone="east")) == ["two"]
    assert names(PoolRequest(1, same=frozenset({ONE.id}))) == ["one"]
    assert names(PoolRequest(1, different=frozenset({TWO.id}))) == ["one"]
    assert names(PoolRequest(1, failed=frozenset({ONE.id, TWO.id}))) == []


@pytest.mark.parametrize(
    "wrong", [{"enabled": False}, {"alive": False}, {"frozen": True}, {"warning": "It is broken."}]
)
def test_what_is_out_of_service_gets_nothing(wrong: dict[str, object]) -> None:
    assert names(PoolRequest(1), pool(**wrong)) == []


@pytest.mark.parametrize(
    ("values", "most"),
    [
        ({"max_over_subscription_ratio": 1.0}, 80),
        ({"max_over_subscription_ratio": 1.0, "reserved_percentage": 30}, 50),
        ({"max_over_subscription_ratio": 1.0, "allocated_gb": 95}, 5),
        ({"max_over_subscription_ratio": 2.0, "allocated_gb": 95}, 105),
        ({"free_gb": 0.0}, 0),
    ],
)
def test_room_with_over_subscription_and_what_is_reserved(values: dict[str, object], most: int) -> None:
    tight = pool(**values)
    assert tight.left_gb == most
    assert names(PoolRequest(most + 1), tight) == []
    assert not most or names(PoolRequest(most), tight) == ["local"]


def test_the_reason_says_how_many_each_filter_left_and_names_no_pool() -> None:
    assert explain_pool(decide_pool([], PoolRequest(1))) == "There are no storage pools in this cloud yet."
    off = [pool(enabled=False), pool(alive=False), pool(frozen=True), pool(warning="It is broken.")]
    message = explain_pool(decide_pool(off, PoolRequest(1)))
    assert all(f"1 {why}" in message for why in ("disabled", "on a host that is down", "frozen", "with a fault")), (
        message
    )
    message = explain_pool(decide_pool([ONE, TWO], PoolRequest(9_000, zone="nova")))
    assert message == "2 storage pools → 1 is in the zone → 0 have the space: 9000 GiB requested, at most 200 GiB free."
