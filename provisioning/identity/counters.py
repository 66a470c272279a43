"""Where sign-ins are counted: the cache ``sign_in`` (memory of the process, or a server that all processes share).

Whoever is not signed in must not be able to write to the database.
"""

import hashlib
import ipaddress
import threading

from django.core.cache import BaseCache, caches

CACHE = "sign_in"
counting = threading.Lock()
"""Held while a count is read and written again: of many at once each sees the ones before it."""


def store() -> BaseCache:
    return caches[CACHE]


def key_of(*parts: str) -> str:
    """Return the key for these words, whatever characters are in them."""
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()


def network_of(source: str) -> str:
    """Return the address, and of IPv6 its /64: one customer has all of it."""
    try:
        address = ipaddress.ip_address(source)
    except ValueError:
        return source[:64]
    if isinstance(address, ipaddress.IPv6Address):
        return str(address.ipv4_mapped or ipaddress.ip_network((int(address) >> 64 << 64, 64)))
    return str(address)
