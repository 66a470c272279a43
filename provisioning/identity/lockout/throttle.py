"""Throttles password guessing: counts wrong proofs for each name and address, whether or not the name exists.

An attempt is counted before its proof is checked, so that concurrent attempts have no advantage, and the counter is
reset after a correct proof. After ``FREE`` wrong attempts, the waiting time doubles with each attempt, up to
``LONGEST`` seconds. The waiting time is reset after 15 minutes without an attempt. A second counter for each address
prevents guessing with many names. Wrong attempts for a name from all addresses are handled by ``lockout``.
"""

import math
import time
from types import TracebackType
from typing import NamedTuple, Self

from provisioning.identity.errors import TooManyAttemptsError
from provisioning.identity.lockout import lockout
from provisioning.identity.lockout.counters import counting, key_of, network_of, store

FREE = 5
"""Wrong passwords for one name from one address before throttling; also the number of concurrent attempts."""
AT_ONCE_WHEN_KNOWN = 20
"""Number of concurrent attempts for a name from an address with an earlier login, for parallel programs."""
FREE_OF_ADDRESS = 100
"""Wrong passwords from one address for any names before throttling."""
LONGEST = 300
"""Maximum waiting time in seconds."""
FORGOTTEN_AFTER = 900
"""Seconds without an attempt after which a counter is deleted."""


class _Count(NamedTuple):
    wrong: int = 0
    last_at: float = 0.0
    looking: int = 0
    """Attempts in progress."""


class Attempt:
    """An attempt to authenticate as ``name`` from the address ``source`` (may be empty); a context manager.

    ``account``: the account for lockouts; None: no lockout. The attempt counts as wrong unless ``succeeded`` is called
    in the block.
    """

    def __init__(self, name: str, source: str, account: lockout.Account | None = None, *, at_once: int = FREE) -> None:
        """Count the attempt. Raises TooManyAttemptsError, without counting, while the client must wait."""
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
        """Return whether the account is locked. Call it after the proof was checked, so that a locked account takes the
        same time.
        """
        return self._lockout is not None and self._lockout.until() is not None

    def succeeded(self) -> None:
        """Record that the proof was correct; resets the counters."""
        self._right = True
        if self._lockout is not None:
            self._lockout.forget()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Count a wrong attempt for name and address unless it succeeded."""
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
    """Raise TooManyAttemptsError while this address must wait, for attempts with any name. Needs no query."""
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
