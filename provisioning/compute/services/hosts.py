"""What an operator does to a host."""

from __future__ import annotations

import uuid

from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError, NotFoundError
from provisioning.compute.models import Host
from provisioning.compute.names import check_text


def enable_host(context: RequestContext, host_id: uuid.UUID) -> Host:
    """Let the scheduler use the host again.  Raises ForbiddenError, NotFoundError."""
    return _set(context, host_id, enabled=True, reason="")


def disable_host(context: RequestContext, host_id: uuid.UUID, reason: str = "") -> Host:
    """Give the host no new servers; what runs there goes on.  Raises as ``enable_host``, and InvalidInputError."""
    return _set(context, host_id, enabled=False, reason=check_text(reason, "disabled_reason"))


def _set(context: RequestContext, host_id: uuid.UUID, *, enabled: bool, reason: str) -> Host:
    if not context.is_admin:
        raise ForbiddenError("Only an operator enables and disables hosts.")
    if not Host.objects.filter(id=host_id).update(enabled=enabled, disabled_reason=reason):
        raise NotFoundError(f"Host {host_id} could not be found.")
    return Host.objects.get(id=host_id)
