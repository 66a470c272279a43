"""Images of servers that nobody finishes."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from compute_agent.contract.commands import SnapshotRequest
from compute_agent.contract.messages import decode_command_body
from provisioning.compute.models import InstanceActionEvent
from provisioning.compute.snapshot_images import remove_image
from provisioning.doctor.finding import Finding, Mend, check
from provisioning.hosts.models import HostCommand
from provisioning.images.models import Image

HALVES = (Image.Status.QUEUED, Image.Status.SAVING)


@check("images")
def images() -> Iterator[Finding]:
    """Find images of servers for whose bits no host was asked; an upload by a person is theirs to finish."""
    rows = Image.objects.filter(status__in=HALVES, property_rows__name="instance_uuid").order_by("created_at")
    halves = list(rows)  # before the orders: what is made meanwhile has its order
    wanted = _wanted() if halves else set()
    for image in halves:
        if image.id not in wanted and _made_here(image.id):
            sentence = f"It is {image.status}, and no host is asked for its data: it will never be whole."
            yield Finding("warning", f"image {image.id}", sentence, "Delete it.", _remove(image.id), image.status)


def _wanted() -> set[uuid.UUID]:
    bodies = HostCommand.objects.filter(kind="snapshot_request", finished_at=None).values_list("body", flat=True)
    orders = (decode_command_body(body) for body in bodies)
    return {uuid.UUID(order.image_id) for order in orders if isinstance(order, SnapshotRequest)}


def _made_here(image_id: uuid.UUID) -> bool:
    """Say whether the cloud made the record for a server; what a person calls so, or a host says, is none of ours."""
    return InstanceActionEvent.objects.filter(detail__image=str(image_id), host="").exists()


def _remove(image_id: uuid.UUID) -> Mend:
    def mend() -> str | None:
        half = Image.objects.filter(id=image_id, status__in=HALVES).exists()
        if not half or image_id in _wanted() or not remove_image(image_id, unless_ready=True):
            return None
        return "It is deleted."

    return mend
