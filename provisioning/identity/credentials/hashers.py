"""Argon2id with the second parameter set of OWASP: 19 MiB and 17 ms for each login, instead of Django's 100 MiB."""

import contextlib
import ctypes
import os
import threading

from django.contrib.auth.hashers import Argon2PasswordHasher

_AT_ONCE = threading.BoundedSemaphore(max(2, min(os.cpu_count() or 2, 4)))
"""Each hash takes 19 MiB, so unauthenticated clients must not determine how many run concurrently."""

_M_MMAP_THRESHOLD = -3  # malloc.h


def _return_memory() -> None:
    """Make glibc return large memory blocks to the system when they are freed.

    By default, glibc keeps such blocks in the arena of each thread after the first hash: after logins in 16 threads, a
    process used 300 MiB more. Other C libraries return such blocks anyway, and do not have this call.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 1 << 20)


_return_memory()


class Argon2Hasher(Argon2PasswordHasher):
    """Argon2id with time cost 2, 19,456 KiB and one lane; limits how many hashes run concurrently in a process."""

    time_cost = 2
    memory_cost = 19_456
    parallelism = 1

    def encode(self, password: str, salt: str) -> str:
        with _AT_ONCE:
            return str(super().encode(password, salt))

    def verify(self, password: str, encoded: str) -> bool:
        with _AT_ONCE:
            return bool(super().verify(password, encoded))
