"""A launch that is sent twice is one launch: its idempotency key decides the ids of the servers it makes."""

import hashlib
import secrets
import uuid
from dataclasses import dataclass

from provisioning.common.context import RequestContext
from provisioning.common.ids import NOBODY
from provisioning.compute.launch.request import LaunchRequest
from provisioning.compute.models import Instance


@dataclass(frozen=True, slots=True)
class LaunchIdentity:
    """The ids of a request's servers: random, or always the same for the caller's key in this project."""

    project_id: uuid.UUID
    reservation_id: str
    """What the servers of one request share."""
    repeatable: bool
    """Whether there is a key."""

    def instance_id(self, index: int) -> uuid.UUID:
        """Return a server's id; with a key the same each time: the primary key stops a repeat that was as quick."""
        return uuid.uuid5(uuid.NAMESPACE_OID, f"{self.reservation_id} {index}") if self.repeatable else uuid.uuid4()

    def launched_before(self) -> list[Instance]:
        """Return what a request with this key launched already, deleted ones too; empty without a key."""
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
