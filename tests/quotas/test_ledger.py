"""Reserve, commit, release: each once, all or nothing, never more than the limit."""

from __future__ import annotations

import uuid

import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytest_django import DjangoAssertNumQueries

from provisioning.common.errors import InvalidInputError, OverQuotaError
from provisioning.quotas import selectors
from provisioning.quotas.models import QuotaUsage, Reservation
from provisioning.quotas.recounts import drift
from provisioning.quotas.services.ledger import check_room, commit, hold, hold_all, release, reserve
from provisioning.quotas.services.limits import check_each, reset_limits, set_limit, set_limits
from tests.support.clouds import stand

pytestmark = pytest.mark.django_db
PROJECT = uuid.UUID(int=1)
SIZE = {"instances": 1, "cores": 2, "ram": 512}


@pytest.fixture(autouse=True)
def _made(db: None) -> None:
    stand(PROJECT, uuid.UUID(int=2))


def held() -> dict[str, int]:
    return {name: used for name, used in selectors.usage_of(PROJECT).items() if used}


def wrong_counters() -> list[drift.Finding]:
    """The owners of these tests have no records: only the sums are looked at."""
    return [difference for difference in drift.find() if difference.kind == "counter"]


def reserved() -> dict[str, int]:
    return dict(QuotaUsage.objects.filter(project_id=PROJECT).values_list("resource", "reserved"))


def test_limits_are_novas_until_somebody_sets_them() -> None:
    limits = selectors.limits_of(PROJECT)
    assert (limits["instances"], limits["cores"], limits["ram"], limits["key_pairs"]) == (10, 20, 51_200, 100)
    set_limit(None, "instances", 7)
    set_limit(PROJECT, "cores", 3)
    set_limit(None, "cores", 5)
    assert selectors.limits_of(PROJECT)["instances"] == 7
    assert selectors.limits_of(PROJECT)["cores"] == 3
    assert selectors.limits_of(uuid.UUID(int=2))["cores"] == 5
    set_limit(PROJECT, "cores", None)
    assert selectors.limits_of(PROJECT)["cores"] == 5
    for resource, limit in (("cores", -2), ("cores", 1 << 31), ("unicorns", 1)):
        with pytest.raises(InvalidInputError):
            set_limit(PROJECT, resource, limit)


def test_life_of_a_reservation() -> None:
    owner = uuid.uuid4()
    reserve(PROJECT, owner, SIZE)
    assert held() == SIZE == reserved()
    commit(owner)
    assert held() == SIZE
    assert set(reserved().values()) == {0}
    release(owner)
    assert held() == {}
    assert wrong_counters() == []


def test_each_step_repeated_changes_nothing() -> None:
    owner = uuid.uuid4()
    for step in (lambda: reserve(PROJECT, owner, SIZE), lambda: commit(owner)):
        step()
        step()
        assert held() == SIZE
    reserve(PROJECT, owner, SIZE)
    assert held() == SIZE, "what is in use is not reserved again"
    release(owner)
    release(owner)
    commit(owner)
    assert held() == {}
    assert wrong_counters() == []


def test_over_quota_names_the_limit_and_leaves_nothing_behind() -> None:
    set_limit(PROJECT, "cores", 3)
    reserve(PROJECT, uuid.uuid4(), SIZE)
    before = list(QuotaUsage.objects.order_by("id").values())
    with pytest.raises(OverQuotaError) as caught:
        reserve(PROJECT, uuid.uuid4(), SIZE)
    error = caught.value
    assert (error.resource, error.limit, error.used, error.requested) == ("cores", 3, 2, 2)
    assert error.message == ("Quota exceeded for cores: Requested 2, but already used 2 of 3 cores (1 left)")
    assert list(QuotaUsage.objects.order_by("id").values()) == before
    assert Reservation.objects.count() == 3


def test_first_request_over_the_limit_leaves_no_counter() -> None:
    with pytest.raises(OverQuotaError):
        reserve(PROJECT, uuid.uuid4(), {"instances": 1, "ram": 60_000})
    assert not QuotaUsage.objects.exists()
    assert not Reservation.objects.exists()


def test_callers_transaction_takes_the_reservation_back() -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():  # noqa: PT012
        reserve(PROJECT, uuid.uuid4(), SIZE)
        raise ZeroDivisionError
    assert held() == {}
    assert wrong_counters() == []


def test_unlimited_lowered_and_zero() -> None:
    set_limit(PROJECT, "instances", -1)
    for _ in range(15):
        reserve(PROJECT, uuid.uuid4(), {"instances": 1})
    set_limit(PROJECT, "instances", 4)
    with pytest.raises(OverQuotaError) as caught:
        reserve(PROJECT, uuid.uuid4(), {"instances": 1})
    assert "0 left" in caught.value.message
    set_limit(PROJECT, "cores", 0)
    with pytest.raises(OverQuotaError):
        reserve(PROJECT, uuid.uuid4(), {"cores": 1})
    reserve(PROJECT, uuid.uuid4(), {"cores": 0})


def test_projects_do_not_share() -> None:
    set_limit(None, "instances", 1)
    reserve(PROJECT, uuid.uuid4(), {"instances": 1})
    reserve(uuid.UUID(int=2), uuid.uuid4(), {"instances": 1})
    assert held() == {"instances": 1}


def test_what_is_limited_for_each_thing_is_compared() -> None:
    check_each({"metadata_items": 2}, "metadata_items", 2)
    check_each({"metadata_items": -1}, "metadata_items", 1000)
    with pytest.raises(OverQuotaError) as caught:
        check_each({"metadata_items": 2}, "metadata_items", 3)
    assert (caught.value.limit, caught.value.used, caught.value.requested) == (2, 0, 3)
    for wrong in (
        lambda: check_each({}, "ports", 1),
        lambda: hold(PROJECT, uuid.uuid4(), {"metadata_items": 1}),
        lambda: reserve(PROJECT, uuid.uuid4(), {"unicorns": 1}),
    ):
        with pytest.raises(ValueError, match=r"must be reserved|no ledger"):
            wrong()


def test_held_at_once_is_in_use() -> None:
    owner, other = uuid.uuid4(), uuid.uuid4()
    set_limit(PROJECT, "ports", 3)
    for _ in range(2):
        hold(PROJECT, owner, {"ports": 1})
    hold_all(PROJECT, {owner: {"ports": 1}, other: {"ports": 2}})
    assert selectors.detail_of(PROJECT)["ports"] == (3, 3, 0)
    with pytest.raises(OverQuotaError):
        hold_all(PROJECT, {uuid.uuid4(): {"ports": 1}})
    hold_all(PROJECT, {uuid.uuid4(): {"ports": 1}}, refuse=False)
    assert selectors.detail_of(PROJECT)["ports"].in_use == 4
    assert wrong_counters() == []


def test_a_part_is_given_back() -> None:
    owner = uuid.uuid4()
    reserve(PROJECT, owner, SIZE | {"ports": 2})
    release(owner, keep=["ports"])
    assert held() == {"ports": 2}
    commit(owner)
    release(owner, only=["cores"])
    assert selectors.detail_of(PROJECT)["ports"] == (500, 2, 0)
    release(owner, only=["ports"])
    assert held() == {}
    assert wrong_counters() == []


def test_limits_below_what_is_used_need_force() -> None:
    reserve(PROJECT, uuid.uuid4(), SIZE)
    with pytest.raises(InvalidInputError, match="already used and reserved 2") as caught:
        set_limits(PROJECT, {"ram": 1000, "cores": 1})
    assert caught.value.field == "cores"
    assert selectors.limits_of(PROJECT)["ram"] == 51_200, "all or none"
    set_limits(PROJECT, {"cores": 1}, force=True)
    set_limits(PROJECT, {"ram": 512, "cores": -1})
    set_limits(None, {"ram": 0})
    assert selectors.projects_with_limits() == [PROJECT]
    assert (selectors.limits_of(PROJECT)["ram"], selectors.default_limits()["ram"]) == (512, 0)
    assert reset_limits(PROJECT, ["ram"])
    assert selectors.limits_of(PROJECT)["ram"] == 0
    assert reset_limits(PROJECT)
    assert not reset_limits(PROJECT)
    assert selectors.projects_with_limits() == []


def test_room_is_checked_and_nothing_held() -> None:
    set_limits(PROJECT, {"cores": 3, "ram": -1})
    hold(PROJECT, uuid.uuid4(), {"cores": 1, "ram": 512})
    check_room(PROJECT, {"cores": 2, "ram": 1 << 30})
    with pytest.raises(OverQuotaError) as caught:
        check_room(PROJECT, {"cores": 3})
    assert (caught.value.limit, caught.value.used, caught.value.requested) == (3, 1, 3)
    assert held() == {"cores": 1, "ram": 512}


def test_reserving_takes_few_queries(django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    reserve(PROJECT, uuid.uuid4(), SIZE)
    owner = uuid.uuid4()
    with transaction.atomic(), django_assert_max_num_queries(11 if connection.features.has_select_for_update else 9):
        reserve(PROJECT, owner, SIZE)
    with transaction.atomic(), django_assert_max_num_queries(5):
        commit(owner)
    with transaction.atomic(), django_assert_max_num_queries(5):
        release(owner)


STEPS = st.lists(
    st.tuples(st.sampled_from(["reserve", "commit", "release"]), st.integers(0, 5), st.integers(1, 4)), max_size=40
)


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_any_order_of_steps_keeps_the_ledger(steps: list[tuple[str, int, int]], db: None) -> None:
    Reservation.objects.all().delete()
    QuotaUsage.objects.all().delete()
    set_limit(PROJECT, "instances", 8)
    holds: dict[int, int] = {}
    for step, number, amount in steps:
        owner = uuid.UUID(int=100 + number)
        if step == "commit":
            commit(owner)
        elif step == "release":
            release(owner)
            holds.pop(number, None)
        elif number not in holds:
            if sum(holds.values()) + amount > 8:
                with pytest.raises(OverQuotaError):
                    reserve(PROJECT, owner, {"instances": amount})
            else:
                reserve(PROJECT, owner, {"instances": amount})
                holds[number] = amount
        assert selectors.usage_of(PROJECT)["instances"] == sum(holds.values())
    assert wrong_counters() == []
