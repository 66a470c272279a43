"""A name that is guessed at from everywhere is locked out; who is who is not told, and its own address is let in."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.core.cache import caches
from django.utils import timezone
from pytest_django import Settings

from provisioning.common.errors import NotAuthenticatedError
from provisioning.common.machine import machine_cache
from provisioning.identity.errors import TooManyAttemptsError
from provisioning.identity.lockout import lockout, throttle
from provisioning.identity.lockout.lockout import lift_lockout, lockout_of
from provisioning.identity.models import KnownAddress
from provisioning.identity.services import passwords
from provisioning.identity.services.flush import flush
from provisioning.identity.services.passwords import authenticate_password
from provisioning.identity.services.sign_ins import Client, record_client
from provisioning.identity.services.users import set_user_enabled
from tests.support.cast import PASSWORD, People, Person

pytestmark = pytest.mark.usefixtures("_quick_hash")
HOME = "198.51.100.7"
WRONG = "wrong"


@pytest.fixture
def _quick_hash(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of guesses, without the hash of each."""
    monkeypatch.setattr(passwords, "_is_right", lambda user, password: user is not None and password == PASSWORD)
    settings.LOCKOUT_ATTEMPTS, settings.LOCKOUT_SECONDS = 6, 600


@pytest.fixture
def clock(_quick_hash: None) -> Iterator[time_machine.Coordinates]:
    with time_machine.travel(timezone.now(), tick=False) as clock:
        yield clock


def attempt(password: str = WRONG, source: str = HOME, **who: Any) -> str:
    try:
        user = authenticate_password(
            password=password, source=source, **(who or {"user_name": "alice", "domain_id": "default"})
        )
        record_client(user, ["password"], Client.of(source, "tests"))
    except TooManyAttemptsError:
        return "wait"
    except NotAuthenticatedError as error:
        return error.message
    return "in"


def guess(times: int, first: int = 1, **who: Any) -> set[str]:
    """Wrong passwords, each from an address of its own."""
    return {attempt(source=f"192.0.2.{number}", **who) for number in range(first, first + times)}


REFUSED = "The request you have made requires authentication."


def test_right_password_is_refused_with_the_same_message_until_the_time_is_over(alice: Person, clock: Any) -> None:
    assert guess(6) == {REFUSED}
    assert attempt(PASSWORD) == REFUSED
    assert lockout_of(alice.user) == timezone.now() + timedelta(seconds=600)
    clock.shift(timedelta(seconds=599))
    assert attempt(PASSWORD) == REFUSED
    clock.shift(timedelta(seconds=1))
    assert lockout_of(alice.user) is None
    assert attempt(PASSWORD) == "in"


def test_guesses_while_it_is_locked_make_it_no_longer(alice: Person, clock: Any) -> None:
    guess(6)
    clock.shift(timedelta(seconds=590))
    guess(20, first=50)
    clock.shift(timedelta(seconds=10))
    assert attempt(PASSWORD) == "in"


def test_few_wrong_ones_lock_nothing_and_are_forgotten(alice: Person, clock: Any) -> None:
    guess(5)
    assert attempt(PASSWORD, source="192.0.2.99") == "in"
    guess(5, first=20)
    assert lockout_of(alice.user) is None
    clock.shift(timedelta(seconds=601))
    guess(5, first=40)
    assert attempt(PASSWORD) == "in"


def test_it_is_counted_for_the_person_however_named(alice: Person, clock: Any) -> None:
    guess(2)
    guess(2, first=10, user_name="alice", domain_name="Default")
    guess(2, first=20, user_id=alice.user.id.hex)
    assert attempt(PASSWORD) == REFUSED
    assert attempt(PASSWORD, user_id=str(alice.user.id)) == REFUSED


def test_unknown_name_answers_alike(alice: Person, clock: Any) -> None:
    known, unknown = ({"user_name": name, "domain_id": "default"} for name in ("alice", "nobody"))

    def story(who: dict[str, str]) -> list[str]:
        answers = [attempt(source=f"192.0.2.{number}", **who) for number in range(10)]
        return answers + [attempt(source=HOME, **who) for _ in range(7)]

    assert story(known) == story(unknown)


def test_nobody_elses_name_is_locked(people: People, alice: Person, clock: Any) -> None:
    guess(10)
    assert attempt(PASSWORD, user_name="bob", domain_id="default") == "in"


@pytest.mark.both_databases("constraints")
def test_address_that_signed_in_before_is_let_in(alice: Person, clock: Any) -> None:
    assert attempt(PASSWORD) == "in"
    guess(10)
    assert lockout_of(alice.user) is not None
    assert attempt(PASSWORD) == "in"
    assert attempt(PASSWORD, source="203.0.113.1") == REFUSED
    clock.shift(lockout.REMEMBERED)
    guess(10)
    assert attempt(PASSWORD) == REFUSED, "it was long ago"


def test_known_address_counts_for_itself(alice: Person, clock: Any) -> None:
    attempt(PASSWORD)
    for _ in range(6):
        assert attempt() == REFUSED
        clock.shift(timedelta(seconds=throttle.LONGEST / 30))
    assert attempt(PASSWORD) == REFUSED
    assert attempt(PASSWORD, source="203.0.113.1") == "in", "elsewhere nobody guessed"
    assert lockout_of(alice.user) is not None


def test_known_address_is_known_after_a_restart_and_in_another_process(alice: Person, clock: Any) -> None:
    """What they count, each in its memory, is gone or was never there."""
    assert attempt(PASSWORD) == "in"
    for name in ("sign_in", "lockouts"):
        caches[name].clear()
    guess(10)
    assert lockout_of(alice.user) is not None
    assert attempt(PASSWORD) == "in"


def test_addresses_are_written_down_by_sign_ins_only_and_seldom(alice: Person, clock: Any) -> None:
    guess(5)
    attempt(user_name="nobody", domain_id="default")
    assert not KnownAddress.objects.exists()
    attempt(PASSWORD)
    clock.shift(timedelta(hours=23))
    first = KnownAddress.objects.get().seen_at
    attempt(PASSWORD)
    assert KnownAddress.objects.get().seen_at == first
    clock.shift(timedelta(hours=2))
    attempt(PASSWORD)
    assert KnownAddress.objects.get().seen_at == timezone.now()


def test_addresses_of_long_ago_are_removed(alice: Person, clock: Any) -> None:
    attempt(PASSWORD)
    clock.shift(timedelta(days=10))
    attempt(PASSWORD, source="192.0.2.1")
    clock.shift(timedelta(days=20))
    assert flush()["known addresses"] == 1
    assert KnownAddress.objects.get().network == "192.0.2.1"


@pytest.mark.slow
def test_known_addresses_are_bounded(alice: Person, clock: Any) -> None:
    for number in range(lockout.MOST_ADDRESSES + 5):
        attempt(PASSWORD, source=f"192.0.2.{number}")
        clock.shift(timedelta(seconds=1))
    known = KnownAddress.objects.filter(user=alice.user).values_list("network", flat=True)
    assert len(known) == lockout.MOST_ADDRESSES
    assert f"192.0.2.{lockout.MOST_ADDRESSES + 4}" in known


def test_an_operator_lifts_it(alice: Person, clock: Any) -> None:
    attempt(PASSWORD)
    guess(6)
    for _ in range(6):
        attempt()
        clock.shift(timedelta(seconds=10))
    assert (attempt(PASSWORD), attempt(PASSWORD, source="203.0.113.1")) == (REFUSED, REFUSED)
    lift_lockout(alice.user)
    assert lockout_of(alice.user) is None
    assert attempt(PASSWORD, source="203.0.113.1") == "in"
    clock.shift(timedelta(seconds=10))  # an address that has to wait still does
    assert attempt(PASSWORD) == "in"


def test_programs_of_an_exempt_user_are_never_locked_out(alice: Person, clock: Any) -> None:
    alice.user.options = {"ignore_lockout_failure_attempts": True}
    alice.user.save()
    guess(30)
    assert attempt(PASSWORD) == "in"
    assert lockout_of(alice.user) is None


def test_operator_may_turn_it_off(alice: Person, settings: Settings, clock: Any) -> None:
    guess(6)
    settings.LOCKOUT_ATTEMPTS = 0
    assert attempt(PASSWORD) == "in"
    guess(30, first=50)
    assert attempt(PASSWORD, source="203.0.113.1") == "in"


def test_disabled_user_is_answered_as_a_locked_one(alice: Person, clock: Any) -> None:
    set_user_enabled(alice.user, enabled=False)
    assert attempt(PASSWORD) == REFUSED
    assert guess(10) == {REFUSED}


def test_one_that_was_right_but_too_late_gains_nothing(alice: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guess whose password is looked at while others lock the name is refused, even if it is the right one."""
    looked_at = passwords._is_right

    def slowly(user: Any, password: str) -> bool:
        if password == PASSWORD:
            monkeypatch.setattr(passwords, "_is_right", looked_at)
            guess(6)
        return bool(looked_at(user, password))

    monkeypatch.setattr(passwords, "_is_right", slowly)
    assert attempt(PASSWORD) == REFUSED


def test_counts_of_many_at_once_are_all_counted(settings: Settings) -> None:
    settings.LOCKOUT_ATTEMPTS = 8
    start = threading.Barrier(8)

    def fail(number: int) -> None:
        start.wait(60)
        with throttle.Attempt(f"x {number}", "", lockout.Account("user x")):
            pass

    threads = [threading.Thread(target=fail, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert lockout.Lockout(lockout.Account("user x"), "").until() is not None


@pytest.mark.slow
def test_many_names_push_no_lock_out(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alice: Person, clock: Any
) -> None:
    """Strangers with many addresses fill what counts for addresses, and what counts for users stays."""
    full = {"BACKEND": "provisioning.common.machine.machine_cache.MachineCache", "OPTIONS": {"MAX_ENTRIES": 200}}
    settings.CACHES = settings.CACHES | {
        name: full | {"LOCATION": str(tmp_path / name)} for name in ("sign_in", "lockouts")
    }
    monkeypatch.setattr(machine_cache, "SWEEP_EVERY", 50)
    monkeypatch.setattr(lockout, "NAMES_OF_NOBODY", 16)
    guess(6)
    clock.shift(timedelta(seconds=1))
    for number in range(600):
        attempt(source=f"10.0.{number // 250}.{number % 250}", user_name=f"nobody{number}", domain_id="default")
    assert lockout_of(alice.user) is not None
    assert attempt(PASSWORD) == REFUSED


def test_another_cache_may_count(settings: Settings, tmp_path: Any, alice: Person) -> None:
    """What all processes share: every process that signs people in counts in the same place."""
    backend = "django.core.cache.backends.filebased.FileBasedCache"
    settings.CACHES = {**settings.CACHES, "sign_in": {"BACKEND": backend, "LOCATION": str(tmp_path)}}
    caches["sign_in"].clear()
    guess(6)
    assert attempt(PASSWORD) == REFUSED
    lift_lockout(alice.user)
    assert attempt(PASSWORD) == "in"
