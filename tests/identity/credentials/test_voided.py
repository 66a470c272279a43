"""A token of an application credential ends with what it rests on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
import time_machine
from django.utils import timezone

from provisioning.common.errors import NotAuthenticatedError
from provisioning.events.models import Event
from provisioning.identity.models import ApplicationCredential, Group, GroupMembership, Role, RoleAssignment
from provisioning.identity.selectors.credentials import limits_of
from provisioning.identity.selectors.tokens import context_for_token
from provisioning.identity.services.application_credentials import (
    create_application_credential,
    delete_application_credential,
)
from provisioning.identity.services.assignments import assign_role
from provisioning.identity.services.passwords import set_password
from provisioning.identity.services.projects import set_project_enabled
from provisioning.identity.services.roles import ensure_role
from provisioning.identity.services.tokens import issue_token
from provisioning.identity.services.users import delete_user, set_user_enabled
from tests.support.cast import Person, make_user
from tests.support.roles import remove_role
from tests.support.tables import each_row

WAYS: dict[str, Callable[[ApplicationCredential], object]] = {
    "deleted": delete_application_credential,
    "user disabled": lambda record: set_user_enabled(record.user, enabled=False),
    "user deleted": lambda record: delete_user(record.user),
    "project disabled": lambda record: set_project_enabled(record.project, enabled=False),
    "password set": lambda record: set_password(record.user, "a new one"),
    "role lost": lambda record: remove_role(record.user, record.project, "member"),
}


def make(person: Person, *roles: str) -> tuple[ApplicationCredential, str]:
    given = list(Role.objects.filter(name__in=roles)) if roles else None
    record, _ = create_application_credential(person.user, person.project, "robot", roles=given)
    issued = issue_token(person.user, person.project, ("application_credential",), application_credential=record)
    return record, issued.value


@each_row("way", WAYS)
def test_token_ends_and_connections_are_woken(alice: Person, way: str) -> None:
    record, value = make(alice)
    assert "member" in context_for_token(value).roles
    before = Event.objects.filter(topic="auth", kind="revoked").count()
    WAYS[way](record)
    with pytest.raises(NotAuthenticatedError):
        context_for_token(value)
    assert Event.objects.filter(topic="auth", kind="revoked").count() > before


def test_one_lost_role_of_several_voids_it_as_long_as_it_is_missing(alice: Person) -> None:
    assign_role(alice.user, alice.project, "reader")
    assign_role(alice.user, alice.project, "admin")
    _, everything = make(alice)
    remove_role(alice.user, alice.project, "admin")
    with pytest.raises(NotAuthenticatedError):
        context_for_token(everything)
    assign_role(alice.user, alice.project, "admin")
    assert context_for_token(everything).is_admin


def test_lost_role_that_it_has_not_is_nothing_to_it(alice: Person) -> None:
    assign_role(alice.user, alice.project, "reader")
    _, value = make(alice, "reader")
    remove_role(alice.user, alice.project, "member")
    assert context_for_token(value).roles == {"reader"}


def test_new_role_is_not_its_own(alice: Person) -> None:
    _, value = make(alice)
    assign_role(alice.user, alice.project, "admin")
    assert context_for_token(value).roles == {"member", "reader"}


def test_role_of_a_group_counts_and_leaving_the_group_ends_it(alice: Person) -> None:
    user = make_user("dora")
    group = Group.objects.create(domain=user.domain, name="writers")
    RoleAssignment.objects.create(group=group, project=alice.project, role=Role.objects.get(name="member"))
    GroupMembership.objects.create(group=group, user=user)
    _, value = make(Person(user, alice.project))
    assert "member" in context_for_token(value).roles
    GroupMembership.objects.all().delete()
    with pytest.raises(NotAuthenticatedError):
        context_for_token(value)


def test_deleted_role_takes_it_along(alice: Person) -> None:
    special = ensure_role("special")
    assign_role(alice.user, alice.project, "special")
    record, value = make(alice, "special")
    assert context_for_token(value).roles == {"special"}
    special.delete()
    assert not record.roles.exists()
    with pytest.raises(NotAuthenticatedError):
        context_for_token(value)


def test_expired_one_gives_nothing(alice: Person) -> None:
    with time_machine.travel(timezone.now(), tick=False) as clock:
        ends = timezone.now() + timedelta(seconds=60)
        record, _ = create_application_credential(alice.user, alice.project, "robot", expires_at=ends)
        assert limits_of(record.id) is not None
        clock.shift(timedelta(seconds=60))
        assert limits_of(record.id) is None
