"""The cache in which failed logins are counted: a file that all processes of the machine share, or a cache server.

The database is not used, because unauthenticated clients must not be able to write to it.
"""

import contextlib
import hashlib
import ipaddress
import threading
from collections.abc import Iterator

from django.core.cache import BaseCache, caches

from provisioning.common.machine.machine_cache import MachineCache

CACHE, LOCKOUTS = "sign_in", "lockouts"
_lock = threading.Lock()


def store() -> BaseCache:
    return caches[CACHE]


def lockouts() -> BaseCache:
    """Return the cache for lockouts of accounts.

    With a file cache, lockouts have a separate file, because the counts of addresses can fill the file of ``store``.
    """
    return caches[LOCKOUTS] if isinstance(store(), MachineCache) else store()


@contextlib.contextmanager
def counting() -> Iterator[None]:
    """Hold a lock while a count is read and written, so that concurrent attempts are all counted.

    With a cache server, processes on other machines do not share this lock.
    """
    counts = store()
    with _lock, counts.exclusive() if isinstance(counts, MachineCache) else contextlib.nullcontext():
        yield


def key_of(*parts: str) -> str:
    """Return a cache key for these texts, which may have any characters."""
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()


def network_of(source: str) -> str:
    """Return the address; for IPv6 its /64 network, which usually belongs to one customer."""
    try:
        address = ipaddress.ip_address(source)
    except ValueError:
        return source[:64]
    if isinstance(address, ipaddress.IPv6Address):
        return str(address.ipv4_mapped or ipaddress.ip_network((int(address) >> 64 << 64, 64)))
    return str(address)
