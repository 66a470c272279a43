"""Paginated lists for administrators, filtered by a part of the name, with the counts that their rows show."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from django.db.models import Count, F, Model, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce
from django.utils import timezone

from provisioning.common.ids import read_id
from provisioning.identity.models import (
    Domain,
    Group,
    GroupMembership,
    ImpliedRole,
    Project,
    Role,
    RoleAssignment,
    User,
)

Record = TypeVar("Record", bound=Model)

PAGE_SIZE = 50
LAST_PAGE = 100_000
SHORT_LIST = 20
"""Number of rows in a list of suggestions."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The filters of a list; an empty text does not filter.

    ``text`` is a part of the name (for users also of the e-mail address) or an id; ``state`` is ``enabled``,
    ``disabled``, or for users ``expired`` (the password has expired).
    """

    text: str = ""
    domain_id: str = ""
    state: str = ""
    page: int = 1
    confined: bool = False
    """Whether the counts of a row only include roles on the domain and its projects."""

    def counted(self, given: QuerySet[RoleAssignment]) -> QuerySet[RoleAssignment]:
        """Return the assignments that are counted."""
        inside = Q(domain=self.domain_id) | Q(project__domain=self.domain_id)
        return given.filter(inside) if self.confined else given


@dataclass(frozen=True, slots=True)
class Found(Generic[Record]):
    """One page of a list; ``total`` is the number of rows of all pages."""

    rows: list[Record]
    total: int
    page: int

    @property
    def pages(self) -> int:
        """Number of pages, at least one."""
        return max(-(-self.total // PAGE_SIZE), 1)

    @property
    def before(self) -> int | None:
        """Number of the previous page, or None."""
        return min(self.page - 1, self.pages) if self.page > 1 else None

    @property
    def after(self) -> int | None:
        """Number of the next page, or None."""
        return self.page + 1 if self.page < self.pages else None


def find_projects(wanted: Wanted) -> Found[Project]:
    """Return projects by name, each with ``members``: the number of users and groups with a direct role on it."""
    found = _narrow(Project.objects.order_by("name", "id"), wanted).select_related("domain")
    return _page(found, wanted, members=_members_of("project", "id"))


def find_users(wanted: Wanted) -> Found[User]:
    """Return users by name, each with ``projects``: the number of projects on which they have a role,
    also by groups.
    """
    found = _narrow(User.objects.order_by("name", "id"), wanted, "email").select_related("domain", "default_project")
    mine = Q(user=OuterRef("id")) | Q(group__groupmembership__user=OuterRef("id"))
    given = wanted.counted(RoleAssignment.objects.filter(mine, project__isnull=False)).annotate(one=Value(1))
    return _page(found, wanted, projects=_count(given, "one", "project"))


def find_groups(wanted: Wanted) -> Found[Group]:
    """Return groups by name, each with the numbers of ``members`` and ``projects``."""
    found = _narrow(Group.objects.order_by("name", "id"), wanted).select_related("domain")
    members = _count(GroupMembership.objects.filter(group=OuterRef("id")), "group", "user")
    given = wanted.counted(RoleAssignment.objects.filter(group=OuterRef("id"), project__isnull=False))
    return _page(found, wanted, members=members, projects=_count(given, "group", "project"))


def find_roles(wanted: Wanted) -> Found[Role]:
    """Return roles by name, global ones first, each with ``assignments``: the number of its assignments.

    Global roles are listed for every domain.
    """
    rows = Role.objects.order_by(F("domain").asc(nulls_first=True), "name", "id")
    if wanted.domain_id:
        rows = rows.filter(_of_cloud_or(wanted.domain_id))
    found = _narrow(rows, replace(wanted, domain_id="")).select_related("domain").prefetch_related("implies__implied")
    given = wanted.counted(RoleAssignment.objects.filter(role=OuterRef("id")))
    return _page(found, wanted, assignments=_count(given, "role", "id"))


def find_domains(wanted: Wanted) -> Found[Domain]:
    """Return domains by name, each with the numbers of ``projects``, ``users`` and ``groups``."""
    kinds: dict[str, Any] = {"projects": Project, "users": User, "groups": Group}
    inside = {name: _count(kind.objects.filter(domain=OuterRef("id")), "domain", "id") for name, kind in kinds.items()}
    rows = Domain.objects.order_by("name")
    if wanted.domain_id:
        rows = rows.filter(id=wanted.domain_id)
    in_no_other = replace(wanted, domain_id="")
    return _page(_narrow(rows, in_no_other), in_no_other, **inside)


def inside(domain: Domain) -> dict[str, int]:
    """Return the numbers of ``projects``, ``users`` and ``groups`` in the domain."""
    kinds: dict[str, type[Project | User | Group]] = {"projects": Project, "users": User, "groups": Group}
    return {name: kind._default_manager.filter(domain=domain).count() for name, kind in kinds.items()}


def users_to_choose(text: str, *, within: str = "", beside: Group | None = None) -> list[User]:
    """Return the first matching users by name; ``within``: in this domain; ``beside``: not in this group."""
    found = _narrow(User.objects.order_by("name", "id"), Wanted(text, within), "email").select_related("domain")
    if beside is not None:
        found = found.exclude(id__in=GroupMembership.objects.filter(group=beside).values("user"))
    return list(found[:SHORT_LIST])


def groups_to_choose(text: str, *, within: str = "") -> list[Group]:
    """Return the first matching groups by name; ``within``: in this domain."""
    found = _narrow(Group.objects.order_by("name", "id"), Wanted(text, within))
    return list(found.select_related("domain")[:SHORT_LIST])


def projects_to_choose(text: str, *, within: str = "") -> list[Project]:
    """Return the first matching projects by name; ``within``: in this domain."""
    found = _narrow(Project.objects.order_by("name", "id"), Wanted(text, within))
    return list(found.select_related("domain")[:SHORT_LIST])


def roles_to_choose(domain: Domain | None = None) -> list[Role]:
    """Return the global roles and those of a domain, by name."""
    return list(Role.objects.filter(_of_cloud_or(domain.id if domain else None)).order_by("name"))


def all_domains(*, within: str = "") -> list[Domain]:
    """Return all domains by name; ``within``: only this one."""
    found = Domain.objects.order_by("name")
    return list(found.filter(id=within) if within else found)


def roles_by_id(ids: Iterable[str]) -> list[Role]:
    """Return the existing roles with these ids, by name; invalid ids are ignored."""
    keys = [key for key in map(read_id, ids) if key]
    return list(Role.objects.filter(id__in=keys).order_by("name"))


def implied_by(role: Role) -> list[Role]:
    """Return the roles that a role implies directly, by name."""
    return list(Role.objects.filter(id__in=ImpliedRole.objects.filter(prior=role).values("implied")).order_by("name"))


def groups_of(user: User, *, within: str = "") -> list[Group]:
    """Return the groups of a user, by name; ``within``: in this domain."""
    found = user.member_of.select_related("domain").order_by("name", "id")
    return list(found.filter(domain=within) if within else found)


def users_in(group: Group, wanted: Wanted) -> Found[User]:
    """Return the users of a group, by name."""
    found = _narrow(User.objects.order_by("name", "id"), wanted, "email").select_related("domain")
    return _page(found.filter(id__in=GroupMembership.objects.filter(group=group).values("user")), wanted)


def tags_of(project: Project) -> list[str]:
    """Return the tags of a project, sorted."""
    return list(project.tags.order_by("name").values_list("name", flat=True))


def _of_cloud_or(domain_id: str | None) -> Q:
    """Match the global roles, and those of a domain."""
    return Q(domain=None) | Q(domain=domain_id.replace("\0", "")) if domain_id else Q(domain=None)


def _narrow(found: QuerySet[Record], wanted: Wanted, *also: str) -> QuerySet[Record]:
    text = wanted.text.replace("\0", "")
    if text:
        matches = Q(name__icontains=text) | Q(id=text if found.model is Domain else read_id(text))
        for column in also:
            matches |= Q(**{f"{column}__icontains": text})
        found = found.filter(matches)
    if wanted.domain_id:
        found = found.filter(domain=wanted.domain_id.replace("\0", ""))
    if wanted.state in {"enabled", "disabled"}:
        found = found.filter(enabled=wanted.state == "enabled")
    elif wanted.state == "expired":
        found = found.filter(password_expires_at__lte=timezone.now())
    return found


def _page(found: QuerySet[Record], wanted: Wanted, **beside: Any) -> Found[Record]:
    """Return one page; the counts are only computed for the rows of that page."""
    page = min(max(wanted.page, 1), LAST_PAGE)
    total = found.count()
    first = (page - 1) * PAGE_SIZE
    return Found(list(found.annotate(**beside)[first : first + PAGE_SIZE]), total, page)


def _count(rows: QuerySet[Any], by: str, what: str) -> Coalesce:
    """Return the SQL expression that counts the distinct values of ``what`` in ``rows``.

    ``rows`` contains only rows that belong to the outer row (OuterRef); the column ``by`` is equal in all of these.
    """
    counted = rows.order_by().values(by).annotate(count=Count(what, distinct=True)).values("count")
    return Coalesce(Subquery(counted), 0)


def _members_of(target: str, key: str) -> Any:
    given = RoleAssignment.objects.filter(**{target: OuterRef(key)}, inherited=False)
    return _count(given, target, "user") + _count(given, target, "group")
