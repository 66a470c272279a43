"""Queries of leases, launch templates and snippets."""

import uuid
from collections.abc import Collection

from django.db.models import Q, QuerySet

from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.common.ids import NOBODY, read_id
from provisioning.launches.models import InstanceLease, LaunchTemplate, LaunchTemplateVersion, Snippet


def lease_of(instance_id: uuid.UUID) -> InstanceLease | None:
    return InstanceLease.objects.filter(instance_id=instance_id).first()


def leases_of(instance_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, InstanceLease]:
    return InstanceLease.objects.in_bulk(list(instance_ids))


def templates_for(context: RequestContext) -> QuerySet[LaunchTemplate]:
    """Return the project's launch templates and the public ones."""
    return LaunchTemplate.objects.filter(Q(project_id=context.project_id or NOBODY) | Q(public=True))


def template_for(context: RequestContext, template_id: uuid.UUID | str) -> LaunchTemplate:
    """Return a visible launch template. Raises NotFoundError."""
    key = read_id(str(template_id))
    found = templates_for(context).filter(pk=key).first() if key else None
    if found is None:
        raise NotFoundError("The launch template does not exist.")
    return found


def template_with_slug(context: RequestContext, slug: str) -> LaunchTemplate:
    """Return the project's launch template with this link, otherwise the public one. Raises NotFoundError."""
    rows = templates_for(context).filter(slug=slug)
    found = next(iter(sorted(rows, key=lambda row: row.project_id != context.project_id)), None)
    if found is None:
        raise NotFoundError("The launch template does not exist.")
    return found


def own_template_for(context: RequestContext, template_id: uuid.UUID | str) -> LaunchTemplate:
    """Return a launch template of the caller's project. Raises NotFoundError."""
    found = template_for(context, template_id)
    if found.project_id != context.project_id:
        raise NotFoundError("The launch template does not exist in this project.")
    return found


def version_of(template: LaunchTemplate, number: int | None = None) -> LaunchTemplateVersion:
    """Return a version, the default one for None. Raises NotFoundError."""
    found = template.versions.filter(number=template.default_version if number is None else number).first()
    if found is None:
        raise NotFoundError("The launch template does not have this version.")
    return found


def snippets_for(context: RequestContext) -> QuerySet[Snippet]:
    """Return the project's snippets, by name."""
    return Snippet.objects.filter(project_id=context.project_id or NOBODY).order_by("name")


def snippet_for(context: RequestContext, snippet_id: uuid.UUID | str) -> Snippet:
    """Return a snippet of the project. Raises NotFoundError."""
    key = read_id(str(snippet_id))
    found = snippets_for(context).filter(pk=key).first() if key else None
    if found is None:
        raise NotFoundError("The snippet does not exist.")
    return found
