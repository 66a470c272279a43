"""Lists of domains, projects, users and groups; ``within`` restricts them to a domain."""

import uuid

from django.db.models import Q, QuerySet

from provisioning.common.lists.listing import Part
from provisioning.common.values.ids import read_id
from provisioning.identity.directory.listing import Record, RowPage, find
from provisioning.identity.models import Domain, Group, Project, User
from provisioning.identity.selectors.entries import projects_of


def domains(part: Part, *, within: str | None = None) -> RowPage[Domain]:
    """Return domains; ``within``: only the one with this id."""
    rows = Domain.objects.all()
    return find(rows if within is None else rows.filter(id=within), part)


def projects(
    part: Part, *, within: str | None = None, open_to: uuid.UUID | None = None, parent: str | None = None
) -> RowPage[Project]:
    """Return projects with their tags. ``open_to``: only projects that this user has access to. ``parent``: the
    children of this project or domain.
    """
    rows = _within(Project.objects.prefetch_related("tags"), within)
    if open_to is not None:
        rows = rows.filter(id__in=[project.id for project in projects_of(open_to)])
    if parent is not None:
        above = read_id(parent)
        below = Q(parent=None, domain=parent)
        rows = rows.filter(below | Q(parent=above) if above else below)
    return find(rows, part)


def users(part: Part, *, within: str | None = None, only: uuid.UUID | None = None) -> RowPage[User]:
    """Return users; ``only``: the one with this id."""
    rows = _within(User.objects.all(), within)
    return find(rows if only is None else rows.filter(id=only), part)


def groups(part: Part, *, within: str | None = None) -> RowPage[Group]:
    return find(_within(Group.objects.all(), within), part)


def users_in(group: Group, part: Part, *, within: str | None = None) -> RowPage[User]:
    return find(_within(User.objects.filter(member_of=group), within), part)


def groups_of(user: User, part: Part, *, within: str | None = None) -> RowPage[Group]:
    return find(_within(Group.objects.filter(users=user), within), part)


def _within(rows: QuerySet[Record], domain_id: str | None) -> QuerySet[Record]:
    return rows if domain_id is None else rows.filter(domain=domain_id)
