"""Who asks: the identity, project and roles under which a request, a page or a job runs."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace

from provisioning.common.ids import NOBODY


def new_request_id() -> str:
    """Return a request id in OpenStack's form, ``req-`` and a UUID."""
    return f"req-{uuid.uuid4()}"


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Who asks, for every selector and service near a user; objects outside ``project_id`` do not exist for it."""

    user_id: uuid.UUID | None
    user_name: str
    project_id: uuid.UUID | None
    """None: a token for a domain, for the system or for nothing; it may use identity only."""
    project_name: str = ""
    user_domain_id: str = "default"
    project_domain_id: str = "default"
    domain_id: str | None = None
    """The domain that the token is for."""
    system: bool = False
    """Whether the token is for the whole system."""
    roles: frozenset[str] = frozenset()
    """Names, implied roles included: ``admin`` brings ``manager``, and that ``member``, and that ``reader``."""
    request_id: str = field(default_factory=new_request_id)
    global_request_id: str | None = None
    audit_id: str = ""
    """The token's audit id; empty for jobs."""
    sign_in_id: uuid.UUID | None = None
    """The session that the token belongs to."""
    application_credential_id: uuid.UUID | None = None
    unrestricted: bool = True
    """Whether the caller may make and delete application credentials; False for most application credentials."""
    access_rules: tuple[tuple[str, str, str], ...] | None = None
    """The requests an application credential may make, (service, method, path pattern); None: every one."""
    trust_id: uuid.UUID | None = None
    """The trust that the token was got with; ``user_id`` is whom it speaks for: the trustor when it impersonates."""
    impersonal: bool = False
    """Whether it says what the caller may and not who that is (``without_person``)."""

    @property
    def is_delegated(self) -> bool:
        """Whether somebody gave the caller a part of what they may: a trust or an application credential did."""
        return self.trust_id is not None or self.application_credential_id is not None

    @property
    def is_admin(self) -> bool:
        """Whether the caller operates the cloud; the administrator of a domain does not."""
        return "admin" in self.roles and self.domain_id is None

    def in_project(self, project_id: uuid.UUID) -> RequestContext:
        """The same caller acting in another project; for jobs that carry on a user's request."""
        return replace(self, project_id=project_id)

    def without_person(self) -> RequestContext:
        """The same rights without the person who has them, for what is shown to everybody who has these rights.

        Two contexts that differ in nothing else are equal.  A policy rule that asks for the person refuses an answer.
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


def system_context() -> RequestContext:
    """The cloud itself: periodic jobs and commands."""
    return RequestContext(
        user_id=None,
        user_name="novella",
        project_id=None,
        roles=frozenset({"admin", "manager", "member", "reader"}),
        request_id=new_request_id(),
    )
