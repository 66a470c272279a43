"""Notifies open connections that access was revoked."""

import uuid
from typing import Any

from provisioning.events import services as events


def revoked(
    *, user_id: uuid.UUID | None = None, project_id: uuid.UUID | None = None, audit_id: str | None = None
) -> None:
    """Record the event in the caller's transaction. Without arguments, the event applies to all connections."""
    payload: dict[str, Any] = {
        "user_id": str(user_id) if user_id else None,
        "project_id": str(project_id) if project_id else None,
        "audit_id": audit_id,
    }
    events.record("auth", "revoked", payload)
