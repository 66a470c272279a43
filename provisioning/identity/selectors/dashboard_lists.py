"""Lists for administrators, filtered by a part of the name, with the counts that their rows show."""

from collections.abc import Iterable
from typing import Any, TypeVar

from django.db.models import Count, Model, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce

from provisioning.common.values.ids import read_id
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

SHORT_LIST = 20
"""Number of rows in a list of suggestions."""


def listed_projects(within: str = "") -> QuerySet[Project]:
    """Return all projects, or those of a domain."""
    return _inside(Project.objects.all(), within)


def listed_users(within: str = "") -> QuerySet[User]:
    """Return all users, or those of a domain."""
    return _inside(User.objects.all(), within)


def listed_groups(within: str = "") -> QuerySet[Group]:
    """Return all groups, or those of a domain."""
    return _inside(Group.objects.all(), within)


def listed_roles(within: str = "") -> QuerySet[Role]:
    """Return all roles, or the global ones and those of a domain."""
    return Role.objects.filter(_of_cloud_or(within)) if within else Role.objects.all()


def listed_domains(within: str = "") -> QuerySet[Domain]:
    """Return all domains, or only this one."""
    return Domain.objects.filter(id=within) if within else Domain.objects.all()


def members_of_project() -> Any:
    """Return the expression for the number of users and groups with a direct role on a project."""
    return _members_of("project", "id")


def projects_of_user(within: str = "") -> Coalesce:
    """Return the expression for the number of projects on which a user has a role, also by groups; ``within``: of this
    domain.
    """
    mine = Q(user=OuterRef("id")) | Q(group__groupmembership__user=OuterRef("id"))
    assignments = _assignments(RoleAssignment.objects.filter(mine, project__isnull=False), within).annotate(
        one=Value(1)
    )
    return _count(assignments, "one", "project")


def users_of_group() -> Coalesce:
    """Return the expression for the number of users of a group."""
    return _count(GroupMembership.objects.filter(group=OuterRef("id")), "group", "user")


def projects_of_group(within: str = "") -> Coalesce:
    """Return the expression for the number of projects on which a group has a role; ``within``: of this domain."""
    assignments = RoleAssignment.objects.filter(group=OuterRef("id"), project__isnull=False)
    return _count(_assignments(assignments, within), "group", "project")


def assignments_of_role(within: str = "") -> Coalesce:
    """Return the expression for the number of assignments of a role; ``within``: in this domain."""
    return _count(_assignments(RoleAssignment.objects.filter(role=OuterRef("id")), within), "role", "id")


def in_domain(kind: type[Project | User | Group]) -> Coalesce:
    """Return the expression for the number of records of a kind in a domain."""
    return _count(kind._default_manager.filter(domain=OuterRef("id")), "domain", "id")


def _inside(rows: QuerySet[Record], within: str) -> QuerySet[Record]:
    return rows.filter(domain=within) if within else rows


def _assignments(assignments: QuerySet[RoleAssignment], within: str) -> QuerySet[RoleAssignment]:
    """Return the assignments on a domain and its projects, or all of them."""
    return assignments.filter(Q(domain=within) | Q(project__domain=within)) if within else assignments


def inside(domain: Domain) -> dict[str, int]:
    """Return the numbers of ``projects``, ``users`` and ``groups`` in the domain."""
    kinds: dict[str, type[Project | User | Group]] = {"projects": Project, "users": User, "groups": Group}
    return {name: kind._default_manager.filter(domain=domain).count() for name, kind in kinds.items()}


def users_to_choose(text: str, *, within: str = "", beside: Group | None = None) -> list[User]:
    """Return the first matching users by name; ``within``: in this domain; ``beside``: not in this group."""
    rows = _narrow(User.objects.order_by("name", "id"), text, "email", within=within).select_related("domain")
    if beside is not None:
        rows = rows.exclude(id__in=GroupMembership.objects.filter(group=beside).values("user"))
    return list(rows[:SHORT_LIST])


def groups_to_choose(text: str, *, within: str = "") -> list[Group]:
    """Return the first matching groups by name; ``within``: in this domain."""
    groups = _narrow(Group.objects.order_by("name", "id"), text, within=within)
    return list(groups.select_related("domain")[:SHORT_LIST])


def projects_to_choose(text: str, *, within: str = "") -> list[Project]:
    """Return the first matching projects by name; ``within``: in this domain."""
    projects = _narrow(Project.objects.order_by("name", "id"), text, within=within)
    return list(projects.select_related("domain")[:SHORT_LIST])


def roles_to_choose(domain: Domain | None = None) -> list[Role]:
    """Return the global roles and those of a domain, by name."""
    return list(Role.objects.filter(_of_cloud_or(domain.id if domain else None)).order_by("name"))


def all_domains(*, within: str = "") -> list[Domain]:
    """Return all domains by name; ``within``: only this one."""
    rows = Domain.objects.order_by("name")
    return list(rows.filter(id=within) if within else rows)


def roles_by_id(ids: Iterable[str]) -> list[Role]:
    """Return the existing roles with these ids, by name; invalid ids are ignored."""
    keys = [key for key in map(read_id, ids) if key]
    return list(Role.objects.filter(id__in=keys).order_by("name"))


def implied_by(role: Role) -> list[Role]:
    """Return the roles that a role implies directly, by name."""
    return list(Role.objects.filter(id__in=ImpliedRole.objects.filter(prior=role).values("implied")).order_by("name"))


def groups_of(user: User, *, within: str = "") -> list[Group]:
    """Return the groups of a user, by name; ``within``: in this domain."""
    rows = user.member_of.select_related("domain").order_by("name", "id")
    return list(rows.filter(domain=within) if within else rows)


def users_in(group: Group, *, within: str = "") -> QuerySet[User]:
    """Return the users of a group; ``within``: in this domain."""
    return listed_users(within).filter(id__in=GroupMembership.objects.filter(group=group).values("user"))


def tags_of(project: Project) -> list[str]:
    """Return the tags of a project, sorted."""
    return list(project.tags.order_by("name").values_list("name", flat=True))


def _of_cloud_or(domain_id: str | None) -> Q:
    """Match the global roles, and those of a domain."""
    return Q(domain=None) | Q(domain=domain_id.replace("\0", "")) if domain_id else Q(domain=None)


def _narrow(rows: QuerySet[Record], text: str, *also: str, within: str = "") -> QuerySet[Record]:
    """Return the records whose name or a column in ``also`` contains the text, or whose id equals it; an empty text
    does not filter.
    """
    text = text.replace("\0", "")
    if text:
        matches = Q(name__icontains=text) | Q(id=text if rows.model is Domain else read_id(text))
        for column in also:
            matches |= Q(**{f"{column}__icontains": text})
        rows = rows.filter(matches)
    return _inside(rows, within.replace("\0", ""))


def _count(rows: QuerySet[Any], by: str, what: str) -> Coalesce:
    """Return the SQL expression that counts the distinct values of ``what`` in ``rows``.

    ``rows`` contains only rows that belong to the outer row (OuterRef); the column ``by`` is equal in all of these.
    """
    counted = rows.order_by().values(by).annotate(count=Count(what, distinct=True)).values("count")
    return Coalesce(Subquery(counted), 0)


def _members_of(target: str, key: str) -> Any:
    assignments = RoleAssignment.objects.filter(**{target: OuterRef(key)}, inherited=False)
    return _count(assignments, target, "user") + _count(assignments, target, "group")
