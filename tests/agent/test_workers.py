"""Who gets a host's workers: in order of arrival, and nobody all of them."""

from __future__ import annotations

import asyncio

import pytest

from compute_agent.engine.context import Cancellation
from compute_agent.engine.outcomes import CANCELLED
from compute_agent.engine.runner import Workers


class Asked:
    """Somebody who wants a worker."""

    def __init__(self, workers: Workers, owner: str) -> None:
        self.cancellation = Cancellation()
        self.task = asyncio.ensure_future(workers.acquire(owner, self.cancellation))

    @property
    async def served(self) -> bool:
        for _ in range(5):
            await asyncio.sleep(0)
        return self.task.done() and not self.task.cancelled() and self.task.result()


async def served(requested: list[Asked]) -> list[bool]:
    return [await each.served for each in requested]


async def test_one_worker_is_left_to_others() -> None:
    workers = Workers(3)
    alice = [Asked(workers, "alice") for _ in range(3)]
    assert await served(alice) == [True, True, False]
    bob = Asked(workers, "bob")
    assert await bob.served
    workers.release("bob")
    assert not await alice[2].served
    workers.release("alice")
    assert await alice[2].served


async def test_who_has_come_first_is_served_first() -> None:
    workers = Workers(2)
    assert await served([Asked(workers, "alice"), Asked(workers, "bob")]) == [True, True]
    waiting = [Asked(workers, "carol"), Asked(workers, "dave")]
    workers.release("bob")
    assert await served(waiting) == [True, False]
    workers.release("alice")
    assert await served(waiting) == [True, True]


async def test_what_is_nobodys_has_no_share() -> None:
    workers = Workers(2)
    assert await served([Asked(workers, ""), Asked(workers, "")]) == [True, True]


async def test_a_single_worker_is_for_everybody() -> None:
    workers = Workers(1)
    assert await Asked(workers, "alice").served


@pytest.mark.parametrize("how", ["told", "cancelled", "told when it has come"])
async def test_who_leaves_loses_no_worker(how: str) -> None:
    workers = Workers(1)
    assert await Asked(workers, "alice").served
    bob, carol = Asked(workers, "bob"), Asked(workers, "carol")
    assert await served([bob, carol]) == [False, False]
    if how == "cancelled":
        bob.task.cancel()
    elif how == "told":
        bob.cancellation.set(CANCELLED)
    else:
        workers.release("alice")
        bob.cancellation.set(CANCELLED)
    assert not await bob.served
    if how != "told when it has come":
        workers.release("alice")
    assert await carol.served
