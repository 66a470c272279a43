"""Images of servers that are never completed, that are missing, or that are no longer needed."""

import uuid
from collections.abc import Iterator

from compute_agent.contract.commands import SnapshotRequest
from compute_agent.contract.messages import decode_command_body
from provisioning.common.database.prepared import Prepared
from provisioning.compute.disks.snapshot_images import READY, remove_image
from provisioning.compute.models import Instance, InstanceActionEvent
from provisioning.compute.states import VmState
from provisioning.doctor.finding import Finding, Repair, check
from provisioning.doctor.repairs import moment_of, named
from provisioning.hosts.models import HostCommand
from provisioning.images.models import Image

HALVES = (Image.Status.QUEUED, Image.Status.SAVING)


@check("images")
def images() -> Iterator[Finding]:
    """Find incomplete images of servers that no host has a command to complete. Users' incomplete uploads are not
    reported.
    """
    rows = Image.objects.filter(status__in=HALVES, property_rows__name="instance_uuid").order_by("created_at")
    halves = list(rows)  # read before the commands: an image created later has its command
    expected = _needed() if halves else set()
    for image in halves:
        if image.id not in expected and _made_here(image.id):
            sentence = f"It is {image.status}, but no host has a command for its data: it will never be complete."
            yield Finding("warning", f"image {image.id}", sentence, "Delete it.", _remove(image.id), image.status)


def _needed() -> set[uuid.UUID]:
    bodies = HostCommand.objects.filter(kind="snapshot_request", finished_at=None).values_list("body", flat=True)
    commands = (decode_command_body(body) for body in bodies)
    return {
        uuid.UUID(command.image_id) for command in commands if isinstance(command, SnapshotRequest) and command.image_id
    }


def _made_here(image_id: uuid.UUID) -> bool:
    """Return whether the control plane created the image for a server, according to the server's action events."""
    return InstanceActionEvent.objects.filter(detail__image=str(image_id), host="").exists()


def _remove(image_id: uuid.UUID) -> Repair:
    def repair() -> str | None:
        half = Image.objects.filter(id=image_id, status__in=HALVES).exists()
        if not half or image_id in _needed() or not remove_image(image_id, unless_ready=True):
            return None
        return "It was deleted."

    return repair


# ----- images of shelved servers ------------------------------------------------------------------------------------


KEPT_IMAGES = Prepared(
    lambda: Instance.objects.exclude(snapshot_image_id=None).values_list("snapshot_image_id", flat=True)
)
ON_SHELF = Prepared(
    lambda: Instance.objects.filter(vm_state=VmState.SHELVED_OFFLOADED, image_id__isnull=False).order_by("id")
)
"""Offloaded servers, except those that boot from volumes and need no image."""
DELETED = Prepared(
    lambda: Instance.objects.exclude(snapshot_image_id=None).filter(vm_state=VmState.DELETED).order_by("id")
)


@check("shelves")
def shelves() -> Iterator[Finding]:
    """Find offloaded servers without their snapshot image, and snapshot images of deleted servers."""
    images = Image.objects.in_bulk([image_id for image_id in KEPT_IMAGES() if image_id is not None])
    for row in ON_SHELF():
        image = images.get(row.snapshot_image_id) if row.snapshot_image_id else None
        if image is None or image.status not in READY:
            has = "missing" if image is None else image.status
            sentence = f"It is offloaded, but its snapshot image is {has}: it cannot be unshelved."
            yield Finding("warning", named(row), sentence, evidence=(has, moment_of(row)))
    for row in DELETED():
        image = images.get(row.snapshot_image_id) if row.snapshot_image_id else None
        if image is not None and image.status != Image.Status.DELETED and not image.protected:
            sentence = f"It is the snapshot of the shelved server {row.id}, which was deleted."
            yield Finding("warning", f"image {image.id}", sentence, "Delete it.", _remove_kept(image.id), image.status)


def _remove_kept(image_id: uuid.UUID) -> Repair:
    def repair() -> str | None:
        return "It was deleted." if remove_image(image_id) else None

    return repair
