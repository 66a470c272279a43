"""Callbacks for changes of guests' ports: lock the guest before the change, notify its host afterwards."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from provisioning.common.wired import Wired


@dataclass(frozen=True, slots=True)
class Guests:
    """Callbacks of the guests' owner, called in the transaction of a change with a port's ``device_id``.

    ``lock`` is called before the change, ``notify`` after it.
    """

    lock: Callable[[uuid.UUID], None]
    notify: Callable[[uuid.UUID], None]


OWNERS = Wired[Guests]("The owners of guests")


def lock(device_id: uuid.UUID | None) -> None:
    """Lock the guest. Callers must do this before they lock one of the guest's ports."""
    if device_id:
        for each in OWNERS:
            each.lock(device_id)


def changed(device_id: uuid.UUID | None) -> None:
    """Notify the guest's owner (Compute) that one of the guest's ports has changed."""
    if device_id:
        for each in OWNERS:
            each.notify(device_id)
