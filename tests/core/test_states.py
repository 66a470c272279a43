"""The table of legal moves, and the one function that makes them."""

from __future__ import annotations

import functools
import itertools
from collections import deque

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from provisioning.common.context import RequestContext
from provisioning.compute.models import Instance
from provisioning.compute.state_machine import state
from provisioning.compute.states import LEGAL, TRANSITION_NAMES, TRANSITIONS, State, TaskState, VmState, api_status
from provisioning.events.models import Event
from provisioning.notifications.messages import TOPIC as NOTIFICATIONS
from provisioning.quotas.services.ledger import release
from tests.support.clouds import Cloud, context

START: State = (VmState.BUILDING, TaskState.SCHEDULING)
NAMES = sorted(TRANSITION_NAMES)
OF_THE_REFERENCE = {
    "ACTIVE",
    "BUILD",
    "DELETED",
    "ERROR",
    "HARD_REBOOT",
    "PASSWORD",
    "PAUSED",
    "REBOOT",
    "MIGRATING",
    "REBUILD",
    "RESCUE",
    "RESIZE",
    "REVERT_RESIZE",
    "SHELVED",
    "SHELVED_OFFLOADED",
    "SHUTOFF",
    "SOFT_DELETED",
    "SUSPENDED",
    "VERIFY_RESIZE",
}


@functools.cache
def nearest() -> dict[State, set[State]]:
    """State → those that one move leads to."""
    result: dict[State, set[State]] = {}
    for (_, source), target in LEGAL.items():
        result.setdefault(source, set()).add(target)
    return result


@functools.cache
def reachable(start: State) -> frozenset[State]:
    seen, queue = {start}, deque([start])
    while queue:
        for target in nearest().get(queue.popleft(), set()) - seen:
            seen.add(target)
            queue.append(target)
    return frozenset(seen)


def test_no_two_moves_of_one_name_leave_one_state() -> None:
    assert len(LEGAL) == len(TRANSITIONS)


def test_every_state_that_a_launch_reaches_can_end() -> None:
    """No state is a trap: from everywhere the instance can become deleted, and from every task it can come to rest."""
    for here in reachable(START):
        assert (VmState.DELETED, None) in reachable(here)
        if here[1] is not None:
            assert any(target[1] is None for target in reachable(here))


def test_deleted_is_the_end() -> None:
    assert reachable((VmState.DELETED, None)) == {(VmState.DELETED, None)}


def test_everything_but_deleted_can_be_deleted() -> None:
    for here in reachable(START):
        if here[0] != VmState.DELETED and here[1] != TaskState.DELETING:
            assert ("delete", here) in LEGAL


def test_every_state_has_a_status_of_the_api() -> None:
    statuses = {state: api_status(*state) for state in itertools.product(VmState, [None, *TaskState])}
    assert {state: status for state, status in statuses.items() if status not in OF_THE_REFERENCE} == {}


@pytest.mark.slow
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moves=st.lists(st.sampled_from(NAMES), max_size=12))
@pytest.mark.django_db
def test_any_walk_stays_inside_the_table(cloud: Cloud, moves: list[str]) -> None:
    """A move either is legal and raises the version by one with one event of it, or it changes nothing."""
    instance = cloud.launch(context("alice"))
    try:
        for move in moves:
            before = Instance.objects.get(id=instance.id)
            events, recorded = Event.objects.count(), Event.objects.exclude(topic=NOTIFICATIONS).count()
            source = (VmState(before.vm_state), TaskState(before.task_state) if before.task_state else None)
            moved = state.advance(before.id, move, attempt=before.attempt)
            after = Instance.objects.get(id=instance.id)
            target = LEGAL.get((move, source))
            if target is None:
                assert moved is None
                assert (after.vm_state, after.task_state, after.version) == (
                    before.vm_state,
                    before.task_state,
                    before.version,
                )
                assert Event.objects.count() == events
            else:
                assert moved is not None
                assert (after.vm_state, after.task_state) == target
                assert after.version == before.version + 1
                assert Event.objects.exclude(topic=NOTIFICATIONS).count() == recorded + 1
                assert (after.task_deadline is None) == (after.task_state is None)
    finally:
        release(instance.id)
        Instance.objects.filter(id=instance.id).delete()


@pytest.mark.django_db
def test_an_older_attempt_moves_nothing(cloud: Cloud, alice: RequestContext) -> None:
    instance = cloud.launch(alice)
    for attempt in (0, 2):
        assert state.advance(instance.id, "fail", attempt=attempt) is None
    assert Instance.objects.get(id=instance.id).version == 1


@pytest.mark.django_db
def test_a_stale_copy_is_read_again(cloud: Cloud, alice: RequestContext) -> None:
    """A rename between reading and moving neither loses the name nor stops the move."""
    instance = cloud.launch(alice)
    stale = Instance.objects.get(id=instance.id)
    state.update(Instance.objects.get(id=instance.id), {"name": "renamed"})
    moved = state.advance(stale, "delete", attempt=1)
    assert moved is not None
    assert (moved.name, moved.version) == ("renamed", 3)


@pytest.mark.django_db
def test_a_move_from_a_stale_state_is_judged_anew(cloud: Cloud, alice: RequestContext) -> None:
    instance = cloud.launch(alice)
    stale = Instance.objects.get(id=instance.id)
    state.advance(instance.id, "delete", attempt=1)
    assert state.advance(stale, "allocate_network", attempt=1) is None
    assert Instance.objects.get(id=instance.id).task_state == "deleting"


@pytest.mark.django_db
def test_an_unknown_move_is_a_mistake_of_ours(cloud: Cloud, alice: RequestContext) -> None:
    with pytest.raises(ValueError, match="Unknown transition"):
        state.advance(cloud.launch(alice), "fly", attempt=1)
