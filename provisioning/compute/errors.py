"""Errors of compute that are more than their root class says."""

import uuid

from provisioning.common.errors import ConflictError, ForbiddenError, InvalidInputError


class InstanceBusyError(ConflictError):
    """The server is doing something else, or is not in a state from which this can be done."""

    code = "instance_busy"

    def __init__(self, action: str, instance_id: uuid.UUID | str, vm_state: str, task_state: str | None) -> None:
        """Say what was asked and what the server is doing, in the words of the Compute API."""
        where = f"task_state {task_state}" if task_state else f"vm_state {vm_state}"
        super().__init__(f"Cannot '{action}' instance {instance_id} while it is in {where}")
        self.action, self.vm_state, self.task_state = action, vm_state, task_state


class NoRoomError(ConflictError):
    """No host has the room for what is asked."""

    code = "no_room"


class ConsoleTakenError(ConflictError):
    """The same person has opened the console in another window, and only one can have it."""

    code = "console_taken"


class InstanceLockedError(ConflictError):
    """The server is locked, and the caller may not act on it."""

    code = "instance_locked"

    def __init__(self, instance_id: uuid.UUID | str, reason: str | None) -> None:
        """Say so in the words of the Compute API, with the reason that was given."""
        super().__init__(f"Instance {instance_id} is locked" + (f": {reason}" if reason else ""))


class DifferentZoneError(InvalidInputError):
    """A volume is in another zone than the server, where that is not allowed."""

    code = "different_zone"


class TooManyDisksError(ForbiddenError):
    """A server has as many disks as it can."""

    code = "too_many_disks"
