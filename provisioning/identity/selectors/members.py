"""Members: users and groups with roles on a project, a domain or the system, and the roles of a user or group."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Unpack

from django.db.models import Q, QuerySet

from provisioning.identity.models import Domain, Group, GroupMembership, Project, Role, RoleAssignment, User
from provisioning.identity.roles.grant_target import Place, Target, columns_of, columns_of_place
from provisioning.identity.selectors.project_tree import parents_of

MOST_MEMBERS = 500
"""Maximum number of rows in one response."""


@dataclass(frozen=True, slots=True)
class RolePath:
    """The path by which a role reaches a target indirectly: through a group, inherited from ``above``, only for the
    projects ``below`` a domain, or a combination.
    """

    role: Role
    group: Group | None
    above: Project | Domain | None
    below: bool = False


@dataclass(slots=True)
class Member:
    """A user or group with its roles on a target.

    The ``own`` roles are assigned on the target. The roles ``handed_down`` are assigned on a domain for its projects.
    Roles of both kinds can be revoked on the target; the ``others`` cannot.
    """

    actor: User | Group
    own: list[Role] = field(default_factory=list)
    handed_down: list[Role] = field(default_factory=list)
    others: list[RolePath] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """``user`` or ``group``."""
        return "group" if isinstance(self.actor, Group) else "user"


def members_of(place: Place) -> list[Member]:
    """Return the users and groups with a role on the target, including the users in these groups: groups first, then by
    name.
    """
    rows = list(_reaching(place).select_related("role", "user__domain", "group__domain", "project", "domain"))
    members: dict[object, Member] = {}
    for row in rows[:MOST_MEMBERS]:
        actor = row.group or row.user
        if actor is not None:
            _note(members.setdefault((type(actor), actor.pk), Member(actor)), row, place, None)
    _add_users_of_groups(members, rows, place)
    return sorted(members.values(), key=lambda member: (member.kind, member.actor.name.casefold()))[:MOST_MEMBERS]


def _add_users_of_groups(members: dict[object, Member], rows: Iterable[RoleAssignment], place: Place) -> None:
    assignments: dict[object, list[RoleAssignment]] = {}
    for row in rows:
        if row.group_id is not None:
            assignments.setdefault(row.group_id, []).append(row)
    inside = GroupMembership.objects.filter(group__in=list(assignments)).select_related("user__domain")
    for membership in inside.order_by("user__name")[:MOST_MEMBERS]:
        member = members.setdefault((User, membership.user_id), Member(membership.user))
        for row in assignments[membership.group_id]:
            _note(member, row, place, row.group)


def _note(member: Member, row: RoleAssignment, place: Place, group: Group | None) -> None:
    below = row.inherited and isinstance(place, Domain)
    if group is None and not row.inherited:
        member.own.append(row.role)
    elif group is None and below:
        member.handed_down.append(row.role)
    else:
        above = (row.domain or row.project) if row.inherited and not below else None
        member.others.append(RolePath(row.role, group, above, below))


def _reaching(place: Place) -> QuerySet[RoleAssignment]:
    reaching = Q(**columns_of_place(place))
    if isinstance(place, Project):
        above = [each.id for each in parents_of(place)]
        reaching = Q(project=place, inherited=False)
        reaching |= Q(inherited=True, domain=place.domain_id) | Q(inherited=True, project__in=above)
    return RoleAssignment.objects.filter(reaching).order_by("role__name", "id")


def own_roles(place: Place, actor: User | Group, *, inherited: bool = False) -> list[Role]:
    """Return the direct roles of a user or group on the target, by name; with ``inherited``, the roles that are
    assigned on the target for the projects below it.
    """
    mine = {"group" if isinstance(actor, Group) else "user": actor}
    assignments = RoleAssignment.objects.filter(**columns_of_place(place), inherited=inherited, **mine)
    return list(Role.objects.filter(id__in=assignments.values("role")).order_by("name"))


def is_in(group: Group, user: User) -> bool:
    return GroupMembership.objects.filter(group=group, user=user).exists()


@dataclass(frozen=True, slots=True)
class Membership:
    """A role of a user or group on ``project`` or ``domain``; if both are None, on the system."""

    role: Role
    project: Project | None
    domain: Domain | None
    inherited: bool
    group: Group | None
    """The group through which a user has the role; None for a direct role, and in the list of a group."""


def memberships_of(actor: User | Group, *, within: str = "") -> list[Membership]:
    """Return the roles of a user, also by groups, or of a group, sorted by target and name; ``within``: on this domain
    and its projects.
    """
    if isinstance(actor, Group):
        mine = Q(group=actor)
    else:
        mine = Q(user=actor) | Q(group__in=GroupMembership.objects.filter(user=actor).values("group"))
    records = RoleAssignment.objects.filter(mine).select_related("role", "project__domain", "domain", "group")
    if within:
        records = records.filter(Q(domain=within) | Q(project__domain=within))
    rows = records.order_by("-system", "domain__name", "project__name", "role__name", "id")[:MOST_MEMBERS]
    seen_by = None if isinstance(actor, Group) else True
    return [
        Membership(row.role, row.project, row.domain, row.inherited, row.group if seen_by else None) for row in rows
    ]


def granted_roles(**target: Unpack[Target]) -> list[Role]:
    """Return the roles that were assigned to this user or group on this target directly, by name."""
    rows = RoleAssignment.objects.filter(**columns_of(**target))
    return list(Role.objects.filter(id__in=rows.values("role")).order_by("name", "id"))


def has_grant(role: Role, **target: Unpack[Target]) -> bool:
    """Return whether this role was assigned directly."""
    return RoleAssignment.objects.filter(role=role, **columns_of(**target)).exists()
