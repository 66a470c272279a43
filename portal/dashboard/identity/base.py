"""What the pages of this group share: one record and its rule, and lists with a search."""

from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse

from portal.dashboard.pages import Page
from provisioning.common.errors import ForbiddenError, NotFoundError
from provisioning.identity import policy, privilege_escalation
from provisioning.identity.models import Domain, Group, Project, Role, User
from provisioning.identity.selectors import dashboard_lists
from provisioning.identity.selectors.lookups import by_id

Record = TypeVar("Record", Project, User, Group, Role, Domain)
LONGEST_SEARCH = 255


class IdentityPage(Page):
    """Base of these pages: they are there in a project, in a domain, which sees nothing beyond itself, and on the
    system.
    """

    everywhere = True

    @property
    def within(self) -> str:
        """The id of the domain to which everything is narrowed: that of the token; empty: nothing is."""
        return self.context.domain_id or ""

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        """Ask about what is in the domain of the token; what is made elsewhere is asked about again."""
        return {"domain_id": self.context.domain_id}

    def check_domain(self, domain: Domain) -> None:
        """Raise ForbiddenError when policy lets the caller not do in this domain what the page does."""
        policy.enforce(self.context, self.rule, {"domain_id": domain.id})


class OnePage(IdentityPage, Generic[Record]):
    """Base of the pages of one record of a ``kind``, by the id in the address; ``has_page``: it has one of its own.

    What a service refuses, though policy allows it, is said where it was asked.
    """

    kind: ClassVar[str]
    model: type[Record]
    has_page: ClassVar[bool] = True
    _found: Record | None = None

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        """Find the record; where there is none the rule is asked first, so that only who may look learns it."""
        self._found = by_id(self.model, kwargs[f"{self.kind}_id"])
        return target_of(self._found)

    @property
    def record(self) -> Record:
        """The record; NotFoundError without one, ForbiddenError to change who has more power than the caller."""
        found = self._found
        if found is None:
            raise NotFoundError(f"There is no such {self.kind}.")
        if self.request.method == "POST" and isinstance(found, User | Group):
            privilege_escalation.refuse_superior(self.context, found)
        return found

    def forbidden(self, error: ForbiddenError) -> HttpResponse:
        """Return to the page before, with the sentence; to whom policy forbids it, say that."""
        if self.request.method == "POST" and self.allows(self.rule, self.target(**self.kwargs)):
            return self.refused(error)
        return super().forbidden(error)

    def back(self) -> str:
        """Refusals are shown on the page of the record, or on the list when it has none."""
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
    """Base of the pages of one role; ``domain_rule`` is asked instead for a role of a domain."""

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
    """Return the ids that a rule may name of an object; empty for nothing."""
    if record is None:
        return {}
    kind = type(record).__name__.lower()
    return {f"{kind}_id": record.pk, "domain_id": record.pk if isinstance(record, Domain) else record.domain_id}


def wanted_of(
    request: HttpRequest, states: tuple[tuple[str, str], ...] = (), *, within: str = ""
) -> dashboard_lists.Wanted:
    """Read what a list is narrowed to from the address, and to the domain ``within``; the unknown narrows nothing."""
    number = request.GET.get("page", "1")
    state = request.GET.get("state", "")
    return dashboard_lists.Wanted(
        text=search_of(request.GET),
        confined=bool(within),
        domain_id=within or request.GET.get("domain", "").replace("\0", "")[:64],
        state=state if state in dict(states) else "",
        page=int(number) if number.isascii() and number.isdigit() and len(number) < 7 else 1,
    )


def search_of(data: QueryDict) -> str:
    """Return what was typed into a search."""
    return data.get("q", "").replace("\0", "").strip()[:LONGEST_SEARCH]
