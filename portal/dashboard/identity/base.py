"""Common parts of the identity pages: a record with its policy rule, and lists with a search."""

from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

from django.http import HttpResponse, QueryDict
from django.urls import reverse

from portal.dashboard.frame.pages import Page
from provisioning.common.errors import ForbiddenError, NotFoundError
from provisioning.identity import policy
from provisioning.identity.models import Domain, Group, Project, Role, User
from provisioning.identity.roles import safeguards
from provisioning.identity.selectors.lookups import by_id

Record = TypeVar("Record", Project, User, Group, Role, Domain)
LONGEST_SEARCH = 255


class IdentityPage(Page):
    """Base of the identity pages. They exist with a token for a project, for the system, or for a domain; with a token
    for a domain they show only this domain.
    """

    everywhere = True

    @property
    def within(self) -> str:
        """The id of the domain that the page is limited to, which is the domain of the token; empty for a token without
        a domain.
        """
        return self.context.domain_id or ""

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        """Return the domain of the token; creation in another domain checks the policy again."""
        return {"domain_id": self.context.domain_id}

    def check_domain(self, domain: Domain) -> None:
        """Raise ForbiddenError if the rule of the page does not allow the caller in this domain."""
        policy.enforce(self.context, self.rule, {"domain_id": domain.id})


class OnePage(IdentityPage, Generic[Record]):
    """Base of the pages of one record of a ``kind``, by its id; ``has_page``: whether such records have a page of their
    own.

    Errors of services are shown on the record's page, or on the list if the record has no page.
    """

    kind: ClassVar[str]
    model: type[Record]
    has_page: ClassVar[bool] = True
    _found: Record | None = None

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        """Find the record and return its policy target. The policy is checked before a missing record is reported, so
        that only callers whom the rule allows learn that it is missing.
        """
        self._found = by_id(self.model, kwargs[f"{self.kind}_id"])
        return target_of(self._found)

    @property
    def record(self) -> Record:
        """The record. Raises NotFoundError if it does not exist, and ForbiddenError for changes of a user or group that
        has more rights than the caller.
        """
        result = self._found
        if result is None:
            raise NotFoundError(f"There is no such {self.kind}.")
        if self.request.method == "POST" and isinstance(result, User | Group):
            safeguards.refuse_superior(self.context, result)
        return result

    def forbidden(self, error: ForbiddenError) -> HttpResponse:
        """Return to the previous page with the message, unless the policy forbids the page itself."""
        if self.request.method == "POST" and self.allows(self.rule, self.target(**self.kwargs)):
            return self.refused(error)
        return super().forbidden(error)

    def back(self) -> str:
        """Return the page of the record, or the list if such records have no page."""
        if self._found is not None and self.has_page:
            return reverse(f"dashboard:{self.kind}_page", args=[self._found.pk])
        return reverse(f"dashboard:{self.kind}s")


class ProjectPage(OnePage[Project]):
    """Base of the pages of one project."""

    section = "projects"
    kind = "project"
    model = Project


class UserPage(OnePage[User]):
    """Base of the pages of one user."""

    section = "users"
    kind = "user"
    model = User


class GroupPage(OnePage[Group]):
    """Base of the pages of one group."""

    section = "groups"
    kind = "group"
    model = Group


class RolePage(OnePage[Role]):
    """Base of the pages of one role; for a role that belongs to a domain, ``domain_rule`` is checked instead of
    ``rule``.
    """

    section = "roles"
    kind = "role"
    model = Role
    has_page = False
    domain_rule = ""

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        target = super().target(**kwargs)
        if self.domain_rule and self._found is not None and self._found.domain_id is not None:
            self.rule = self.domain_rule
        return target


class DomainPage(OnePage[Domain]):
    """Base of the pages of one domain."""

    section = "domains"
    kind = "domain"
    model = Domain


def target_of(record: Project | User | Group | Role | Domain | None) -> dict[str, object]:
    """Return the policy target of a record; empty for None."""
    if record is None:
        return {}
    kind = type(record).__name__.lower()
    return {f"{kind}_id": record.pk, "domain_id": record.pk if isinstance(record, Domain) else record.domain_id}


def search_of(data: QueryDict) -> str:
    """Return the text of a search."""
    return data.get("q", "").replace("\0", "").strip()[:LONGEST_SEARCH]
