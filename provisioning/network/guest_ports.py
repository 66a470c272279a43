"""Ports of guests may change while these run: whoever registers here locks the guests before, and tells their hosts."""

import uuid
from collections.abc import Callable

_lockers: list[Callable[[uuid.UUID], None]] = []
_tellers: list[Callable[[uuid.UUID], None]] = []


def register(lock: Callable[[uuid.UUID], None], tell: Callable[[uuid.UUID], None]) -> None:
    """Let both be called with a port's device in the transaction of a change: ``lock`` first, ``tell`` at its end."""
    _lockers.append(lock)
    _tellers.append(tell)


def lock(device_id: uuid.UUID | None) -> None:
    """Lock the guest before any of its ports, as everybody does."""
    for each in _lockers if device_id else ():
        each(device_id)  # type: ignore[arg-type]


def changed(device_id: uuid.UUID | None) -> None:
    """Say that a port of the guest was written."""
    for each in _tellers if device_id else ():
        each(device_id)  # type: ignore[arg-type]
