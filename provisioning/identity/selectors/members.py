"""Who has a role on a project and how; where a user or a group has roles."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from django.db.models import Q, QuerySet

from provisioning.identity.models import Domain, Group, GroupMembership, Project, Role, RoleAssignment, User
from provisioning.identity.selectors.trees import parents_of

MOST_MEMBERS = 500
"""Rows of one answer."""


@dataclass(frozen=True, slots=True)
class Way:
    """A role that somebody has on a project in another way than on it oneself: by a group, from above, or both."""

    role: Role
    group: Group | None
    above: Project | Domain | None


@dataclass(slots=True)
class Member:
    """A user or a group with the roles on a project: ``own`` ones are on the project itself and can be taken there."""

    actor: User | Group
    own: list[Role] = field(default_factory=list)
    others: list[Way] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """``user`` or ``group``."""
        return "group" if isinstance(self.actor, Group) else "user"


def members_of(project: Project) -> list[Member]:
    """Return everybody with a role on the project, groups first, then by name; the users of groups among them."""
    rows = list(_reaching(project).select_related("role", "user__domain", "group__domain", "project", "domain"))
    members: dict[object, Member] = {}
    for row in rows[:MOST_MEMBERS]:
        actor = row.group or row.user
        if actor is not None:
            _note(members.setdefault((type(actor), actor.pk), Member(actor)), row, project, None)
    _add_users_of_groups(members, rows, project)
    return sorted(members.values(), key=lambda member: (member.kind, member.actor.name.casefold()))[:MOST_MEMBERS]


def _add_users_of_groups(members: dict[object, Member], rows: Iterable[RoleAssignment], project: Project) -> None:
    given: dict[object, list[RoleAssignment]] = {}
    for row in rows:
        if row.group_id is not None:
            given.setdefault(row.group_id, []).append(row)
    inside = GroupMembership.objects.filter(group__in=list(given)).select_related("user__domain")
    for membership in inside.order_by("user__name")[:MOST_MEMBERS]:
        member = members.setdefault((User, membership.user_id), Member(membership.user))
        for row in given[membership.group_id]:
            _note(member, row, project, row.group)


def _note(member: Member, row: RoleAssignment, project: Project, group: Group | None) -> None:
    if group is None and not row.inherited:
        member.own.append(row.role)
    else:
        member.others.append(Way(row.role, group, (row.domain or row.project) if row.inherited else None))


def _reaching(project: Project) -> QuerySet[RoleAssignment]:
    above = [each.id for each in parents_of(project)]
    return RoleAssignment.objects.filter(
        Q(project=project, inherited=False)
        | Q(inherited=True, domain=project.domain_id)
        | Q(inherited=True, project__in=above)
    ).order_by("role__name", "id")


def own_roles(project: Project, actor: User | Group) -> list[Role]:
    """Return the roles that a user or a group has on the project itself, by name."""
    mine = {"group" if isinstance(actor, Group) else "user": actor}
    given = RoleAssignment.objects.filter(project=project, inherited=False, **mine)
    return list(Role.objects.filter(id__in=given.values("role")).order_by("name"))


def is_in(group: Group, user: User) -> bool:
    return GroupMembership.objects.filter(group=group, user=user).exists()


@dataclass(frozen=True, slots=True)
class Membership:
    """A role of a user or of a group somewhere: on a project, a domain, or (neither) the system."""

    role: Role
    project: Project | None
    domain: Domain | None
    inherited: bool
    group: Group | None
    """By which group a user has it."""


def memberships_of(actor: User | Group) -> list[Membership]:
    """Return the roles of a user, those by groups included, or of a group: by where they are and by name."""
    if isinstance(actor, Group):
        mine = Q(group=actor)
    else:
        mine = Q(user=actor) | Q(group__in=GroupMembership.objects.filter(user=actor).values("group"))
    found = RoleAssignment.objects.filter(mine).select_related("role", "project__domain", "domain", "group")
    rows = found.order_by("-system", "domain__name", "project__name", "role__name", "id")[:MOST_MEMBERS]
    seen_by = None if isinstance(actor, Group) else True
    return [
        Membership(row.role, row.project, row.domain, row.inherited, row.group if seen_by else None) for row in rows
    ]
