"""Idempotent launches: the ids of the servers derive from the idempotency key."""

import hashlib
import secrets
import uuid
from dataclasses import dataclass

from provisioning.common.context import RequestContext
from provisioning.common.values.ids import NOBODY
from provisioning.compute.launch.request import LaunchRequest
from provisioning.compute.models import Instance


@dataclass(frozen=True, slots=True)
class LaunchIdentity:
    """Source of the ids of a request's servers: random, or derived from the caller's idempotency key and project."""

    project_id: uuid.UUID
    reservation_id: str
    """Common to the servers of one request."""
    repeatable: bool
    """Whether the request has an idempotency key."""

    def instance_id(self, index: int) -> uuid.UUID:
        """Return a server's id. With an idempotency key it is always the same, so that the unique primary key prevents
        concurrent repetitions of the request.
        """
        return uuid.uuid5(uuid.NAMESPACE_OID, f"{self.reservation_id} {index}") if self.repeatable else uuid.uuid4()

    def launched_before(self) -> list[Instance]:
        """Return the servers of an earlier request with this idempotency key, including deleted ones; empty without
        a key.
        """
        if not self.repeatable:
            return []
        made = Instance.objects.filter(project_id=self.project_id, reservation_id=self.reservation_id)
        return list(made.select_related("host").order_by("launch_index"))


def identity_of(context: RequestContext, request: LaunchRequest) -> LaunchIdentity:
    project_id, key = context.project_id or NOBODY, request.idempotency_key
    if key is None:
        return LaunchIdentity(project_id, f"r-{secrets.token_hex(4)}", repeatable=False)
    digest = hashlib.sha256(f"{context.project_id} {context.user_id} {key}".encode()).hexdigest()
    return LaunchIdentity(project_id, f"r-{digest[:30]}", repeatable=True)
