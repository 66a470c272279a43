"""Locks an account after many wrong passwords from any addresses, which throttling of single addresses cannot stop.

Addresses with an earlier successful login are counted separately, so that an attacker at another address cannot lock
out the user there. These addresses are stored in the database with the session, so that all web processes know them,
even after a restart.

A locked account also rejects the correct password, and the response does not reveal the lock.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from django.conf import settings
from django.utils import timezone
from django.utils.functional import cached_property

from provisioning.common.values.ids import NOBODY
from provisioning.identity.lockout.counters import key_of, lockouts, network_of
from provisioning.identity.models import KnownAddress, User

REMEMBERED = timedelta(days=30)
"""How long an address is known after a login."""
MOST_ADDRESSES = 20
"""Maximum number of known addresses of one account."""
NAMES_OF_NOBODY = 4096
"""Number of counters that all unknown names share, so that many names cannot displace the counters of users."""
_RENEWED_AFTER = timedelta(days=1)
_METHODS = {"password": "password", "totp": "passcode"}
"""Keystone's names of the methods whose failures are counted → the names in ``Account.method``."""


class Account(NamedTuple):
    """The account whose wrong passwords are counted: a user, or an unknown name.

    A user has the same account whether a client specifies the id or the name.
    """

    key: str
    exempt: bool = False
    """The account is never locked."""
    user_id: uuid.UUID = NOBODY
    method: str = "password"

    def of(self, method: str) -> Account:
        """Return the same account for a method other than the password."""
        return Account(f"{method} {self.key}", self.exempt, self.user_id, method)


class Lockout:
    """The counter of an account for one network."""

    def __init__(self, whom: Account, network: str) -> None:
        """``network`` is the client's address or empty."""
        self._whom, self._network = whom, network
        self._counts = not whom.exempt and settings.LOCKOUT_ATTEMPTS > 0

    @cached_property
    def is_known(self) -> bool:
        """Whether the user has logged in from this network. Takes a query, for unknown names as well."""
        return bool(self._network) and self._network in _known(self._whom.user_id, self._whom.method)

    @property
    def _is_new(self) -> bool:
        """Whether nothing is counted for the account, so that the network does not matter."""
        return not lockouts().get_many([_any_lock(self._whom.key), _any_count(self._whom.key)])

    @property
    def _key(self) -> str:
        return _bucket(self._whom.key, self._network if self.is_known else "")

    def until(self) -> float | None:
        """Return the end of the lock in seconds since 1970, or None."""
        return None if not self._counts or self._is_new else _until(self._key)

    def count(self) -> None:
        """Count a wrong password. Attempts during a lock do not extend it."""
        if not self._counts or self.until() is not None:
            return
        cache, seconds = lockouts(), settings.LOCKOUT_SECONDS
        cache.set(_any_count(self._whom.key), 1, seconds)
        cache.add(self._key, 0, seconds)
        try:
            wrong = cache.incr(self._key)
        except ValueError:  # it has expired in between
            wrong = 1
            cache.set(self._key, wrong, seconds)
        if wrong >= settings.LOCKOUT_ATTEMPTS:
            end = time.time() + seconds
            cache.set(_lock(self._key), end, seconds)
            cache.set(_any_lock(self._whom.key), end, seconds)
            cache.delete(self._key)

    def forget(self) -> None:
        """Reset the counter."""
        if not self._is_new:
            lockouts().delete(self._key)


def remember(user: User, methods: Iterable[str], source: str) -> None:
    """Remember the address of a successful login with these methods (Keystone's names).

    Written only if the address is new or was last written more than a day ago.
    """
    network, now = network_of(source), timezone.now()
    for method in {_METHODS[method] for method in methods if method in _METHODS} if network else ():
        mine = KnownAddress.objects.filter(user=user, method=method)
        if mine.filter(network=network, seen_at__gt=now - _RENEWED_AFTER).exists():
            continue
        KnownAddress.objects.bulk_create(
            [KnownAddress(user=user, method=method, network=network, seen_at=now)],
            update_conflicts=True,
            unique_fields=["user", "method", "network"],
            update_fields=["seen_at"],
        )
        mine.exclude(id__in=mine.order_by("-seen_at").values("id")[:MOST_ADDRESSES]).delete()


def account_of(user: User | None, typed: str) -> Account:
    """Return the account whose wrong passwords are counted; ``typed`` is the name that the client has sent.

    Unknown names share counters, which no response reveals.
    """
    if user is None:
        return Account(f"unknown {int(key_of(typed), 16) % NAMES_OF_NOBODY}")
    exempt = user.options.get("ignore_lockout_failure_attempts") is True
    return Account(f"user {user.id.hex}", exempt, user.id)


def lockout_of(user: User) -> datetime | None:
    """Return the end of the user's lock, for any network, or None."""
    if not settings.LOCKOUT_ATTEMPTS:
        return None
    end: float | None = lockouts().get(_any_lock(f"user {user.id.hex}"))
    return datetime.fromtimestamp(end, UTC) if end is not None and end > time.time() else None


def lift_lockout(user: User) -> None:
    """Unlock the user for all networks. Throttling of addresses (``throttle``) still applies."""
    account = f"user {user.id.hex}"
    keys = [_bucket(account, network) for network in ("", *_known(user.id, "password"))]
    lockouts().delete_many([*keys, *(_lock(key) for key in keys), _any_lock(account)])


def forget_addresses() -> int:
    """Delete addresses that are no longer known; return how many."""
    return KnownAddress.objects.filter(seen_at__lte=timezone.now() - REMEMBERED).delete()[0]


def _known(user_id: uuid.UUID, method: str) -> set[str]:
    """Return the networks from which the user has logged in with this method in the last ``REMEMBERED``."""
    rows = KnownAddress.objects.filter(user_id=user_id, method=method, seen_at__gt=timezone.now() - REMEMBERED)
    return set(rows.values_list("network", flat=True))


def _bucket(account: str, network: str) -> str:
    return key_of("lockout", account, network)


def _lock(bucket: str) -> str:
    return f"{bucket}-locked"


def _any_lock(account: str) -> str:
    """Return the cache key for the end of the account's last lock, regardless of the network."""
    return key_of("locked", account)


def _any_count(account: str) -> str:
    """Return the cache key that exists while wrong passwords of the account are counted, from any network."""
    return key_of("counted", account)


def _until(bucket: str) -> float | None:
    end: float | None = lockouts().get(_lock(bucket))
    return end if end is not None and end > time.time() else None
