"""Callbacks for changes of guests' ports: lock the guest before the change, notify its host afterwards."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from provisioning.common.wired import Wired


@dataclass(frozen=True, slots=True)
class Guests:
    """Called with a port's ``device_id`` in the transaction of a change: ``lock`` before it, ``notify`` at its end."""

    lock: Callable[[uuid.UUID], None]
    notify: Callable[[uuid.UUID], None]


OWNERS = Wired[Guests]("The owners of guests")


def lock(device_id: uuid.UUID | None) -> None:
    """Lock the guest.  Every caller does this before it locks one of the guest's ports."""
    if device_id:
        for each in OWNERS:
            each.lock(device_id)


def changed(device_id: uuid.UUID | None) -> None:
    """Notify the guest's owner that one of its ports was written."""
    if device_id:
        for each in OWNERS:
            each.notify(device_id)
