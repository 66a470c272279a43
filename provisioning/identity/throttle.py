"""Slows down guessing of passwords: counts wrong ones per name and address, known name or not.

An attempt is counted before the password is looked at, so that many at once gain nothing, and the count is dropped
when it was right. After ``FREE`` attempts each further one must wait twice as long as the one before, up to
``LONGEST`` seconds; a quarter of an hour without an attempt forgets.  A second count per address alone stops going
through many names.
"""

from __future__ import annotations

import hashlib
import ipaddress
import math
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from provisioning.identity.errors import TooManyAttemptsError
from provisioning.identity.models import SignInFailure

FREE = 5
"""Wrong passwords for one name from one address before waiting begins."""
FREE_OF_ADDRESS = 100
"""Wrong passwords from one address, whatever the names."""
LONGEST = 300
"""Seconds."""
FORGOTTEN_AFTER = timedelta(minutes=15)


class Attempt:
    """One try to sign in as ``name`` (with its domain) from ``source``, the address of the caller or empty."""

    def __init__(self, name: str, source: str) -> None:
        """Count the attempt; raises TooManyAttemptsError, without counting, while the caller has to wait."""
        address = _network_of(source)
        self._pair = _key("pair", name, address)
        self._address = _key("address", address)
        try:
            self._begin()
        except IntegrityError:  # another process made the row in between
            self._begin()

    @transaction.atomic
    def _begin(self) -> None:
        """Look and count in one transaction, the row locked: of many at once each sees the ones before it."""
        _check(self._address, FREE_OF_ADDRESS)
        _check(self._pair, FREE)
        _count(self._pair)

    def failed(self) -> None:
        """Count against the address as well."""
        try:
            with transaction.atomic():
                _count(self._address)
        except IntegrityError:
            _count(self._address)
        SignInFailure.objects.filter(last_at__lt=timezone.now() - FORGOTTEN_AFTER).delete()

    def succeeded(self) -> None:
        """Forget the wrong ones before."""
        SignInFailure.objects.filter(key=self._pair).delete()


def _check(key: str, free: int) -> None:
    row = SignInFailure.objects.select_for_update().filter(key=key).first()
    if row is None or row.count < free:
        return
    wait = timedelta(seconds=min(2 ** min(row.count - free, 20), LONGEST))
    left = (row.last_at + wait - timezone.now()).total_seconds()
    if left > 0:
        raise TooManyAttemptsError(math.ceil(left))


def _count(key: str) -> None:
    """Raise the count by one, or start at one when the last attempt is long ago.  May raise IntegrityError."""
    now = timezone.now()
    row = SignInFailure.objects.filter(key=key)
    if row.filter(last_at__gte=now - FORGOTTEN_AFTER).update(count=F("count") + 1, last_at=now):
        return
    if not row.update(count=1, last_at=now):
        SignInFailure.objects.create(key=key, count=1, last_at=now)


def _network_of(source: str) -> str:
    """Return the address, and of IPv6 its /64: one customer has all of it."""
    try:
        address = ipaddress.ip_address(source)
    except ValueError:
        return source[:64]
    if isinstance(address, ipaddress.IPv6Address):
        return str(address.ipv4_mapped or ipaddress.ip_network((address, 64), strict=False))
    return str(address)


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
