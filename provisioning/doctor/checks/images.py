"""Images of servers that nobody finishes, that are missing, or that nobody needs any more."""

import uuid
from collections.abc import Iterator

from compute_agent.contract.commands import SnapshotRequest
from compute_agent.contract.messages import decode_command_body
from provisioning.common.prepared import Prepared
from provisioning.compute.models import Instance, InstanceActionEvent
from provisioning.compute.snapshot_images import READY, remove_image
from provisioning.compute.states import VmState
from provisioning.doctor.finding import Finding, Mend, check
from provisioning.doctor.repairs import moment_of, named
from provisioning.hosts.models import HostCommand
from provisioning.images.models import Image

HALVES = (Image.Status.QUEUED, Image.Status.SAVING)


@check("images")
def images() -> Iterator[Finding]:
    """Find images of servers for whose bits no host was asked; an upload by a person is theirs to finish."""
    rows = Image.objects.filter(status__in=HALVES, property_rows__name="instance_uuid").order_by("created_at")
    halves = list(rows)  # before the commands: what is made meanwhile has its command
    wanted = _wanted() if halves else set()
    for image in halves:
        if image.id not in wanted and _made_here(image.id):
            sentence = f"It is {image.status}, and no host is asked for its data: it will never be whole."
            yield Finding("warning", f"image {image.id}", sentence, "Delete it.", _remove(image.id), image.status)


def _wanted() -> set[uuid.UUID]:
    bodies = HostCommand.objects.filter(kind="snapshot_request", finished_at=None).values_list("body", flat=True)
    commands = (decode_command_body(body) for body in bodies)
    return {uuid.UUID(command.image_id) for command in commands if isinstance(command, SnapshotRequest)}


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


# ----- what shelved servers come back from ----------------------------------------------------------------------------


KEPT_IMAGES = Prepared(
    lambda: Instance.objects.exclude(snapshot_image_id=None).values_list("snapshot_image_id", flat=True)
)
ON_SHELF = Prepared(
    lambda: Instance.objects.filter(vm_state=VmState.SHELVED_OFFLOADED, image_id__isnull=False).order_by("id")
)
"""But for those that boot from volumes, which need no image."""
DELETED = Prepared(
    lambda: Instance.objects.exclude(snapshot_image_id=None).filter(vm_state=VmState.DELETED).order_by("id")
)


@check("shelves")
def shelves() -> Iterator[Finding]:
    """Find servers on their shelf without the image they come back from, and such images of deleted servers."""
    images = Image.objects.in_bulk([image_id for image_id in KEPT_IMAGES() if image_id is not None])
    for row in ON_SHELF():
        image = images.get(row.snapshot_image_id) if row.snapshot_image_id else None
        if image is None or image.status not in READY:
            has = "not there" if image is None else image.status
            sentence = f"It is on its shelf, and the image it comes back from is {has}: it cannot be unshelved."
            yield Finding("warning", named(row), sentence, evidence=(has, moment_of(row)))
    for row in DELETED():
        image = images.get(row.snapshot_image_id) if row.snapshot_image_id else None
        if image is not None and image.status != Image.Status.DELETED and not image.protected:
            sentence = f"It was kept for the server {row.id} to come back from, which is deleted."
            yield Finding("warning", f"image {image.id}", sentence, "Delete it.", _remove_kept(image.id), image.status)


def _remove_kept(image_id: uuid.UUID) -> Mend:
    def mend() -> str | None:
        return "It is deleted." if remove_image(image_id) else None

    return mend
