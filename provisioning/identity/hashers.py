"""Argon2id with OWASP's second set of parameters: 19 MiB and 17 ms a sign-in instead of Django's 100 MiB."""

import contextlib
import ctypes
import os
import threading

from django.contrib.auth.hashers import Argon2PasswordHasher

_AT_ONCE = threading.BoundedSemaphore(max(2, min(os.cpu_count() or 2, 4)))
"""Each hash takes 19 MiB while it runs; anonymous callers must not choose how many run."""

_M_MMAP_THRESHOLD = -3  # malloc.h


def _give_memory_back() -> None:
    """Tell glibc to return large blocks to the system when they are freed.

    Left alone it learns from the first hash to keep such blocks in the arena of each thread: after 16 threads with one
    sign-in each a process was measured to hold 300 MiB more than before, with this nothing.  Other C libraries do so
    anyway, and have no such call.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 1 << 20)


_give_memory_back()


class Argon2Hasher(Argon2PasswordHasher):
    """Argon2id, time cost 2, 19,456 KiB, one lane; only a few run at once in a process."""

    time_cost = 2
    memory_cost = 19_456
    parallelism = 1

    def encode(self, password: str, salt: str) -> str:
        with _AT_ONCE:
            return str(super().encode(password, salt))

    def verify(self, password: str, encoded: str) -> bool:
        with _AT_ONCE:
            return bool(super().verify(password, encoded))
