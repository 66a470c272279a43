"""Slows down guessing: counts wrong proofs per name and address, known name or not.

An attempt is counted before the password is looked at, so that many at once gain nothing, and the count is dropped
when it was right. After ``FREE`` wrong ones each further one must wait twice as long as the one before, up to
``LONGEST`` seconds; a quarter of an hour without an attempt forgets.  A second count per address alone stops going
through many names.  What is counted for a name from everywhere is the lockout's (``lockout``).
"""

import math
import time
from types import TracebackType
from typing import NamedTuple, Self

from provisioning.identity import lockout
from provisioning.identity.counters import counting, key_of, network_of, store
from provisioning.identity.errors import TooManyAttemptsError

FREE = 5
"""Wrong passwords for one name from one address before waiting begins; as many may be looked at at once."""
AT_ONCE_WHEN_KNOWN = 20
"""How many may be looked at at once for a name from an address that it signed in from before: parallel programs."""
FREE_OF_ADDRESS = 100
"""Wrong passwords from one address, whatever the names."""
LONGEST = 300
"""Seconds."""
FORGOTTEN_AFTER = 900
"""Seconds."""


class _Count(NamedTuple):
    wrong: int = 0
    last_at: float = 0.0
    looking: int = 0
    """Attempts whose proof is being looked at."""


class Attempt:
    """One try to sign in as ``name`` from ``source``, the address of the caller or empty; a context manager.

    ``account`` is what the lockout counts for; None: nothing is locked out.
    Unless ``succeeded`` is called inside, the attempt was a wrong one.
    """

    def __init__(self, name: str, source: str, account: lockout.Account | None = None, *, at_once: int = FREE) -> None:
        """Count the attempt; raises TooManyAttemptsError, without counting, while the caller has to wait."""
        network = network_of(source)
        self._lockout = lockout.Lockout(account, network) if account is not None else None
        self._pair, self._address, self._right = key_of("pair", name, network), key_of("address", network), False
        try:
            self._begin(at_once)
        except TooManyAttemptsError:
            if self._lockout is None or not self._lockout.is_known:
                raise
            self._begin(AT_ONCE_WHEN_KNOWN)

    def _begin(self, at_once: int) -> None:
        with counting():
            _check(self._address, FREE_OF_ADDRESS)
            _check(self._pair, FREE)
            count = _read(self._pair)
            if count.looking >= (1 if count.wrong >= FREE else at_once - count.wrong):
                raise TooManyAttemptsError(1)
            _write(self._pair, count._replace(looking=count.looking + 1))

    def is_locked(self) -> bool:
        """Whether the name is locked out now: ask after the work of looking at the proof."""
        return self._lockout is not None and self._lockout.until() is not None

    def succeeded(self) -> None:
        """The proof was right: forget the wrong ones before."""
        self._right = True
        if self._lockout is not None:
            self._lockout.forget()

    def __enter__(self) -> Self:
        """Look at the proof inside."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Count against name and address unless it was right."""
        now = time.time()
        with counting():
            count = _read(self._pair)
            looking = max(count.looking - 1, 0)
            _write(self._pair, _Count(0, 0.0, looking) if self._right else _Count(count.wrong + 1, now, looking))
            if self._right:
                return
            _write(self._address, _Count(_read(self._address).wrong + 1, now))
            if self._lockout is not None:
                self._lockout.count()


def check_address(source: str) -> None:
    """Raise TooManyAttemptsError while an address has to wait whatever the name; costs no look at the database."""
    _check(key_of("address", network_of(source)), FREE_OF_ADDRESS)


def _check(key: str, free: int) -> None:
    count = _read(key)
    if count.wrong < free:
        return
    left = count.last_at + min(2 ** min(count.wrong - free, 20), LONGEST) - time.time()
    if left > 0:
        raise TooManyAttemptsError(math.ceil(min(left, LONGEST)))


def _read(key: str) -> _Count:
    return _Count(*store().get(key, ()))


def _write(key: str, count: _Count) -> None:
    if count.wrong or count.looking:
        store().set(key, tuple(count), FORGOTTEN_AFTER)
    else:
        store().delete(key)
