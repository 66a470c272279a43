"""What was read for an answer is told from what else was done, however the rows were fetched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction

from provisioning.common.database.recorded_reads import Reads, recorded
from provisioning.compute.models import Flavor
from tests.support.clouds import Cloud

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases("sql")]


def one_by_one() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM compute_flavor WHERE vcpus > %s ORDER BY name", [0])
        assert cursor.fetchone() == ("m1.big",)
        assert cursor.fetchmany(1) == [("m1.small",)]
        assert cursor.fetchone() is None


def by_iteration() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM compute_flavor ORDER BY name")
        assert list(cursor) == [("m1.big",), ("m1.small",)]


def by_parts() -> None:
    assert len(list(Flavor.objects.order_by("id").iterator(chunk_size=1))) == 2


def of(work: Callable[[], Any]) -> Reads:
    with recorded() as recording:
        work()
    assert recording.reads is not None
    return recording.reads


@pytest.mark.parametrize("work", [one_by_one, by_iteration, by_parts, lambda: list(Flavor.objects.order_by("id"))])
def test_rows_are_the_same_until_one_changes(work: Callable[[], Any]) -> None:
    cloud = Cloud.make()
    reads = of(work)
    assert len(reads.statements) == 1
    assert reads.weight > 40
    assert reads.are_the_same()
    Flavor.objects.filter(pk=cloud.small.pk).update(name="m1.smaller", description="x")
    assert not reads.are_the_same()
    Flavor.objects.filter(pk=cloud.small.pk).update(name="m1.small", description=cloud.small.description)
    assert reads.are_the_same()
    cloud.small.delete()
    assert not reads.are_the_same()


def test_what_was_not_read_to_its_end_is_another() -> None:
    Cloud.make()

    def first() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT name FROM compute_flavor ORDER BY name")
            cursor.fetchone()

    assert not of(first).are_the_same()


def locked() -> None:
    with transaction.atomic():
        list(Flavor.objects.select_for_update().all())


@pytest.mark.parametrize(
    "work",
    [
        lambda: Flavor.objects.update(description="x"),
        lambda: Flavor.objects.all().delete(),
        lambda: connection.cursor().executemany("UPDATE compute_flavor SET description = %s", [["a"]]),
        locked,
    ],
)
def test_what_does_more_than_read_is_reported(work: Callable[[], Any]) -> None:
    Cloud.make()
    with recorded() as recording:
        work()
    assert recording.reads is None


def test_nothing_is_recorded_afterwards() -> None:
    with pytest.raises(ZeroDivisionError), recorded() as recording:
        raise ZeroDivisionError
    Flavor.objects.update(description="x")
    assert recording.reads == of(lambda: None)
