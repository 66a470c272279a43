"""Projects."""

from collections.abc import Collection
from typing import Any, TypedDict, Unpack

from django.db import transaction
from django.utils import timezone

from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError, ForbiddenError, InvalidInputError, NotFoundError
from provisioning.identity.models import SHORT, Domain, Project, ProjectTag
from provisioning.identity.records import owner_locks, project_resources
from provisioning.identity.roles.safeguards import keeping_an_administrator
from provisioning.identity.selectors.project_tree import parents_of
from provisioning.identity.services.checks import (
    MOST_TAGS,
    changed,
    check_name,
    check_tags,
    check_text,
    checked,
    merged,
    one_of_its_name,
    refuse_immutable,
    store,
    undisturbed,
)
from provisioning.identity.tokens import announce

DEEPEST = 5
"""Maximum depth of project trees, as in Keystone."""


class ProjectChanges(TypedDict, total=False):
    """The updatable fields; ``extra`` is merged, and None in it removes a field; ``tags`` replace all tags."""

    name: str
    description: str
    enabled: bool
    tags: Collection[str]
    extra: dict[str, Any]


def ensure_project(domain: Domain, name: str, *, description: str = "") -> Project:
    """Return the project with this name in the domain, created if missing."""
    return Project.objects.get_or_create(domain=domain, name=name, defaults={"description": description})[0]


@when_broken_off
def create_project(
    domain: Domain,
    name: str,
    *,
    parent: Project | None = None,
    description: str = "",
    enabled: bool = True,
    tags: Collection[str] = (),
    extra: dict[str, Any] | None = None,
) -> Project:
    """Create a project below ``parent``, or at the top level of the domain.

    Raises InvalidInputError for an invalid field, ConflictError if the name exists in the domain, ForbiddenError below
    a disabled project or at the maximum depth.
    """
    project = Project(
        domain=domain,
        parent=parent,
        name=check_name(name, SHORT),
        description=check_text(description),
        enabled=enabled,
        extra=merged({}, extra),
    )
    words = check_tags(tags)
    with one_of_its_name(Project, domain=domain, name=name):
        if parent is not None:
            _check_parent(domain, parent)
        project.save(force_insert=True)
        ProjectTag.objects.bulk_create(ProjectTag(project=project, name=word) for word in words)
    return project


def _check_parent(domain: Domain, parent: Project) -> None:
    if parent.domain_id != domain.id:
        raise InvalidInputError("The parent must be in the same domain as the project.", field="parent_id")
    lineage = [parent, *parents_of(parent)]
    if len(lineage) >= DEEPEST:
        raise ForbiddenError(f"Project trees can have at most {DEEPEST} levels.")
    if not all(each.enabled for each in lineage):
        raise ForbiddenError("Cannot create a project below one that is disabled.")


@when_broken_off
def update_project(project: Project, **changes: Unpack[ProjectChanges]) -> None:
    """Update a project.  Raises the errors of ``create_project`` and ``set_project_enabled``."""
    refuse_immutable(project, changes)
    with changed(project, changes, checked(changes)):
        if "tags" in changes:
            set_tags(project, changes["tags"])
        if "enabled" in changes:
            set_project_enabled(project, enabled=changes["enabled"])


@when_broken_off
@transaction.atomic
def set_project_enabled(project: Project, *, enabled: bool) -> None:
    """Enable or disable a project. Disabling invalidates its tokens; running servers are not affected.

    Raises ForbiddenError if a disabled project would have enabled children or an enabled project a disabled parent, or
    if the cloud would lose its last administrator.
    """
    if enabled and not all(each.enabled for each in parents_of(project)):
        raise ForbiddenError("Cannot enable a project below one that is disabled. Enable that first.")
    if not enabled and project.children.filter(enabled=True).exists():
        raise ForbiddenError("Cannot disable a project above enabled ones. Disable those first.")
    with keeping_an_administrator():
        store(project, {"enabled": enabled} if enabled else {"enabled": False, "tokens_valid_after": timezone.now()})
    if not enabled:
        announce.revoked(project_id=project.id)


@when_broken_off
def delete_project(project: Project) -> None:
    """Delete a project with its role assignments.  Raises ConflictError with a list of its resources or children."""
    refuse_immutable(project)
    project_id = project.id
    with undisturbed("project"), keeping_an_administrator():
        owner_locks.lock_project(project_id)
        if project.children.exists():
            raise ConflictError(f"The project {project.name} has child projects. Delete them first.")
        project_resources.refuse_owners(
            [project_id], f"The project {project.name}", hint=f"openstack project cleanup --project {project_id.hex}"
        )
        project_resources.remove_with_projects([project_id])
        Project.objects.filter(id=project_id).delete()
        announce.revoked(project_id=project_id)


@transaction.atomic
def set_tags(project: Project, names: Collection[str]) -> None:
    """Replace the tags of the project.  Raises InvalidInputError."""
    words = check_tags(names)
    refuse_immutable(project, {})
    project.tags.exclude(name__in=words).delete()
    ProjectTag.objects.bulk_create((ProjectTag(project=project, name=word) for word in words), ignore_conflicts=True)


@transaction.atomic
def add_tag(project: Project, name: str) -> None:
    """Add a tag to the project; an existing tag is ignored.

    Raises InvalidInputError if the tag is invalid, or there are too many.
    """
    check_tags([name])
    refuse_immutable(project, {})
    ProjectTag.objects.bulk_create([ProjectTag(project=project, name=name)], ignore_conflicts=True)
    if project.tags.count() > MOST_TAGS:
        raise InvalidInputError(f"A project can have at most {MOST_TAGS} tags.", field="tags")


def remove_tag(project: Project, name: str) -> None:
    """Remove a tag.  Raises NotFoundError if the project does not have it."""
    refuse_immutable(project, {})
    if "\0" in name or not project.tags.filter(name=name).delete()[0]:
        raise NotFoundError(f"Could not find project tag: {name[:64]}.")
