"""Locks a name out after many wrong passwords, from whatever addresses: what slowing down each address cannot stop.

An address from which the name was signed in to before counts for itself: who guesses elsewhere does not lock it out.
Such an address is written down with the session that it got, in the database, so that neither a restart nor another web
process forgets it.
Locked is locked for a right password too, and nothing in the answer tells.
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

from provisioning.common.ids import NOBODY
from provisioning.identity.counters import key_of, lockouts, network_of
from provisioning.identity.models import KnownAddress, User

REMEMBERED = timedelta(days=30)
"""How long an address is known after a sign-in."""
MOST_ADDRESSES = 20
"""Known addresses of one name."""
NAMES_OF_NOBODY = 4096
"""Counts for all names that mean nobody together: however many are tried, the counts of users stay."""
_RENEWED_AFTER = timedelta(days=1)
_METHODS = {"password": "password", "totp": "passcode"}
"""Keystone's methods that are counted, as they are called here."""


class Account(NamedTuple):
    """What is counted for: a user however it was named, or a name that means nobody."""

    key: str
    exempt: bool = False
    """Never locked out."""
    user_id: uuid.UUID = NOBODY
    method: str = "password"

    def of(self, method: str) -> Account:
        """The same account where another method than the password is counted."""
        return Account(f"{method} {self.key}", self.exempt, self.user_id, method)


class Lockout:
    """The count of one account as one network meets it."""

    def __init__(self, whom: Account, network: str) -> None:
        """``network`` is the address of who tries, or empty."""
        self._whom, self._network = whom, network
        self._counts = not whom.exempt and settings.LOCKOUT_ATTEMPTS > 0

    @cached_property
    def is_known(self) -> bool:
        """Whether the account was signed in to from there: a look at the database, for nobody's name, too."""
        return bool(self._network) and self._network in _known(self._whom.user_id, self._whom.method)

    @property
    def _is_new(self) -> bool:
        """Whether nothing is counted of the account, so that it does not matter from where somebody comes."""
        return not lockouts().get_many([_any_lock(self._whom.key), _any_count(self._whom.key)])

    @property
    def _key(self) -> str:
        return _bucket(self._whom.key, self._network if self.is_known else "")

    def until(self) -> float | None:
        """Return the time (seconds since 1970) at which the lock ends, or None."""
        return None if not self._counts or self._is_new else _until(self._key)

    def count(self) -> None:
        """Count a wrong password; what comes while the account is locked makes the lock no longer."""
        if not self._counts or self.until() is not None:
            return
        cache, seconds = lockouts(), settings.LOCKOUT_SECONDS
        cache.set(_any_count(self._whom.key), 1, seconds)
        cache.add(self._key, 0, seconds)
        try:
            wrong = cache.incr(self._key)
        except ValueError:  # it was forgotten in between
            wrong = 1
            cache.set(self._key, wrong, seconds)
        if wrong >= settings.LOCKOUT_ATTEMPTS:
            end = time.time() + seconds
            cache.set(_lock(self._key), end, seconds)
            cache.set(_any_lock(self._whom.key), end, seconds)
            cache.delete(self._key)

    def forget(self) -> None:
        """Forget the wrong ones."""
        if not self._is_new:
            lockouts().delete(self._key)


def remember(user: User, methods: Iterable[str], source: str) -> None:
    """Remember the address from which somebody is let in as the user by these methods (Keystone's words).

    Written when the address is new or was written down a day ago.
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
    """Return what is counted for; ``typed`` is the name that was given.  Names that mean nobody share counts: nothing
    in an answer tells.
    """
    if user is None:
        return Account(f"nobody {int(key_of(typed), 16) % NAMES_OF_NOBODY}")
    exempt = user.options.get("ignore_lockout_failure_attempts") is True
    return Account(f"user {user.id.hex}", exempt, user.id)


def lockout_of(user: User) -> datetime | None:
    """Return until when the user is locked out, from everywhere or from some known address; None: not at all."""
    if not settings.LOCKOUT_ATTEMPTS:
        return None
    end: float | None = lockouts().get(_any_lock(f"user {user.id.hex}"))
    return datetime.fromtimestamp(end, UTC) if end is not None and end > time.time() else None


def lift_lockout(user: User) -> None:
    """Let the user try again, from everywhere; an address that was slowed down (``throttle``) still waits."""
    account = f"user {user.id.hex}"
    keys = [_bucket(account, network) for network in ("", *_known(user.id, "password"))]
    lockouts().delete_many([*keys, *(_lock(key) for key in keys), _any_lock(account)])


def forget_addresses() -> int:
    """Remove addresses that are known no more; returns how many."""
    return KnownAddress.objects.filter(seen_at__lte=timezone.now() - REMEMBERED).delete()[0]


def _known(user_id: uuid.UUID, method: str) -> set[str]:
    """Return the networks from which the user was let in."""
    found = KnownAddress.objects.filter(user_id=user_id, method=method, seen_at__gt=timezone.now() - REMEMBERED)
    return set(found.values_list("network", flat=True))


def _bucket(account: str, network: str) -> str:
    return key_of("lockout", account, network)


def _lock(bucket: str) -> str:
    return f"{bucket}-locked"


def _any_lock(account: str) -> str:
    """Return the key of the time at which the account's last lock ends, whichever address it is for."""
    return key_of("locked", account)


def _any_count(account: str) -> str:
    """Return the key of whether wrong passwords of the account are counted, from wherever."""
    return key_of("counted", account)


def _until(bucket: str) -> float | None:
    end: float | None = lockouts().get(_lock(bucket))
    return end if end is not None and end > time.time() else None
