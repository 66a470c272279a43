"""Guessing passwords: slowed down, and the answers tell nothing about who exists."""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from datetime import timedelta

import pytest
import time_machine
from django.core.cache import caches
from django.utils import timezone
from pytest_django import Settings

from provisioning.common.errors import NotAuthenticatedError
from provisioning.identity.errors import TooManyAttemptsError
from provisioning.identity.lockout import throttle
from provisioning.identity.lockout.lockout import account_of, remember
from provisioning.identity.services.passwords import authenticate_password
from provisioning.identity.services.users import set_user_enabled
from tests.identity.bodies import TOKENS, by_password
from tests.support.cast import PASSWORD, Api, People, Person

WRONG = "wrong"


def attempt(name: str, password: str = WRONG, source: str = "192.0.2.1") -> str:
    try:
        authenticate_password(user_name=name, domain_id="default", password=password, source=source)
    except TooManyAttemptsError:
        return "wait"
    except NotAuthenticatedError:
        return "refused"
    return "in"


@pytest.mark.parametrize("name", ["alice", "nobody"])
def test_known_and_unknown_names_are_slowed_down_alike(people: People, name: str) -> None:
    with time_machine.travel(timezone.now(), tick=False) as clock:
        assert [attempt(name) for _ in range(7)] == ["refused"] * 5 + ["wait"] * 2
        clock.shift(timedelta(seconds=1))
        assert [attempt(name), attempt(name)] == ["refused", "wait"]
        clock.shift(timedelta(seconds=2))
        assert [attempt(name), attempt(name)] == ["refused", "wait"]


def test_right_password_has_to_wait_too_and_then_clears_the_count(alice: Person) -> None:
    with time_machine.travel(timezone.now(), tick=False) as clock:
        for _ in range(5):
            attempt("alice")
        assert attempt("alice", PASSWORD) == "wait"
        clock.shift(timedelta(seconds=1))
        assert attempt("alice", PASSWORD) == "in"
        assert [attempt("alice") for _ in range(6)] == ["refused"] * 5 + ["wait"]


def test_others_are_not_locked_out(people: People) -> None:
    for _ in range(6):
        attempt("alice")
    assert attempt("alice", PASSWORD, source="192.0.2.2") == "in"
    assert attempt("bob", PASSWORD) == "in"


def test_spelling_a_name_otherwise_gains_nothing(alice: Person) -> None:
    with time_machine.travel(timezone.now(), tick=False):
        names = ["alice", "ALICE", "Alice", "aLice", "alIce"]
        assert [attempt(name) for name in names] == ["refused"] * 5
        assert attempt("alicE") == "wait"


def test_one_network_of_ipv6_counts_as_one_address(alice: Person) -> None:
    with time_machine.travel(timezone.now(), tick=False):
        for last in range(5):
            attempt("alice", source=f"2001:db8::{last}")
        assert attempt("alice", source="2001:db8::ffff") == "wait"
        assert attempt("alice", source="2001:db8:0:1::1") == "refused"


def test_going_through_many_names_is_stopped(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "FREE_OF_ADDRESS", 8)
    with time_machine.travel(timezone.now(), tick=False):
        assert [attempt(f"name{number}") for number in range(9)] == ["refused"] * 8 + ["wait"]
        assert attempt("alice", PASSWORD) == "wait"


def test_counts_are_forgotten(alice: Person) -> None:
    with time_machine.travel(timezone.now(), tick=False) as clock:
        for _ in range(6):
            attempt("alice")
        clock.shift(timedelta(seconds=throttle.FORGOTTEN_AFTER + 1))
        assert [attempt("alice") for _ in range(6)] == ["refused"] * 5 + ["wait"]


def test_wait_grows_to_an_end() -> None:
    with time_machine.travel(timezone.now(), tick=False) as clock:
        waits = []
        for _ in range(20):
            try:
                with throttle.Attempt("x", "y"):
                    pass
            except TooManyAttemptsError as error:
                waits.append(error.retry_after)
                clock.shift(timedelta(seconds=error.retry_after))
        assert waits[:4] == [1, 2, 4, 8]
        assert max(waits) <= throttle.LONGEST
        for _ in range(20):
            with contextlib.suppress(TooManyAttemptsError), throttle.Attempt("x", "y"):
                pass
            clock.shift(timedelta(seconds=throttle.LONGEST))
        with throttle.Attempt("x", "y"):
            pass
        with pytest.raises(TooManyAttemptsError) as caught:
            throttle.Attempt("x", "y")
        assert caught.value.retry_after == throttle.LONGEST


@pytest.mark.parametrize("exempt", [False, True])
def test_programs_side_by_side_are_not_taken_for_guessing(people: People, exempt: bool) -> None:
    alice = people.alice.user
    account = account_of(alice, "")._replace(exempt=exempt)

    def begin(number: int) -> list[throttle.Attempt]:
        return [throttle.Attempt("name", "192.0.2.1", account) for _ in range(number)]

    with pytest.raises(TooManyAttemptsError):
        begin(throttle.FREE + 1)
    for name in ("sign_in", "lockouts"):
        caches[name].clear()
    with throttle.Attempt("name", "192.0.2.1", account) as right:
        right.succeeded()
    remember(alice, ["password"], "192.0.2.1")
    started = begin(throttle.AT_ONCE_WHEN_KNOWN)
    with pytest.raises(TooManyAttemptsError):
        begin(1)
    for each in started:
        each.__exit__(None, None, None)
    with pytest.raises(TooManyAttemptsError):  # and they were all wrong
        begin(1)


def test_api_says_when_to_try_again(people: People) -> None:
    wrong = [Api(None).post(TOKENS, by_password(people.alice, password="wrong")) for _ in range(6)]
    assert [response.status_code for response in wrong] == [401] * 5 + [429]
    assert wrong[-1]["Retry-After"] == "1"
    assert wrong[-1].json()["error"]["code"] == 429


def test_unknown_user_locked_user_and_wrong_password_give_one_answer(people: People) -> None:
    set_user_enabled(people.bob.user, enabled=False)
    answers = []
    for person, password in ((people.alice, "wrong"), (people.bob, PASSWORD)):
        answers.append(Api(None).post(TOKENS, by_password(person, password=password)))
    unknown = by_password(people.alice)
    unknown["auth"]["identity"]["password"]["user"]["name"] = "nobody"
    answers.append(Api(None).post(TOKENS, unknown))
    elsewhere = by_password(people.alice)
    elsewhere["auth"]["identity"]["password"]["user"]["domain"] = {"name": "no such domain"}
    answers.append(Api(None).post(TOKENS, elsewhere))
    assert {response.status_code for response in answers} == {401}
    assert len({response.content for response in answers}) == 1


@pytest.mark.slow
def test_every_refusal_takes_the_work_of_a_hash(
    real_hashes: None, people: People, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttle, "FREE", 1000)
    settings.LOCKOUT_ATTEMPTS = 1000
    set_user_enabled(people.bob.user, enabled=False)
    people.charlie.user.password_expires_at = people.charlie.user.created_at
    people.charlie.user.save()

    def cost(name: str, password: str = WRONG) -> float:
        spent = []
        for _ in range(7):
            begun = time.thread_time()
            with contextlib.suppress(NotAuthenticatedError):
                attempt(name, password)
            spent.append(time.thread_time() - begun)
        return statistics.median(spent)

    wrong = cost("alice")
    costs = {"unknown": cost("nobody"), "disabled": cost("bob", PASSWORD), "expired": cost("charlie", PASSWORD)}
    settings.LOCKOUT_ATTEMPTS = 1
    attempt("operator")
    costs["locked"] = cost("operator", PASSWORD)
    assert wrong > 0.005, "no hash was computed"
    assert all(0.5 < each / wrong < 2 for each in costs.values()), costs


def test_many_guesses_at_once_gain_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    read, start, results = throttle._read, threading.Barrier(12), list[str]()

    def slow_read(key: str) -> throttle._Count:
        count = read(key)
        time.sleep(0.005)  # widens the gap between looking and counting
        return count

    monkeypatch.setattr(throttle, "_read", slow_read)

    def guess() -> None:
        start.wait(60)
        try:
            throttle.Attempt("alice", "192.0.2.1")
            results.append("counted")
        except TooManyAttemptsError:
            results.append("wait")

    threads = [threading.Thread(target=guess) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert len(results) == 12
    assert results.count("counted") == throttle.FREE
