"""Metadata of servers, which their owner may change while the server has no task."""

import uuid
from collections.abc import Mapping
from typing import Any

from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.compute.errors import InstanceBusyError, InstanceLockedError
from provisioning.compute.models import Instance
from provisioning.compute.services.instances import write
from provisioning.compute.states import VmState
from provisioning.identity import policy
from provisioning.quotas import selectors as quotas
from provisioning.quotas.services.limits import check_each

_MAY_CHANGE = (VmState.ACTIVE, VmState.PAUSED, VmState.SUSPENDED, VmState.STOPPED)
"""States in which metadata may change."""


def check_metadata(metadata: Mapping[str, Any], limits: Mapping[str, int]) -> dict[str, str]:
    """Return valid metadata: keys of 1 to 255 characters, text values of at most 255, within the limit of items."""
    check_each(limits, "metadata_items", len(metadata))
    for key, value in metadata.items():
        if not 1 <= len(key) <= 255:
            raise InvalidInputError(
                "Invalid input for metadata: a key must have 1 to 255 characters.", field="metadata"
            )
        if not isinstance(value, str) or len(value) > 255:
            raise InvalidInputError(
                f"Invalid input for metadata: the value of {key!r} must be text of at most 255 characters.",
                field="metadata",
            )
        if "\x00" in key or "\x00" in value:
            raise InvalidInputError("Invalid input for metadata: the character NUL is not allowed.", field="metadata")
    return dict(metadata)


def set_metadata(context: RequestContext, instance_id: uuid.UUID | str, metadata: Mapping[str, str]) -> Instance:
    """Replace a server's metadata.

    Raises NotFoundError, InvalidInputError, OverQuotaError, InstanceLockedError, InstanceBusyError, ConflictError.
    """

    def replaced(instance: Instance) -> dict[str, Any]:
        check_may_change(context, instance, "update metadata")
        return {"metadata": check_metadata(metadata, quotas.bounds_of(instance.project_id, context.user_id).least)}

    return write(context, instance_id, replaced)


def merge_metadata(context: RequestContext, instance_id: uuid.UUID | str, metadata: Mapping[str, str]) -> Instance:
    """Add or change items of a server's metadata and keep all others. Raises the errors of ``set_metadata``."""

    def merged(instance: Instance) -> dict[str, Any]:
        check_may_change(context, instance, "update metadata")
        together = {**instance.metadata, **metadata}
        return {"metadata": check_metadata(together, quotas.bounds_of(instance.project_id, context.user_id).least)}

    return write(context, instance_id, merged)


def delete_metadata(context: RequestContext, instance_id: uuid.UUID | str, key: str) -> Instance:
    """Remove an item of a server's metadata. Raises the errors of ``set_metadata``."""

    def without(instance: Instance) -> dict[str, Any]:
        if key not in instance.metadata:
            raise NotFoundError("Metadata item was not found")
        check_may_change(context, instance, "delete metadata")
        return {"metadata": {name: value for name, value in instance.metadata.items() if name != key}}

    return write(context, instance_id, without)


def check_may_change(context: RequestContext, instance: Instance, action: str) -> None:
    """Raise InstanceLockedError or InstanceBusyError when the caller cannot change the metadata now."""
    if instance.locked and not policy.allows(context, "os_compute_api:os-lock-server:unlock:unlock_override"):
        raise InstanceLockedError(instance.id, instance.locked_reason)
    if instance.vm_state not in _MAY_CHANGE or instance.task_state is not None:
        raise InstanceBusyError(action, instance.id, instance.vm_state, instance.task_state)
