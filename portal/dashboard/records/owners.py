"""The owner of a resource on its page, for operators who see all projects."""

import uuid

from provisioning.common.context import RequestContext
from provisioning.identity.selectors.lookups import names_of_projects


def other_project(context: RequestContext, owner: uuid.UUID) -> str:
    """Return the name of the project, or its id after its deletion; empty for the selected project."""
    return "" if owner == context.project_id else names_of_projects([owner]).get(owner, str(owner))
