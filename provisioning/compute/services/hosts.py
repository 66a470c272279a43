"""What an operator does to a host."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.compute.models import Host
from provisioning.compute.names import check_text
from provisioning.identity import policy

RATIOS = frozenset({"cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio"})
RESERVED = frozenset({"reserved_memory_mb", "reserved_disk_gb"})
_MOST = 2_147_483_647


def enable_host(context: RequestContext, host_id: uuid.UUID) -> Host:
    """Let the scheduler use the host again.  Raises ForbiddenError, NotFoundError."""
    return _set(context, host_id, enabled=True, reason="")


def disable_host(context: RequestContext, host_id: uuid.UUID, reason: str = "") -> Host:
    """Give the host no new servers; what runs there goes on.  Raises as ``enable_host``, and InvalidInputError."""
    return _set(context, host_id, enabled=False, reason=check_text(reason, "disabled_reason"))


def update_host(context: RequestContext, host_id: uuid.UUID, values: Mapping[str, Any]) -> Host:
    """Change a host's zone, its ratios of allocation and what is kept back of it (MiB, GiB).

    Raises ForbiddenError, NotFoundError, InvalidInputError naming the field.
    """
    policy.enforce(context, "compute:services:update")
    columns = {name: _checked(name, value) for name, value in values.items()}
    if not Host.objects.filter(id=host_id).update(**columns):
        raise NotFoundError(f"Host {host_id} could not be found.")
    return Host.objects.get(id=host_id)


def _checked(name: str, value: Any) -> Any:
    """Return a value fit for one of a host's columns that operators change."""
    if name == "availability_zone":
        return check_text(value, name, shortest=1)
    if name in RATIOS and not 0 < value <= 1000:
        raise InvalidInputError(f"{name} must be more than 0 and at most 1000.", field=name)
    if name in RESERVED and not 0 <= value <= _MOST:
        raise InvalidInputError(f"{name} must be from 0 to {_MOST}.", field=name)
    if name not in RATIOS | RESERVED:
        raise InvalidInputError(f"{name} of a host cannot be changed.", field=name)
    return value


def _set(context: RequestContext, host_id: uuid.UUID, *, enabled: bool, reason: str) -> Host:
    policy.enforce(context, "compute:services:update")
    if not Host.objects.filter(id=host_id).update(enabled=enabled, disabled_reason=reason):
        raise NotFoundError(f"Host {host_id} could not be found.")
    return Host.objects.get(id=host_id)
