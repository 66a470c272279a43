"""Errors of compute that are more than their root class says."""

from __future__ import annotations

from provisioning.common.errors import ConflictError


class InstanceBusyError(ConflictError):
    """The server is doing something else, or is not in a state from which this can be done."""

    code = "instance_busy"

    def __init__(self, action: str, vm_state: str, task_state: str | None) -> None:
        """Say what was asked and what the server is doing, in the words of the Compute API."""
        if task_state:
            message = f"Cannot '{action}' the server while it is in task_state {task_state}."
        else:
            message = f"Cannot '{action}' the server while it is in vm_state {vm_state}."
        super().__init__(message)
        self.action, self.vm_state, self.task_state = action, vm_state, task_state
