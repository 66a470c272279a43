"""Many at once on a database in a file: exactly the limit, and no false refusal."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable

import pytest
from django.db import connection, transaction

from provisioning.common.errors import OverQuotaError
from provisioning.quotas import selectors
from provisioning.quotas.recounts import drift
from provisioning.quotas.services import ledger
from provisioning.quotas.services.ledger import commit, release
from tests.support.clouds import stand

pytestmark = pytest.mark.django_db(transaction=True)
PROJECT = uuid.UUID(int=1)


@pytest.fixture(autouse=True)
def _made(db: None) -> None:
    stand(PROJECT)


def at_once(count: int, work: Callable[[int], str]) -> Counter[str]:
    """Run ``work`` in so many threads at once; returns how often each answer came, errors by their class."""
    answers: list[str] = []
    start = threading.Barrier(count)

    def run(number: int) -> None:
        start.wait(300)
        try:
            answers.append(work(number))
        except Exception as error:  # noqa: BLE001 - whatever it is, the test shall see it
            answers.append(type(error).__name__)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    return Counter(answers)


def reserve(owner: uuid.UUID) -> str:
    try:
        with transaction.atomic():
            ledger.reserve(PROJECT, owner, {"instances": 1, "cores": 1, "ram": 512})
    except OverQuotaError:
        return "over"
    return "reserved"


def test_the_database_is_a_file() -> None:
    assert str(connection.settings_dict["NAME"]).startswith("/")


@pytest.mark.slow
@pytest.mark.parametrize("known", [False, True], ids=["first use", "counters there"])
def test_twenty_against_a_limit_of_ten(known: bool) -> None:
    if known:
        first = uuid.uuid4()
        reserve(first)
        release(first)
    assert at_once(20, lambda number: reserve(uuid.UUID(int=100 + number))) == {"reserved": 10, "over": 10}
    assert selectors.usage_of(PROJECT)["instances"] == 10
    assert selectors.usage_of(PROJECT)["ram"] == 5120
    assert [difference for difference in drift.find() if difference.kind == "counter"] == []


@pytest.mark.slow
def test_one_owner_at_once_holds_once() -> None:
    owner = uuid.uuid4()
    assert at_once(8, lambda _: reserve(owner)) == {"reserved": 8}
    assert selectors.usage_of(PROJECT)["instances"] == 1

    def finish(number: int) -> str:
        (commit if number % 2 else release)(owner)
        return "done"

    assert at_once(8, finish) == {"done": 8}
    assert selectors.usage_of(PROJECT)["instances"] == 0
    assert [difference for difference in drift.find() if difference.kind == "counter"] == []
