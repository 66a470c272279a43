"""What the pages of this group share: one object and its rule, lists with a search, and reading what was typed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse

from portal.dashboard.pages import Page
from provisioning.common.errors import ForbiddenError, InvalidInputError, NotFoundError, NovellaError
from provisioning.identity import selectors, superiors
from provisioning.identity.models import Domain, Group, Project, Role, User
from provisioning.identity.selectors import panels

Found = TypeVar("Found")
LONGEST_SEARCH = 255


class ThingPage(Page):
    """Base of the pages of one thing: what a service refuses, though policy allows it, is said where it was asked."""

    def forbidden(self, error: ForbiddenError) -> HttpResponse:
        """Return to the page before, with the sentence; to whom policy forbids it, say that."""
        if self.request.method == "POST" and self.allows(self.rule, self.target(**self.kwargs)):
            return self.refused(error)
        return super().forbidden(error)


class ProjectPage(ThingPage):
    """Base of the pages of one project."""

    section = "projects"
    _project: Project | None = None

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        """Find the project; where there is none the rule is asked first, so that only who may look learns it."""
        self._project = selectors.project_by(project_id=str(kwargs["project_id"]))
        return target_of(self._project)

    @property
    def project(self) -> Project:
        """The project; NotFoundError without one."""
        return existing(self._project, "project")

    def back(self) -> str:
        """Refusals are shown on the project's page."""
        return reverse("dashboard:project_page", args=[self._project.pk]) if self._project else "dashboard:projects"


class UserPage(ThingPage):
    """Base of the pages of one user."""

    section = "users"
    _user: User | None = None

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        """Find the user, as ProjectPage finds its project."""
        self._user = selectors.user_by(user_id=str(kwargs["user_id"]))
        return target_of(self._user)

    @property
    def user(self) -> User:
        """The user; NotFoundError without one, ForbiddenError to change one with more power than the caller."""
        found = existing(self._user, "user")
        if self.request.method == "POST":
            superiors.refuse_superior(self.context, found)
        return found

    def back(self) -> str:
        """Refusals are shown on the user's page."""
        return reverse("dashboard:user_page", args=[self._user.pk]) if self._user else "dashboard:users"


class GroupPage(ThingPage):
    """Base of the pages of one group."""

    section = "groups"
    _group: Group | None = None

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        """Find the group, as ProjectPage finds its project."""
        self._group = panels.group_by(kwargs["group_id"])
        return target_of(self._group)

    @property
    def group(self) -> Group:
        """The group; errors as of ``UserPage.user``."""
        found = existing(self._group, "group")
        if self.request.method == "POST":
            superiors.refuse_superior(self.context, found)
        return found

    def back(self) -> str:
        """Refusals are shown on the group's page."""
        return reverse("dashboard:group_page", args=[self._group.pk]) if self._group else "dashboard:groups"


class RolePage(ThingPage):
    """Base of the pages of one role."""

    section = "roles"
    _role: Role | None = None

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        """Find the role, as ProjectPage finds its project."""
        self._role = panels.role_by(kwargs["role_id"])
        return target_of(self._role)

    @property
    def role(self) -> Role:
        """The role; NotFoundError without one."""
        return existing(self._role, "role")

    def back(self) -> str:
        """Refusals are shown on the list."""
        return "dashboard:roles"


class DomainPage(ThingPage):
    """Base of the pages of one domain."""

    section = "domains"
    _domain: Domain | None = None

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        """Find the domain, as ProjectPage finds its project."""
        self._domain = selectors.domain_by(domain_id=kwargs["domain_id"].replace("\0", "/"))
        return target_of(self._domain)

    @property
    def domain(self) -> Domain:
        """The domain; NotFoundError without one."""
        return existing(self._domain, "domain")

    def back(self) -> str:
        """Refusals are shown on the list."""
        return "dashboard:domains"


def target_of(record: Project | User | Group | Role | Domain | None) -> dict[str, object]:
    """Return the ids that a rule may name of an object; empty for nothing."""
    if record is None:
        return {}
    kind = type(record).__name__.lower()
    return {f"{kind}_id": record.pk, "domain_id": record.pk if isinstance(record, Domain) else record.domain_id}


def existing(record: Found | None, kind: str) -> Found:
    """Return the record, or raise NotFoundError."""
    if record is None:
        raise NotFoundError(f"There is no such {kind}.")
    return record


def errors_of(error: NovellaError, **fields: str) -> dict[str, str]:
    """Return the sentence at its field; ``fields``: the services' names where the form has others."""
    return {fields.get(error.field or "", error.field or "form"): error.message}


def wanted(request: HttpRequest, states: tuple[tuple[str, str], ...] = ()) -> panels.Wanted:
    """Read what a list is narrowed to from the address; what is unknown narrows nothing."""
    number = request.GET.get("page", "1")
    state = request.GET.get("state", "")
    return panels.Wanted(
        text=search_of(request.GET),
        domain_id=request.GET.get("domain", "")[:64],
        state=state if state in dict(states) else "",
        page=int(number) if number.isascii() and number.isdigit() and len(number) < 7 else 1,
    )


def text_of(data: QueryDict, name: str) -> str:
    """Return what was typed into a field; InvalidInputError at the field for what no text can have in it."""
    text = data.get(name, "").strip()
    if "\0" in text:
        raise InvalidInputError(f"The {name} must not have a NUL character in it.", field=name)
    return text


def search_of(data: QueryDict) -> str:
    """Return what was typed into a search."""
    return data.get("q", "").replace("\0", "").strip()[:LONGEST_SEARCH]


def domain_of(data: QueryDict, own: str) -> Domain:
    """Return the domain that was chosen, without a choice one's own; InvalidInputError at ``domain``."""
    found = selectors.domain_by(domain_id=text_of(data, "domain") or own)
    if found is None:
        raise InvalidInputError("There is no such domain.", field="domain")
    return found


def project_of(data: QueryDict, field: str, domain: Domain) -> Project | None:
    """Return the project that was typed, by its id or by its name in the domain; None for nothing typed."""
    typed = text_of(data, field)
    if not typed:
        return None
    found = selectors.project_by(project_id=typed) or selectors.project_by(name=typed, domain_id=domain.id)
    if found is None:
        raise InvalidInputError(f"There is no project {typed[:64]} in the domain {domain.name}.", field=field)
    return found


def words_of(data: QueryDict, name: str) -> list[str]:
    """Return the words that were typed with commas between them."""
    return list(dict.fromkeys(word for word in map(str.strip, text_of(data, name).split(",")) if word))
