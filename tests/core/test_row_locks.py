"""Many at once on the same rows: nobody waits in a ring, nobody repairs what others are moving.

On SQLite, which has one writer at a time, and on PostgreSQL, which locks rows one by one.
"""

from __future__ import annotations

import contextlib
import random
import threading
import uuid

import pytest
from django.db import transaction

from compute_agent.contract.commands import DestroyRequest
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.compute.actions.delete import delete
from provisioning.compute.launch.schedule import schedule
from provisioning.compute.models import Instance
from provisioning.compute.records import host_commands
from provisioning.compute.services.key_pairs import create_key_pair, delete_key_pair
from provisioning.hosts import commands
from provisioning.network import services as network
from provisioning.network.models import Subnet
from provisioning.quotas.recounts import drift
from provisioning.quotas.recounts.drift import Finding
from provisioning.quotas.selectors import Bounds
from provisioning.quotas.services.ledger import commit, release, reserve
from provisioning.quotas.services.limits import set_limit
from provisioning.quotas.services.repair import repair
from tests.core.test_parallel import in_threads
from tests.support import invariants
from tests.support.clouds import Cloud, context, stand, state_of
from tests.support.landing import rounds

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow, pytest.mark.both_databases("locks")]
PROJECT = uuid.UUID(int=1)
PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGm0Ks0KqTPHDqyPZoQmJLoJUD6JsGRXSh9ARV3yZxvV"
AMOUNTS = {"instances": 1, "cores": 2, "ram": 512}


@pytest.fixture(autouse=True)
def _made(db: None) -> None:
    stand(PROJECT, context("alice").project_id)


def hold_for_a_moment(limit: int) -> None:
    owner = uuid.uuid4()
    with transaction.atomic():
        reserve(PROJECT, owner, AMOUNTS, Bounds(dict.fromkeys(AMOUNTS, limit)))
    commit(owner)
    release(owner)


@rounds(10, 40)
def test_counters_are_taken_in_one_order(rounds: int) -> None:
    def work(_: int) -> None:
        for _ in range(rounds):
            hold_for_a_moment(1_000_000)

    assert in_threads(8, work) == [None] * 8
    assert drift.find() == []


def test_a_repair_spoils_nothing_that_moves() -> None:
    stop = threading.Event()

    def work(index: int) -> list[Finding]:
        if not index:
            try:
                return [result for _ in range(20) for result in repair()]
            finally:
                stop.set()
        caller = context("alice")
        while not stop.is_set():
            create_key_pair(caller, f"key {index}", PUBLIC_KEY)
            delete_key_pair(caller, f"key {index}")
        return []

    assert in_threads(4, work) == [[]] * 4
    assert drift.find() == []


def test_a_request_sent_at_once_for_the_last_of_the_quota_is_one_launch(
    shared_cloud: Cloud, alice: RequestContext
) -> None:
    set_limit(alice.project_id, "instances", 1)
    for number in range(8):
        key = f"request {number}"
        answers = in_threads(4, lambda _, key=key: shared_cloud.launch(context("alice"), idempotency_key=key))  # type: ignore[misc]
        (made,) = {answer.id if isinstance(answer, Instance) else answer for answer in answers}
        delete(context("alice"), str(made))


def test_notes_of_what_was_stored_do_not_wait_for_reports(shared_cloud: Cloud) -> None:
    host = shared_cloud.add_host("kelvin").host
    for _ in range(15):
        ids = [host_commands.send(host.id, uuid.uuid4(), 1, DestroyRequest(), None).id for _ in range(20)]

        def work(index: int, ids: list[uuid.UUID] = ids) -> None:
            if index:
                commands.acknowledge(host.id, [str(number) for number in ids])
                return
            with transaction.atomic():
                for number in reversed(ids):
                    commands.finish(host.id, number)

        assert in_threads(3, work) == [None] * 3
        assert commands.pending(host.id) == []


def test_parallel_subnets_share_no_address() -> None:
    shared = network.create_network(PROJECT, "shared by all")
    for turn in range(5):
        answers = in_threads(6, lambda _, turn=turn: network.create_subnet(shared, f"10.{turn}.0.0/24"))  # type: ignore[misc]
        assert sum(isinstance(answer, Subnet) for answer in answers) == 1
        assert sum(isinstance(answer, InvalidInputError) for answer in answers) == 5


@rounds(2, 8)
def test_deletes_claims_and_reports_do_not_wait_in_a_ring(
    shared_cloud: Cloud, alice: RequestContext, rounds: int
) -> None:
    agents = [shared_cloud.add_host(name, vcpus=100, memory_mb=1 << 20, disk_gb=10_000) for name in ("kelvin", "ohm")]
    for resource in ("instances", "cores", "ram"):
        set_limit(alice.project_id, resource, -1)
    for turn in range(rounds):
        chance = random.Random(turn)  # noqa: S311 - the same order for the same turn
        placed, waiting = ([shared_cloud.launch(context("alice")) for _ in range(4)] for _ in range(2))
        for instance in placed:
            schedule(str(instance.id), 1)
        orders = [chance.sample(placed + waiting, 8) for _ in range(2)]

        def work(index: int, waiting: list[Instance] = waiting, orders: list[list[Instance]] = orders) -> None:
            if index < 3:
                for instance in waiting[:: -1 if index % 2 else 1]:
                    schedule(str(instance.id), 1)
            elif index < 5:
                for instance in orders[index - 3]:
                    with contextlib.suppress(NotFoundError):  # the other has deleted it
                        delete(context("alice"), instance.id)
            else:
                for _ in range(10):
                    agents[index - 5].work()

        assert in_threads(7, work) == [None] * 7
        shared_cloud.run()
        assert {state_of(instance) for instance in placed + waiting} == {("deleted", None)}
    invariants.check_empty()
