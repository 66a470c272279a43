"""Where sign-ins are counted: the cache ``sign_in`` (a file that all processes of the machine share, or a server).

Whoever is not signed in must not be able to write to the database.
"""

import contextlib
import hashlib
import ipaddress
import threading
from collections.abc import Iterator

from django.core.cache import BaseCache, caches

from provisioning.common.machine_cache import MachineCache

CACHE, LOCKOUTS = "sign_in", "lockouts"
_lock = threading.Lock()


def store() -> BaseCache:
    return caches[CACHE]


def lockouts() -> BaseCache:
    """Return where wrong passwords are counted for each account: apart from what addresses can fill, where that is a
    file of this machine.
    """
    return caches[LOCKOUTS] if isinstance(store(), MachineCache) else store()


@contextlib.contextmanager
def counting() -> Iterator[None]:
    """Hold while a count is read and written again: of many at once each sees the ones before it.

    With a server that several machines share, those of other processes are not held back.
    """
    counts = store()
    with _lock, counts.exclusive() if isinstance(counts, MachineCache) else contextlib.nullcontext():
        yield


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
