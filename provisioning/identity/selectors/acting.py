"""The current rights of a user, for jobs that continue the user's request."""

import uuid

from provisioning.common.context import RequestContext, new_request_id
from provisioning.identity.models import Project, User
from provisioning.identity.roles import effective


def context_of_user(user_id: uuid.UUID, project_id: uuid.UUID, *, request_id: str = "") -> RequestContext | None:
    """Return the context that a token of the user for the project would have now; None without a role in the project.

    A user, project or domain that is disabled or deleted has no roles.
    """
    roles = effective.role_names(user_id, project_id=project_id)
    user = User.objects.filter(pk=user_id).values_list("name", "domain_id").first()
    project = Project.objects.filter(pk=project_id).values_list("name", "domain_id").first()
    if not roles or user is None or project is None:
        return None
    return RequestContext(
        user_id=user_id,
        user_name=user[0],
        project_id=project_id,
        project_name=project[0],
        user_domain_id=user[1],
        project_domain_id=project[1],
        roles=roles,
        request_id=request_id or new_request_id(),
    )
