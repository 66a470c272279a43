"""The list of role assignments: as stored, or effective assignments with their origin."""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from django.db.models import Q, QuerySet

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
from provisioning.identity.selectors.project_tree import ProjectTree

MOST_ASSIGNMENTS = 10_000
"""Maximum number of rows in one response."""


@dataclass(frozen=True, slots=True)
class AssignmentFilters:
    """The filters of the list; None or False: no filter. All filters must match."""

    user_id: uuid.UUID | None = None
    group_id: uuid.UUID | None = None
    role_id: uuid.UUID | None = None
    project_id: uuid.UUID | None = None
    subtree: bool = False
    """With ``project_id``: include assignments on the projects below that project."""
    top_domain_id: str | None = None
    """With ``subtree``: only assignments on the projects of this domain, which Keystone treats as a project
    above them.
    """
    domain_id: str | None = None
    system: bool = False
    inherited: bool = False
    """Only stored assignments that projects below the target inherit, or effective assignments that were inherited."""
    within_domain_id: str | None = None
    """Only assignments on this domain and its projects; set for domain administrators."""

    @property
    def on_projects(self) -> bool:
        """Whether assignments are restricted to certain projects."""
        return self.project_id is not None or self.top_domain_id is not None


@dataclass(frozen=True, slots=True)
class Assignment:
    """A role of a user or group on a target.

    In stored assignments, ``inherited`` means that the role only applies below its target. In effective assignments,
    ``user_id``, ``role_id`` and the target are the result, ``inherited`` means that the role was inherited from above,
    and the ``given_`` fields are the stored values: the group, target and role. ``prior_role_id`` is the role that
    implies this role.
    """

    role_id: uuid.UUID
    user_id: uuid.UUID | None
    group_id: uuid.UUID | None
    project_id: uuid.UUID | None
    domain_id: str | None
    system: bool
    inherited: bool
    given_role_id: uuid.UUID
    given_group_id: uuid.UUID | None = None
    given_project_id: uuid.UUID | None = None
    given_domain_id: str | None = None
    prior_role_id: uuid.UUID | None = None


def assignments(
    filters: AssignmentFilters, *, effective: bool = False, limit: int = MOST_ASSIGNMENTS
) -> list[Assignment]:
    """Return at most ``limit`` assignments, oldest first, with a constant number of queries.

    ``effective``: groups are replaced by their users and inherited assignments by the projects they apply to, and
    implied roles are added. Domain-specific roles are omitted, because tokens do not contain them.
    """
    if filters.top_domain_id is not None:
        tree = ProjectTree.of_domain(filters.top_domain_id)
        projects = set(tree.parents)
    elif filters.project_id is not None and (filters.subtree or effective):
        tree = ProjectTree.of_domain_of(filters.project_id)
        projects = tree.below(filters.project_id) if filters.subtree else {filters.project_id}
    else:
        tree = ProjectTree.all() if effective else ProjectTree({}, {}, {})
        projects = {filters.project_id} if filters.project_id is not None else set()
    if effective:
        return list(islice(_effective(filters, projects, tree), limit))
    rows = _stored(filters)
    if filters.user_id is not None:
        rows = rows.filter(user=filters.user_id)
    if filters.role_id is not None:
        rows = rows.filter(role=filters.role_id)
    if filters.inherited:
        rows = rows.filter(inherited=True)
    if filters.on_projects:
        rows = rows.filter(project__in=projects)
    if filters.domain_id is not None:
        rows = rows.filter(domain=filters.domain_id)
    return [_as_given(row) for row in rows[:limit]]


def _stored(filters: AssignmentFilters) -> QuerySet[RoleAssignment]:
    """Return the rows, with the filters that apply to stored and effective assignments alike."""
    rows = RoleAssignment.objects.order_by("id")
    if filters.group_id is not None:
        rows = rows.filter(group=filters.group_id)
    if filters.system:
        rows = rows.filter(system=True)
    if filters.within_domain_id is not None:
        rows = rows.filter(Q(domain=filters.within_domain_id) | Q(project__domain=filters.within_domain_id))
    return rows


def _as_given(row: RoleAssignment) -> Assignment:
    return Assignment(
        role_id=row.role_id,
        user_id=row.user_id,
        group_id=row.group_id,
        project_id=row.project_id,
        domain_id=row.domain_id,
        system=row.system,
        inherited=row.inherited,
        given_role_id=row.role_id,
    )


def _effective(filters: AssignmentFilters, projects: set[uuid.UUID], tree: ProjectTree) -> Iterator[Assignment]:
    """Yield effective assignments: users, then targets, then roles are expanded."""
    rows = _stored(filters)
    if filters.user_id is not None:
        mine = GroupMembership.objects.filter(user=filters.user_id).values("group")
        rows = rows.filter(Q(user=filters.user_id) | Q(group__in=mine))
    if filters.on_projects:
        rows = rows.filter(Q(project__in=projects | tree.above(projects)) | Q(domain__in=tree.domains(projects)))
    if filters.domain_id is not None:
        rows = rows.filter(domain=filters.domain_id, inherited=False)
    members = _members(filters)
    closure = _closure()
    requested = _matcher(filters, projects)
    seen: set[Assignment] = set()
    for row in rows.iterator(chunk_size=1000):
        for person in _persons(_as_given(row), members):
            for place in _places(person, tree):
                for each in closure(place):
                    if requested(each) and each not in seen:
                        seen.add(each)
                        yield each


def _matcher(filters: AssignmentFilters, projects: set[uuid.UUID]) -> Callable[[Assignment], bool]:
    def holds(each: Assignment) -> bool:
        return (
            (filters.role_id is None or each.role_id == filters.role_id)
            and (not filters.on_projects or each.project_id in projects)
            and (not filters.inherited or each.inherited)
        )

    return holds


def _persons(assignment: Assignment, members: dict[uuid.UUID, list[uuid.UUID]]) -> Iterator[Assignment]:
    if assignment.group_id is None:
        yield assignment
        return
    for user_id in members.get(assignment.group_id, ()):
        yield replace(assignment, user_id=user_id, group_id=None, given_group_id=assignment.group_id)


def _places(assignment: Assignment, tree: ProjectTree) -> Iterator[Assignment]:
    if not assignment.inherited:
        yield assignment
        return
    if assignment.domain_id is not None:
        reached = tree.in_domain.get(assignment.domain_id, [])
    else:
        reached = sorted(tree.below(assignment.project_id) - {assignment.project_id}) if assignment.project_id else []
    for project_id in reached:
        yield replace(
            assignment,
            project_id=project_id,
            domain_id=None,
            given_project_id=assignment.project_id,
            given_domain_id=assignment.domain_id,
        )


def _closure() -> Callable[[Assignment], Iterator[Assignment]]:
    """Return a function that yields an assignment and the assignments of its implied roles, without domain-specific
    roles.
    """
    implied: dict[uuid.UUID, list[uuid.UUID]] = {}
    for prior, role in ImpliedRole.objects.order_by("id").values_list("prior_id", "implied_id"):
        implied.setdefault(prior, []).append(role)
    of_cloud = set(Role.objects.filter(domain=None).values_list("id", flat=True))

    def expand(assignment: Assignment) -> Iterator[Assignment]:
        waiting, seen = [assignment], {assignment.role_id}
        while waiting:
            each = waiting.pop(0)
            if each.role_id in of_cloud:
                yield each
            for role_id in implied.get(each.role_id, ()):
                if role_id not in seen:
                    seen.add(role_id)
                    waiting.append(replace(each, role_id=role_id, prior_role_id=each.role_id))

    return expand


def _members(filters: AssignmentFilters) -> dict[uuid.UUID, list[uuid.UUID]]:
    rows = GroupMembership.objects.filter(group__in=RoleAssignment.objects.filter(group__isnull=False).values("group"))
    if filters.user_id is not None:
        rows = rows.filter(user=filters.user_id)
    members: dict[uuid.UUID, list[uuid.UUID]] = {}
    for group_id, user_id in rows.order_by("id").values_list("group_id", "user_id"):
        members.setdefault(group_id, []).append(user_id)
    return members


@dataclass(frozen=True, slots=True)
class Names:
    """The records that assignments refer to, by id; users, groups, projects and roles with their domains."""

    roles: dict[uuid.UUID, Role]
    users: dict[uuid.UUID, User]
    groups: dict[uuid.UUID, Group]
    projects: dict[uuid.UUID, Project]
    domains: dict[str, Domain]


def names_of(rows: list[Assignment]) -> Names:
    """Return the records that these assignments refer to, in five queries."""

    def ids(column: str) -> set[uuid.UUID]:
        return {value for each in rows if (value := getattr(each, column)) is not None}

    domains = Domain.objects.in_bulk({each.domain_id for each in rows if each.domain_id is not None})
    return Names(
        roles=Role.objects.select_related("domain").in_bulk(ids("role_id")),
        users=User.objects.select_related("domain").in_bulk(ids("user_id")),
        groups=Group.objects.select_related("domain").in_bulk(ids("group_id")),
        projects=Project.objects.select_related("domain").in_bulk(ids("project_id")),
        domains=domains,
    )
