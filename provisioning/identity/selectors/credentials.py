"""Credentials that are visible to their owners and to administrators."""

import uuid

from django.db.models import QuerySet

from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.common.values.ids import read_id
from provisioning.identity.models import Credential, Project
from provisioning.identity.selectors.entries import projects_of
from provisioning.identity.selectors.lookups import by_id

LARGEST = 1000
"""Maximum number of rows in one response."""


def credentials_for(
    context: RequestContext, *, user_id: str | None = None, kind: str | None = None, everybody: bool = False
) -> list[Credential]:
    """Return the caller's credentials, or with ``everybody`` the credentials of all users, filtered by user and
    type.
    """
    found = _visible(context, everybody=everybody)
    if user_id is not None:
        key = read_id(user_id)
        found = found.filter(user=key) if key is not None else found.none()
    if kind is not None:
        found = found.filter(type=kind) if "\0" not in kind else found.none()
    return list(found.order_by("created_at", "id")[:LARGEST])


def ec2_credentials(context: RequestContext) -> QuerySet[Credential]:
    """Return the caller's EC2 credentials in its project, in any order."""
    return _visible(context, everybody=False).filter(type="ec2", project=context.project_id)


def existing_credential(context: RequestContext, credential_id: str, *, everybody: bool = False) -> Credential:
    """Return a credential that is visible to the caller.  Raises NotFoundError."""
    found = None
    if credential_id.isalnum() and credential_id.isascii():
        found = _visible(context, everybody=everybody).filter(id=credential_id).first()
    if found is None:
        raise NotFoundError(f"Could not find credential: {credential_id[:64]}.")
    return found


def project_to_enter(context: RequestContext, user_id: uuid.UUID, project_id: str) -> Project:
    """Return the project if the user has a role there or the token is for it.  Raises NotFoundError."""
    key = read_id(project_id)
    found = next((project for project in projects_of(user_id) if project.id == key), None)
    if found is None and key is not None and context.trust_id is not None and key == context.project_id:
        found = by_id(Project, key)
    if found is None:
        raise NotFoundError(f"Could not find project: {project_id[:64]}.")
    return found


def _visible(context: RequestContext, *, everybody: bool) -> QuerySet[Credential]:
    """Return the credentials that are visible to the caller.

    With the token of an application credential or trust, these are only credentials that were created with it, because
    other blobs could give more rights. With the token of a trust, even an operator does not see credentials of other
    projects.
    """
    found = Credential.objects.select_related("user", "project", "application_credential")
    if not everybody:
        found = found.filter(user=context.user_id)
    if context.application_credential_id is not None and not context.is_admin:
        found = found.filter(application_credential=context.application_credential_id)
    if context.trust_id is not None:
        found = found.filter(project=context.project_id)
        found = found if context.is_admin else found.filter(trust=context.trust_id)
    return found
