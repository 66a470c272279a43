"""What roles come to, against a plain model of it: groups, inheritance, implications, domains' roles, the system."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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
from provisioning.identity.roles import effective, safeguards
from provisioning.identity.selectors.assignment_lists import AssignmentFilters, assignments
from provisioning.identity.selectors.entries import projects_of, roles_of, roles_on_system
from provisioning.identity.selectors.tokens import context_of
from provisioning.identity.services import assignments as granting
from provisioning.identity.services.groups import remove_from_group
from provisioning.identity.services.projects import create_project
from provisioning.identity.services.roles import create_role, imply
from provisioning.identity.services.tokens import issue_token
from tests.identity.grants.conftest import Acme, role_named
from tests.support.cast import People

DOMAINS, USERS, GROUPS, PROJECTS, ROLES = 2, 3, 2, 6, 5
"""How many of each; the first role is ``admin``, the last one is of the first domain."""
Scope = tuple[str, int]
"""``project`` or ``domain`` with its number, or ``system``."""


@dataclass(frozen=True)
class Grant:
    """Numbers; the actor is a user when it is less than USERS, else a group."""

    actor: int
    scope: Scope
    role: int
    inherited: bool


@dataclass(frozen=True)
class Cloud:
    parents: tuple[int | None, ...]
    """Of each project: one before it, or none; every tree is in one domain."""
    members: frozenset[tuple[int, int]]
    """User and group."""
    implied: frozenset[tuple[int, int]]
    """Role and a later one."""
    grants: frozenset[Grant]

    def domain_of(self, project: int) -> int:
        parent = self.parents[project]
        return project % DOMAINS if parent is None else self.domain_of(parent)

    def above(self, project: int) -> Iterator[int]:
        parent = self.parents[project]
        if parent is not None:
            yield parent
            yield from self.above(parent)

    def reaches(self, grant: Grant, scope: Scope) -> bool:
        if not grant.inherited:
            return grant.scope == scope
        if scope[0] != "project":
            return False
        kind, number = grant.scope
        return number == self.domain_of(scope[1]) if kind == "domain" else number in self.above(scope[1])

    def roles(self, user: int, scope: Scope) -> set[str]:
        actors = {user} | {USERS + group for member, group in self.members if member == user}
        result = {each.role for each in self.grants if each.actor in actors and self.reaches(each, scope)}
        for _ in range(ROLES):
            result |= {implied for prior, implied in self.implied if prior in result}
        return {NAMES[role] for role in result if role != ROLES - 1}


NAMES = ["admin", "r1", "r2", "r3", "r4"]
SCOPES: list[Scope] = [
    *(("project", number) for number in range(PROJECTS)),
    *(("domain", number) for number in range(DOMAINS)),
    ("system", 0),
]


@st.composite
def clouds(draw: st.DrawFn) -> Cloud:
    parents = tuple(
        draw(st.one_of(st.none(), st.integers(0, number - 1))) if number else None for number in range(PROJECTS)
    )
    number = st.integers
    members = draw(st.frozensets(st.tuples(number(0, USERS - 1), number(0, GROUPS - 1)), max_size=4))
    pairs = st.tuples(number(0, ROLES - 1), number(0, ROLES - 1)).filter(lambda pair: pair[0] < pair[1])
    implied = draw(st.frozensets(pairs, max_size=4))
    grants = draw(
        st.frozensets(
            st.builds(
                Grant, number(0, USERS + GROUPS - 1), st.sampled_from(SCOPES), number(0, ROLES - 1), st.booleans()
            ).filter(lambda each: not (each.inherited and each.scope[0] == "system")),
            max_size=8,
        )
    )
    return Cloud(parents, members, implied, grants)


class Records:
    """The cloud as records, made with as few statements as may be."""

    def __init__(self, cloud: Cloud) -> None:
        self.domains = [Domain(id=f"d{number}", name=f"d{number}") for number in range(DOMAINS)]
        Domain.objects.bulk_create(self.domains)
        self.projects: list[Project] = []
        for number, parent in enumerate(cloud.parents):
            above = None if parent is None else self.projects[parent]
            self.projects.append(Project(name=f"p{number}", domain=self.domains[cloud.domain_of(number)], parent=above))
        Project.objects.bulk_create(self.projects)
        self.users = [User(name=f"u{number}", domain=self.domains[0]) for number in range(USERS)]
        User.objects.bulk_create(self.users)
        self.groups = [Group(name=f"g{number}", domain=self.domains[1]) for number in range(GROUPS)]
        Group.objects.bulk_create(self.groups)
        GroupMembership.objects.bulk_create(
            GroupMembership(user=self.users[user], group=self.groups[group]) for user, group in cloud.members
        )
        self.roles = [Role(name=name) for name in NAMES]
        self.roles[-1].domain = self.domains[0]
        Role.objects.bulk_create(self.roles)
        ImpliedRole.objects.bulk_create(
            ImpliedRole(prior=self.roles[prior], implied=self.roles[implied]) for prior, implied in cloud.implied
        )
        RoleAssignment.objects.bulk_create(self._assignment(each) for each in cloud.grants)

    def _assignment(self, each: Grant) -> RoleAssignment:
        actor = {"user": self.users[each.actor]} if each.actor < USERS else {"group": self.groups[each.actor - USERS]}
        return RoleAssignment(**actor, **self.target(each.scope), role=self.roles[each.role], inherited=each.inherited)

    def target(self, scope: Scope) -> dict[str, Any]:
        kind, number = scope
        if kind == "system":
            return {"system": True}
        return {"project": self.projects[number]} if kind == "project" else {"domain": self.domains[number]}

    def role_names(self, user: int, scope: Scope) -> frozenset[str]:
        target = {f"{kind}_id": record.id for kind, record in self.target(scope).items() if kind != "system"}
        return effective.role_names(self.users[user].id, **target, system=scope[0] == "system")

    def listed(self, **filters: Any) -> set[tuple[int, Scope, str]]:
        users = {user.id: number for number, user in enumerate(self.users)}
        places: dict[Any, Scope] = {each.id: ("project", number) for number, each in enumerate(self.projects)}
        places |= {each.id: ("domain", number) for number, each in enumerate(self.domains)}
        names = {role.id: role.name for role in self.roles}
        return {
            (users[each.user_id], places.get(each.project_id or each.domain_id, ("system", 0)), names[each.role_id])
            for each in assignments(AssignmentFilters(**filters), effective=True)
            if each.user_id
        }


@pytest.mark.slow
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cloud=clouds())
def test_roles_are_what_the_model_says(cloud: Cloud, db: None) -> None:
    with transaction.atomic():
        records = Records(cloud)
        expected = {
            (user, scope, name) for user in range(USERS) for scope in SCOPES for name in cloud.roles(user, scope)
        }
        result = {
            (user, scope, name) for user in range(USERS) for scope in SCOPES for name in records.role_names(user, scope)
        }
        assert result == expected
        assert records.listed() == expected
        for user in range(USERS):
            open_ones = {each.id for each in projects_of(records.users[user].id)}
            assert open_ones >= {
                records.projects[n].id for who, (kind, n), _ in expected if who == user and kind == "project"
            }
        administers = any(name == "admin" and kind != "domain" for _, (kind, _), name in expected)
        assert safeguards.has_administrator() == administers
        _check_filters(records, cloud, expected)
        transaction.set_rollback(True)


def _check_filters(records: Records, cloud: Cloud, expected: set[tuple[int, Scope, str]]) -> None:
    """Each filter leaves exactly what it says of the whole list."""
    assert records.listed(user_id=records.users[0].id) == {each for each in expected if each[0] == 0}
    assert records.listed(system=True) == {each for each in expected if each[1][0] == "system"}
    assert records.listed(domain_id="d0") == {each for each in expected if each[1] == ("domain", 0)}
    assert records.listed(role_id=records.roles[1].id) == {each for each in expected if each[2] == "r1"}
    for number in (0, PROJECTS - 1):
        project = records.projects[number].id
        assert records.listed(project_id=project) == {each for each in expected if each[1] == ("project", number)}
    below = {number for number in range(PROJECTS) if number == 0 or 0 in cloud.above(number)}
    within = {each for each in expected if each[1][0] == "project" and each[1][1] in below}
    assert records.listed(project_id=records.projects[0].id, subtree=True) == within
    of_domain = {
        each
        for each in expected
        if each[1] == ("domain", 0) or (each[1][0] == "project" and cloud.domain_of(each[1][1]) == 0)
    }
    assert records.listed(within_domain_id="d0") == of_domain


def test_a_deep_tree_hands_roles_down_and_not_up(people: People, acme: Acme) -> None:
    project, chain = acme.forge, [acme.foundry, acme.forge]
    for number in range(2):
        project = create_project(acme.domain, f"level{number}", parent=project)
        chain.append(project)
    granting.grant(role_named("member"), group=acme.staff, project=acme.forge, inherited=True)
    worth = [roles_of(acme.ed.id, each.id) for each in chain]
    assert worth == [frozenset(), frozenset(), frozenset({"member", "reader"}), frozenset({"member", "reader"})]
    assert [each.name for each in projects_of(acme.ed.id)] == ["level0", "level1"]
    remove_from_group(acme.staff, acme.ed)
    assert [roles_of(acme.ed.id, each.id) for each in chain] == [frozenset()] * 4


def test_a_role_on_a_domain_is_worth_nothing_on_its_projects(people: People, acme: Acme) -> None:
    granting.grant(role_named("member"), user=acme.ed, domain=acme.domain)
    assert effective.role_names(acme.ed.id, domain_id="acme") == {"member", "reader"}
    assert roles_of(acme.ed.id, acme.foundry.id) == frozenset()
    granting.grant(role_named("reader"), user=acme.ed, domain=acme.domain, inherited=True)
    assert roles_of(acme.ed.id, acme.foundry.id) == {"reader"}
    assert effective.role_names(acme.ed.id, domain_id="acme") == {"member", "reader"}
    assert roles_on_system(acme.ed.id) == frozenset()


def test_a_domains_role_brings_what_it_implies_and_stands_nowhere_itself(people: People, acme: Acme) -> None:
    smith = create_role("smith", domain=acme.domain)
    granting.grant(smith, user=acme.ed, project=acme.foundry)
    assert roles_of(acme.ed.id, acme.foundry.id) == frozenset()
    imply(smith, role_named("member"))
    assert roles_of(acme.ed.id, acme.foundry.id) == {"member", "reader"}
    context = context_of(issue_token(acme.ed, acme.foundry, ("password",)).data)
    assert context.roles == {"member", "reader"}


@pytest.mark.parametrize("closed", ["user", "user's domain", "project"])
def test_what_is_disabled_gives_no_role(people: People, acme: Acme, closed: str) -> None:
    granting.grant(role_named("member"), user=people.alice.user, project=acme.foundry)
    assert roles_of(people.alice.user_id, acme.foundry.id)
    if closed == "user":
        User.objects.filter(id=people.alice.user_id).update(enabled=False)
    elif closed == "project":
        Project.objects.filter(id=acme.foundry.id).update(enabled=False)
    else:
        Domain.objects.filter(id="default").update(enabled=False)
    assert roles_of(people.alice.user_id, acme.foundry.id) == frozenset()


def test_nobody_has_roles_nowhere(db: None) -> None:
    assert effective.role_names(uuid.uuid4()) == frozenset()
    assert effective.role_names(uuid.uuid4(), project_id=uuid.uuid4()) == frozenset()
