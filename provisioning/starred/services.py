"""Starred resources: add, remove and list them."""

import uuid

from django.db import transaction
from django.db.models import UUIDField

from provisioning.common.context import RequestContext
from provisioning.common.database.prepared import Prepared
from provisioning.common.errors import ConflictError, ForbiddenError
from provisioning.common.values.ids import NOBODY
from provisioning.identity.records import owner_locks
from provisioning.identity.records.project_resources import Owned
from provisioning.search import find
from provisioning.starred.models import Star

MOST = 30
"""Maximum number of starred resources of a user in a project."""


def star(context: RequestContext, kind: str, resource_id: uuid.UUID) -> Star:
    """Star a resource. A starred one gets its present name.

    Raises NotFoundError if the caller does not see the resource, ConflictError if the maximum number is reached.
    """
    if context.user_id is None or context.project_id is None:
        raise ForbiddenError("Resources are starred by a user in a project.")
    hit = find.one(context, kind, str(resource_id))
    with transaction.atomic():
        owner_locks.lock_user(context.user_id)
        mine = Star.objects.filter(user_id=context.user_id, project_id=context.project_id)
        others = mine.exclude(kind=kind, resource_id=resource_id)
        if others.count() >= MOST:
            raise ConflictError(f"{MOST} resources are starred. Remove the star of another one first.")
        row, _ = Star.objects.update_or_create(
            user_id=context.user_id,
            project_id=context.project_id,
            kind=kind,
            resource_id=resource_id,
            defaults={"name": hit.name[:255]},
        )
    return row


def unstar(context: RequestContext, kind: str, resource_id: uuid.UUID) -> None:
    """Remove a star. No effect if the resource has no star; the resource may be deleted."""
    Star.objects.filter(
        user_id=context.user_id or NOBODY,
        project_id=context.project_id or NOBODY,
        kind=kind,
        resource_id=resource_id,
    ).delete()


def stars_for(context: RequestContext) -> list[Star]:
    """Return the caller's starred resources in the project, by name; one query."""
    if context.user_id is None or context.project_id is None:
        return []
    rows = _STARS(user_id=context.user_id, project_id=context.project_id)
    return sorted(rows, key=lambda row: (row.name.lower(), row.pk))


_STARS = Prepared(
    lambda user_id, project_id: Star.objects.filter(user_id=user_id, project_id=project_id),
    user_id=UUIDField(),
    project_id=UUIDField(),
)
OF_PROJECTS = (Owned("stars", remove=lambda ids: Star.objects.filter(project_id__in=ids).delete()),)
OF_USERS = (Owned("stars", remove=lambda ids: Star.objects.filter(user_id__in=ids).delete()),)
UNLIMITED = {"starred.Star": "At most thirty for each user and project."}
UNPURGED = {"starred.Star": "Bounded for each user and project, and deleted with them."}
