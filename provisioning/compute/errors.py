"""Errors of compute with their own codes."""

import uuid

from provisioning.common.errors import ConflictError, ForbiddenError, InvalidInputError


class InstanceBusyError(ConflictError):
    """The server has another task, or its state does not allow the action."""

    code = "instance_busy"

    def __init__(self, action: str, instance_id: uuid.UUID | str, vm_state: str, task_state: str | None) -> None:
        """Compose the message in the wording of the Compute API."""
        where = f"task_state {task_state}" if task_state else f"vm_state {vm_state}"
        super().__init__(f"Cannot '{action}' instance {instance_id} while it is in {where}")
        self.action, self.vm_state, self.task_state = action, vm_state, task_state


class NoRoomError(ConflictError):
    """No host has the requested resources."""

    code = "no_room"


class ConsoleTakenError(ConflictError):
    """The same user has opened the console in another window. The console allows one connection only."""

    code = "console_taken"


class InstanceLockedError(ConflictError):
    """The server is locked, and the caller may not act on it."""

    code = "instance_locked"

    def __init__(self, instance_id: uuid.UUID | str, reason: str | None) -> None:
        """Compose the message in the wording of the Compute API, with the reason of the lock."""
        super().__init__(f"Instance {instance_id} is locked" + (f": {reason}" if reason else ""))


class DifferentZoneError(InvalidInputError):
    """The volume is in another availability zone than the server, and CROSS_AZ_ATTACH is off."""

    code = "different_zone"


class TooManyDisksError(ForbiddenError):
    """The server has the maximum number of disks."""

    code = "too_many_disks"
