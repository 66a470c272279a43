"""Notifies open connections that access was revoked."""

import uuid
from typing import Any

from provisioning.events import services as events


def revoked(
    *, user_id: uuid.UUID | None = None, project_id: uuid.UUID | None = None, audit_id: str | None = None
) -> None:
    """Record in the caller's transaction that access was revoked.

    The arguments restrict this event to connections of a user, in a project, or with a token; by default it applies to
    all.
    """
    payload: dict[str, Any] = {
        "user_id": str(user_id) if user_id else None,
        "project_id": str(project_id) if project_id else None,
        "audit_id": audit_id,
    }
    events.record("auth", "revoked", payload)
