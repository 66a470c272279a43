"""Ports of guests may change while these run: the guests are locked before, and their hosts notified afterwards."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from provisioning.common.wired import Wired


@dataclass(frozen=True, slots=True)
class Guests:
    """Called with a port's device in the transaction of a change: ``lock`` first, ``notify`` at its end."""

    lock: Callable[[uuid.UUID], None]
    notify: Callable[[uuid.UUID], None]


OWNERS = Wired[Guests]("The owners of guests")


def lock(device_id: uuid.UUID | None) -> None:
    """Lock the guest before any of its ports, as everybody does."""
    if device_id:
        for each in OWNERS:
            each.lock(device_id)


def changed(device_id: uuid.UUID | None) -> None:
    """Say that a port of the guest was written."""
    if device_id:
        for each in OWNERS:
            each.notify(device_id)
