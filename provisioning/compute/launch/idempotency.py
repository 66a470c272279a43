"""A launch that is sent twice is one launch: its idempotency key decides the ids of the servers it makes."""

from __future__ import annotations

import hashlib
import secrets
import uuid

from provisioning.common.context import RequestContext
from provisioning.common.ids import NOBODY
from provisioning.compute.launch.request import LaunchRequest
from provisioning.compute.models import Instance


def reservation_id(context: RequestContext, request: LaunchRequest) -> str:
    """Return what the servers of one request share: random, or always the same for the caller's key in this project."""
    if request.idempotency_key is None:
        return f"r-{secrets.token_hex(4)}"
    parts = f"{context.project_id} {context.user_id} {request.idempotency_key}"
    return f"r-{hashlib.sha256(parts.encode()).hexdigest()[:30]}"


def instance_id(request: LaunchRequest, reservation: str, index: int) -> uuid.UUID:
    """Return a server's id; with a key the same each time, so that the primary key stops a repeat that was as quick."""
    if request.idempotency_key is None:
        return uuid.uuid4()
    return uuid.uuid5(uuid.NAMESPACE_OID, f"{reservation} {index}")


def launched_before(context: RequestContext, request: LaunchRequest) -> list[Instance]:
    """Return what a request with this key launched already, deleted ones too; empty without a key."""
    if request.idempotency_key is None:
        return []
    made = Instance.objects.filter(
        project_id=context.project_id or NOBODY, reservation_id=reservation_id(context, request)
    )
    return list(made.select_related("host").order_by("launch_index"))
