"""Whatever is taken away is gone at the next use of a token: one row for each way."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import time_machine
from django.core.management import CommandError, call_command
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from provisioning.common.errors import NotAuthenticatedError
from provisioning.events.models import Event
from provisioning.identity.encryption import keys
from provisioning.identity.models import RevokedToken, RoleAssignment
from provisioning.identity.selectors.tokens import context_for_token
from provisioning.identity.services.assignments import assign_role
from provisioning.identity.services.passwords import change_password, set_password
from provisioning.identity.services.projects import set_project_enabled
from provisioning.identity.services.tokens import issue_token, revoke_token
from provisioning.identity.services.users import delete_user, revoke_all, set_user_enabled
from provisioning.identity.tokens import tokens
from tests.support.cast import PASSWORD, People, Person
from tests.support.roles import remove_role
from tests.support.tables import each_row

pytestmark = pytest.mark.both_databases


def close_project(alice: Person) -> None:
    set_project_enabled(alice.project, enabled=False)


def reopen_project(alice: Person) -> None:
    close_project(alice)
    set_project_enabled(alice.project, enabled=True)


def lock_out(alice: Person) -> None:
    set_user_enabled(alice.user, enabled=False)


def let_in_again(alice: Person) -> None:
    lock_out(alice)
    set_user_enabled(alice.user, enabled=True)


def close_domain(alice: Person) -> None:
    alice.user.domain.enabled = False
    alice.user.domain.save()


def delete_project(alice: Person) -> None:
    RoleAssignment.objects.filter(project=alice.project).delete()
    alice.user.default_project = None
    alice.user.save()
    alice.project.delete()


def change_password_by_djangos_form(alice: Person) -> None:
    alice.user.set_password("a new one")
    alice.user.save()


WAYS: dict[str, Callable[[Person], None]] = {
    "project closed": close_project,
    "project closed and opened": reopen_project,
    "user locked out": lock_out,
    "user locked out and let in": let_in_again,
    "domain closed": close_domain,
    "role taken away": lambda alice: remove_role(alice.user, alice.project, "member"),
    "password set": lambda alice: set_password(alice.user, "a new one"),
    "password changed": lambda alice: change_password(alice.user.id, PASSWORD, "a new one", source=""),
    "password changed by Django's form": change_password_by_djangos_form,
    "signed out everywhere": lambda alice: revoke_all(alice.user),
    "user deleted": lambda alice: delete_user(alice.user),
    "project deleted": delete_project,
}
OF_THE_PROJECT = {"project closed", "project closed and opened", "role taken away", "project deleted"}


@each_row("way", WAYS)
def test_token_ends(alice: Person, way: str) -> None:
    value = alice.token
    unscoped = issue_token(alice.user, None, ("password",)).value
    assert "member" in context_for_token(value).roles
    WAYS[way](alice)
    with pytest.raises(NotAuthenticatedError):
        context_for_token(value)
    if way in OF_THE_PROJECT:
        assert context_for_token(unscoped).roles == frozenset()
    else:
        with pytest.raises(NotAuthenticatedError):
            context_for_token(unscoped)


@each_row("way", sorted(WAYS.keys() - {"domain closed", "project deleted", "password changed by Django's form"}))
def test_open_connections_are_woken(alice: Person, way: str) -> None:
    WAYS[way](alice)
    last = Event.objects.filter(topic="auth", kind="revoked").last()
    assert last is not None
    assert str(alice.user.pk) == last.payload["user_id"] or str(alice.project.pk) == last.payload["project_id"] or (
        way == "user deleted" and last.payload["user_id"]
    )  # fmt: skip


def test_lesser_role_is_felt_at_once(people: People) -> None:
    alice = people.alice
    assign_role(alice.user, alice.project, "reader")
    value = alice.token
    remove_role(alice.user, alice.project, "member")
    context = context_for_token(value)
    assert context.roles == {"reader"}
    assert "member" not in context.roles


def test_new_sign_in_works_after_a_new_password(alice: Person) -> None:
    set_password(alice.user, "a new one")
    assert context_for_token(alice.token).user_name == "alice"


def test_token_ends_with_its_lifetime(alice: Person, settings: Settings) -> None:
    settings.TOKEN_LIFETIME = 600
    with time_machine.travel(timezone.now(), tick=False) as clock:
        issued = issue_token(alice.user, alice.project, ("password",))
        clock.shift(timedelta(seconds=599))
        child = issue_token(alice.user, alice.project, ("token",), parent=issued.data)
        context_for_token(issued.value)
        context_for_token(child.value)
        clock.shift(timedelta(seconds=1))
        for value in (issued.value, child.value):
            with pytest.raises(NotAuthenticatedError):
                context_for_token(value)


def test_revocations_are_kept_as_long_as_the_tokens_would_have_lasted(alice: Person, settings: Settings) -> None:
    settings.TOKEN_LIFETIME = 600
    with time_machine.travel(timezone.now(), tick=False) as clock:
        revoke_token(issue_token(alice.user, None, ("password",)).data)
        clock.shift(timedelta(seconds=601) + tokens.KEPT_AFTER_END)
        revoke_token(issue_token(alice.user, None, ("password",)).data)
        assert RevokedToken.objects.count() == 1


def test_looking_at_a_token_is_one_query_and_no_write(
    alice: Person, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    scoped, unscoped = alice.token, issue_token(alice.user, None, ("password",)).value
    for value in (scoped, unscoped):
        with django_assert_num_queries(1) as captured:
            context_for_token(value)
        assert captured.captured_queries[0]["sql"].startswith(("SELECT", "WITH RECURSIVE"))


@each_row("position", [0, 20, 60, 120, -1])
def test_altered_token_is_worth_nothing(alice: Person, position: int) -> None:
    value = alice.token
    other = "A" if value[position] != "A" else "B"
    position %= len(value)
    with pytest.raises(NotAuthenticatedError):
        context_for_token(value[:position] + other + value[position + 1 :])


def test_keys_rotate_and_tokens_end_with_theirs(alice: Person, settings: Settings, tmp_path: Path) -> None:
    settings.TOKEN_KEYS_DIR = tmp_path / "keys"
    value = alice.token
    assert [path.name for path in settings.TOKEN_KEYS_DIR.iterdir()] == ["1"]
    assert settings.TOKEN_KEYS_DIR.stat().st_mode & 0o777 == 0o700
    assert (settings.TOKEN_KEYS_DIR / "1").stat().st_mode & 0o777 == 0o600
    assert keys.rotate() == 2
    assert keys.rotate() == 3
    assert context_for_token(value).user_name == "alice"
    assert keys.rotate() == 4
    with pytest.raises(NotAuthenticatedError):
        context_for_token(value)
    assert sorted(path.name for path in settings.TOKEN_KEYS_DIR.iterdir()) == ["2", "3", "4"]


def test_token_shows_nobody_what_is_in_it(alice: Person) -> None:
    value = alice.token
    assert alice.user.id.hex not in value
    assert len(value) < 300
    assert tokens.read(value).user_id == alice.user.id


def test_command_rotates(db: None, settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings.TOKEN_KEYS_DIR = tmp_path
    call_command("rotate_token_keys")
    call_command("rotate_token_keys", "--keep", "1")
    assert [path.name for path in tmp_path.iterdir()] == ["3"]
    assert f"Key 3 in {tmp_path} issues" in capsys.readouterr().out
    with pytest.raises(CommandError):
        call_command("rotate_token_keys", "--keep", "0")
