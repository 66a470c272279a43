"""Projects."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from provisioning.common.errors import ForbiddenError
from provisioning.common.ids import read_id
from provisioning.identity import announce, selectors
from provisioning.identity.models import Domain, Project, User
from provisioning.identity.safeguard import keeping_an_administrator


def ensure_project(domain: Domain, name: str, *, description: str = "") -> Project:
    """Return the project of this name in the domain, made if absent."""
    return Project.objects.get_or_create(domain=domain, name=name, defaults={"description": description})[0]


def describe_project(project: Project, description: str) -> None:
    """Change what people read about the project."""
    project.description = description
    project.save(update_fields=["description"])


@transaction.atomic
def set_project_enabled(project: Project, *, enabled: bool) -> None:
    """Open the project, or close it and void every token for it; what runs in it goes on."""
    with keeping_an_administrator():
        project.enabled = enabled
        if not enabled:
            project.tokens_valid_after = timezone.now()
        project.save(update_fields=["enabled", "tokens_valid_after"])
    if not enabled:
        announce.revoked(project_id=project.id)


def project_for_sign_in(user: User, project_id: str | None = None) -> Project:
    """Return the project in which a person starts: the one asked for, the user's own default, or the first by name.

    Raises ForbiddenError when the user has no role there, or none anywhere.
    """
    open_to_user = selectors.projects_of(user.id)
    if project_id is not None:
        wanted = read_id(project_id)
        found = next((project for project in open_to_user if project.id == wanted), None)
        if found is None:
            raise ForbiddenError("You have no role on that project.")
        return found
    if not open_to_user:
        raise ForbiddenError("You have no role on any project. Ask an operator for one.")
    own = [project for project in open_to_user if project.id == user.default_project_id]
    return (own or open_to_user)[0]
