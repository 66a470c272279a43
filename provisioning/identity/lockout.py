"""Locks a name out after many wrong passwords, from whatever addresses: what slowing down each address cannot stop.

An address from which the name was signed in to before counts for itself: who guesses elsewhere does not lock it out.
Locked is locked for a right password too, and nothing in the answer tells.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import NamedTuple

from django.conf import settings

from provisioning.identity.counters import key_of, store
from provisioning.identity.models import User

REMEMBERED = 30 * 86_400
"""Seconds that an address is known after a right password."""
MOST_ADDRESSES = 20
"""Known addresses of one name."""
_RENEWED_AFTER = 86_400


class Account(NamedTuple):
    """What is counted for: a user however it was named, or a name that means nobody."""

    key: str
    exempt: bool = False
    """Never locked out."""

    def of(self, method: str) -> Account:
        """The same account where another method than the password is counted."""
        return Account(f"{method} {self.key}", self.exempt)


class Lockout:
    """The count of one account as one network meets it."""

    def __init__(self, whom: Account, network: str) -> None:
        """``network`` is the address of who tries, or empty."""
        account = whom.key
        self._account, self._network = account, network
        self._counts = not whom.exempt and settings.LOCKOUT_ATTEMPTS > 0
        self.is_known = bool(network) and network in _known(account)
        """Whether the account was signed in to from there."""
        self._key = _bucket(account, network if self.is_known else "")

    def until(self) -> float | None:
        """Return the time (seconds since 1970) at which the lock ends, or None."""
        return _until(self._key) if self._counts else None

    def count(self) -> None:
        """Count a wrong password; what comes while the account is locked makes the lock no longer."""
        if not self._counts or self.until() is not None:
            return
        cache, seconds = store(), settings.LOCKOUT_SECONDS
        cache.add(self._key, 0, seconds)
        try:
            wrong = cache.incr(self._key)
        except ValueError:  # it was forgotten in between
            wrong = 1
            cache.set(self._key, wrong, seconds)
        if wrong >= settings.LOCKOUT_ATTEMPTS:
            cache.set(_lock(self._key), time.time() + seconds, seconds)
            cache.delete(self._key)

    def forget(self) -> None:
        """Forget the wrong ones, and remember the address."""
        store().delete(self._key)
        now, addresses = time.time(), _known(self._account)
        if not self._network or now - addresses.get(self._network, 0.0) < _RENEWED_AFTER:
            return
        kept = sorted((addresses | {self._network: now}).items(), key=lambda each: each[1])[-MOST_ADDRESSES:]
        store().set(key_of("known", self._account), dict(kept), REMEMBERED)


def account_of(user: User | None, typed: str) -> Account:
    """Return what is counted for; ``typed`` is the name that was given."""
    if user is None:
        return Account(f"typed {typed}")
    return Account(f"user {user.id.hex}", user.options.get("ignore_lockout_failure_attempts") is True)


def lockout_of(user: User) -> datetime | None:
    """Return until when the user is locked out, from everywhere or from some known address; None: not at all."""
    if not settings.LOCKOUT_ATTEMPTS:
        return None
    ends = [end for key in _buckets(user) if (end := _until(key)) is not None]
    return datetime.fromtimestamp(max(ends), UTC) if ends else None


def lift_lockout(user: User) -> None:
    """Let the user try again, from everywhere; an address that was slowed down (``throttle``) still waits."""
    keys = _buckets(user)
    store().delete_many([*keys, *(_lock(key) for key in keys)])


def _buckets(user: User) -> list[str]:
    account = f"user {user.id.hex}"
    return [_bucket(account, network) for network in ("", *_known(account))]


def _known(account: str) -> dict[str, float]:
    """Return the networks that the account was signed in to from, with the time."""
    now = time.time()
    found: dict[str, float] = store().get(key_of("known", account), {})
    return {network: at for network, at in found.items() if now - at < REMEMBERED}


def _bucket(account: str, network: str) -> str:
    return key_of("lockout", account, network)


def _lock(bucket: str) -> str:
    return f"{bucket}-locked"


def _until(bucket: str) -> float | None:
    end: float | None = store().get(_lock(bucket))
    return end if end is not None and end > time.time() else None
