"""The request context: the identity, project and roles under which a request, a page or a job runs."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace

from provisioning.common.values.ids import NOBODY


def new_request_id() -> str:
    """Return a request id in OpenStack's format, ``req-`` and a UUID."""
    return f"req-{uuid.uuid4()}"


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The caller of selectors and services; objects outside ``project_id`` do not exist for it."""

    user_id: uuid.UUID | None
    user_name: str
    project_id: uuid.UUID | None
    """None for system, domain-scoped and unscoped tokens, which only the Identity API accepts, and for jobs of the
    cloud itself.
    """
    project_name: str = ""
    user_domain_id: str = "default"
    project_domain_id: str = "default"
    domain_id: str | None = None
    """The domain of a domain-scoped token."""
    system: bool = False
    """Whether the token has system scope."""
    roles: frozenset[str] = frozenset()
    """Names of roles with implied roles: ``admin`` implies ``manager``, which implies ``member``, which implies
    ``reader``.
    """
    request_id: str = field(default_factory=new_request_id)
    global_request_id: str | None = None
    audit_id: str = ""
    """The token's audit id; empty for jobs."""
    sign_in_id: uuid.UUID | None = None
    """The session of the token; None without a token."""
    application_credential_id: uuid.UUID | None = None
    unrestricted: bool = True
    """Whether the caller may create and delete application credentials; False for most application credentials."""
    access_rules: tuple[tuple[str, str, str], ...] | None = None
    """Requests that an application credential is limited to, (service, method, path pattern); None: unlimited."""
    trust_id: uuid.UUID | None = None
    """The trust of the token; with impersonation ``user_id`` is the trustor."""
    impersonal: bool = False
    """Whether the context has the caller's rights without the identity (``without_person``)."""

    @property
    def is_delegated(self) -> bool:
        """Whether the caller's rights are delegated by a trust or an application credential."""
        return self.trust_id is not None or self.application_credential_id is not None

    @property
    def is_admin(self) -> bool:
        """Whether the caller is an operator of the cloud; an administrator of a domain is not."""
        return "admin" in self.roles and self.domain_id is None

    def in_project(self, project_id: uuid.UUID) -> RequestContext:
        """Return the same caller in another project, for jobs that continue a user's request."""
        return replace(self, project_id=project_id)

    def without_person(self) -> RequestContext:
        """Return the same rights without the user, for answers that are shared by all users with these rights.

        The results for two contexts that differ only in the user are equal. A policy rule that depends on the user
        raises an error.
        """
        return RequestContext(
            user_id=NOBODY,
            user_name="",
            user_domain_id="",
            project_id=self.project_id,
            project_name=self.project_name,
            project_domain_id=self.project_domain_id,
            domain_id=self.domain_id,
            system=self.system,
            roles=self.roles,
            request_id="",
            unrestricted=self.unrestricted,
            access_rules=self.access_rules,
            impersonal=True,
        )


def cloud_in_project(
    project_id: uuid.UUID,
    user_id: uuid.UUID | None = None,
    request_id: str = "",
    *,
    roles: frozenset[str] = frozenset(),
) -> RequestContext:
    """Return the context in which the cloud itself acts in a project, by default without roles: with the rights of the
    project's members to their own resources. ``user_id``: the user for whom it acts.
    """
    return RequestContext(
        user_id=user_id,
        user_name="novella",
        project_id=project_id,
        roles=roles,
        request_id=request_id or new_request_id(),
    )


def system_context() -> RequestContext:
    """Return the context of the cloud itself, for periodic jobs and commands."""
    return RequestContext(
        user_id=None,
        user_name="novella",
        project_id=None,
        roles=frozenset({"admin", "manager", "member", "reader"}),
        request_id=new_request_id(),
    )
