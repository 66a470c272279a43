"""The scopes that are available with a token: all scopes of its user, unless it is bound to one project."""

from django.db.models import prefetch_related_objects

from provisioning.common.context import RequestContext
from provisioning.identity.models import Domain, Project
from provisioning.identity.selectors.entries import domains_of, projects_of, roles_on_system


def projects_open_to(context: RequestContext) -> list[Project]:
    """Return the projects with their tags, by name; for an application credential or trust, only its own project."""
    result: list[Project] = []
    if context.is_delegated and context.project_id is not None:
        result = list(Project.objects.filter(id=context.project_id).select_related("domain"))
    elif context.user_id is not None and not context.is_delegated:
        result = projects_of(context.user_id)
    prefetch_related_objects(result, "tags")
    return result


def domains_open_to(context: RequestContext) -> list[Domain]:
    """Return the domains, by name."""
    if context.user_id is None or context.is_delegated:
        return []
    return domains_of(context.user_id)


def may_enter_system(context: RequestContext) -> bool:
    """Return whether a system token can be issued."""
    if context.user_id is None or context.is_delegated:
        return False
    return bool(roles_on_system(context.user_id))
