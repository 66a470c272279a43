"""Adds images from the catalogue: the record of an image, and the import of its file in the background."""

import uuid

from django.db import transaction
from django.db.models import QuerySet

from provisioning.catalogue.index.entries import Entry
from provisioning.catalogue.models import CatalogueImage
from provisioning.catalogue.selectors import entry_of, is_live
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, ForbiddenError
from provisioning.events import services as events
from provisioning.events.selectors import EVERYBODY
from provisioning.identity import policy
from provisioning.identity.records import owner_locks
from provisioning.images import services as images
from provisioning.images.models import Image
from provisioning.images.services.sources import CATALOGUE

IN_PROGRESS = frozenset({Image.Status.IMPORTING, Image.Status.QUEUED})


def may_publish(context: RequestContext) -> bool:
    """Return whether the caller may add images for all projects."""
    return policy.allows(context, "publicize_image")


def add(context: RequestContext, entry_id: str, *, for_all: bool) -> CatalogueImage:
    """Create an image from an entry, for all projects or for the caller's project, and start its import.

    Two requests for the same version create one image. Raises NotFoundError, ConflictError if the version exists or is
    being fetched, ForbiddenError, ImportUriError, TooLargeError, OverQuotaError.
    """
    entry = entry_of(entry_id)
    if context.project_id is None:
        raise ForbiddenError("An image needs a project to belong to.")
    for rule in ("add_image", "modify_image", *(["publicize_image"] if for_all else [])):
        policy.enforce(context, rule)
    with transaction.atomic():
        owner_locks.lock_project(context.project_id)
        if not for_all:
            _check_absent(entry, CatalogueImage.objects.filter(project_id=None, entry=entry.id, version=entry.version))
        row = _claimed(None if for_all else context.project_id, entry)
        image = images.create(
            context,
            name=entry.name,
            visibility=Image.Visibility.PUBLIC.value if for_all else Image.Visibility.PRIVATE.value,
            disk_format=entry.disk_format,
            container_format="bare",
            min_disk=entry.min_disk,
            min_ram=entry.min_ram,
            properties=entry.image_properties,
        )
        task = images.Import.begin(context, image.id, images.ImportRequest(CATALOGUE, origin=entry.origin))
        row.image, row.task_id, row.fault, row.replaced_at = image, task.id, "", None
        row.save()
        announce(row.project_id, entry.id)
    return row


def _claimed(project_id: uuid.UUID | None, entry: Entry) -> CatalogueImage:
    """Return the locked row of a version. Raises ConflictError if its image exists."""
    row, _ = CatalogueImage.objects.get_or_create(project_id=project_id, entry=entry.id, version=entry.version)
    _check_absent(entry, CatalogueImage.objects.select_for_update(of=("self",)).filter(pk=row.pk))
    return row


def _check_absent(entry: Entry, rows: QuerySet[CatalogueImage]) -> None:
    row = rows.select_related("image").first()
    if row is None or not is_live(row) or row.image is None:
        return
    named = f"{entry.name} {entry.version}"
    where = "for all projects" if row.project_id is None else "to this project"
    if row.image.status in IN_PROGRESS:
        raise ConflictError(f"{named} is already being fetched {where}.")
    raise ConflictError(f"{named} was already added {where}.")


def announce(project_id: uuid.UUID | None, entry: str) -> None:
    """Record in the caller's transaction that the state of an entry changed; ``project_id`` None: for all projects."""
    events.record(EVERYBODY if project_id is None else f"project:{project_id}", "catalogue", {"entry": entry})
