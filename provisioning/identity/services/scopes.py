"""The scope of a dashboard session: a project, a domain, or the system."""

from provisioning.common.errors import ForbiddenError
from provisioning.common.values.ids import read_id
from provisioning.identity.models import Domain, Project, User
from provisioning.identity.selectors.entries import domains_of, entries_of, projects_of, roles_on_system
from provisioning.identity.tokens.tokens import Scope


def scope_for_sign_in(user: User, project_id: str | None = None) -> Scope:
    """Return the initial scope: the requested project, the user's default project, or the first by name.

    For a user without projects: their own domain, the first domain by name, or the system. Raises ForbiddenError if
    the user has no role on the requested project, or no role at all.
    """
    if project_id is not None:
        return project_to_enter(user, project_id)
    entries = entries_of(user.id)
    for found, first in ((entries.projects, user.default_project_id), (entries.domains, user.domain_id)):
        if found:
            return next((each for each in found if each.id == first), found[0])
    if entries.system:
        return "system"
    raise ForbiddenError("You have no role on any project, domain or the system. Ask an operator.")


def project_to_enter(user: User, project_id: str) -> Project:
    """Return the project.  Raises ForbiddenError if the user has no role there or it is disabled."""
    requested = read_id(project_id)
    found = next((project for project in projects_of(user.id) if project.id == requested), None)
    if found is None:
        raise ForbiddenError("You have no role on that project.")
    return found


def domain_to_enter(user: User, domain_id: str) -> Domain:
    """Return the domain.  Raises ForbiddenError if the user has no role on the domain itself or it is disabled."""
    found = next((domain for domain in domains_of(user.id) if domain.id == domain_id), None)
    if found is None:
        raise ForbiddenError("You have no role on that domain.")
    return found


def system_to_enter(user: User) -> Scope:
    """Return the system scope.  Raises ForbiddenError if the user has no role on the system."""
    if not roles_on_system(user.id):
        raise ForbiddenError("You have no role on the system.")
    return "system"
