"""Slows down guessing of passwords: counts wrong ones per name and address, known name or not.

An attempt is counted before the password is looked at, so that many at once gain nothing, and the count is dropped
when it was right. After ``FREE`` attempts each further one must wait twice as long as the one before, up to
``LONGEST`` seconds; a quarter of an hour without an attempt forgets.  A second count per address alone stops going
through many names.

Counts are kept in the cache ``sign_in`` (memory of the process, or a server that all processes share): whoever is not
signed in must not be able to write to the database.
"""

from __future__ import annotations

import hashlib
import ipaddress
import math
import threading
import time

from django.core.cache import caches

from provisioning.identity.errors import TooManyAttemptsError

FREE = 5
"""Wrong passwords for one name from one address before waiting begins."""
FREE_OF_ADDRESS = 100
"""Wrong passwords from one address, whatever the names."""
LONGEST = 300
"""Seconds."""
FORGOTTEN_AFTER = 900
"""Seconds."""
CACHE = "sign_in"
_looking = threading.Lock()


class Attempt:
    """One try to sign in as ``name`` (with its domain) from ``source``, the address of the caller or empty."""

    def __init__(self, name: str, source: str) -> None:
        """Count the attempt; raises TooManyAttemptsError, without counting, while the caller has to wait."""
        address = _network_of(source)
        self._pair = _key("pair", name, address)
        self._address = _key("address", address)
        with _looking:  # of many at once each sees the ones before it
            _check(self._address, FREE_OF_ADDRESS)
            _check(self._pair, FREE)
            _count(self._pair)

    def failed(self) -> None:
        """Count against the address as well."""
        with _looking:
            _count(self._address)

    def succeeded(self) -> None:
        """Forget the wrong ones before."""
        caches[CACHE].delete(self._pair)


def _check(key: str, free: int) -> None:
    count, last_at = caches[CACHE].get(key, (0, 0.0))
    if count < free:
        return
    left = last_at + min(2 ** min(count - free, 20), LONGEST) - time.time()
    if left > 0:
        raise TooManyAttemptsError(math.ceil(min(left, LONGEST)))


def _count(key: str) -> None:
    count, _ = caches[CACHE].get(key, (0, 0.0))
    caches[CACHE].set(key, (count + 1, time.time()), FORGOTTEN_AFTER)


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
