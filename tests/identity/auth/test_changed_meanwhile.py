"""A password that is changed while a proof of the old one is looked at: the old one opens nothing."""

from __future__ import annotations

import pytest
from django.test import Client

from provisioning.identity.models import SignIn, User
from provisioning.identity.services import passwords, sign_ins
from provisioning.identity.services.passwords import set_password
from provisioning.identity.services.sign_ins import record_client
from tests.identity.bodies import TOKENS, by_password, in_project
from tests.support.cast import PASSWORD, Api, People

pytestmark = pytest.mark.usefixtures("plain_static")
AFTER = "another fine password"


@pytest.fixture
def changed_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first right password is looked at just before another one is set."""
    look, times = passwords._is_right, iter([True])

    def look_slowly(user: User | None, password: str) -> bool:
        right = look(user, password)
        if right and user is not None and next(times, False):
            set_password(User.objects.get(id=user.id), AFTER)
        return right

    monkeypatch.setattr(passwords, "_is_right", look_slowly)


@pytest.mark.usefixtures("changed_meanwhile")
@pytest.mark.parametrize("known", [False, True])
def test_no_token_is_got_with_the_old_one(people: People, known: bool) -> None:
    client = sign_ins.Client.of("127.0.0.1", "")
    if known:
        record_client(people.alice.user, ("password",), client, project=people.alice.project)
    assert Api(None).post(TOKENS, by_password(people.alice, in_project(people.alice))).status_code == 401
    assert not SignIn.objects.exists()
    after = by_password(people.alice, in_project(people.alice), password=AFTER)
    assert Api(None).post(TOKENS, after).status_code == 201


@pytest.mark.usefixtures("changed_meanwhile")
@pytest.mark.parametrize(("path", "field"), [("/auth/login/", "user_name"), ("/admin/login/", "username")])
def test_no_browser_signs_in_with_the_old_one(people: People, path: str, field: str) -> None:
    browser = Client()
    answer = browser.post(path, {field: people.operator.user.name, "password": PASSWORD})
    assert answer.status_code in {200, 401}
    assert not SignIn.objects.exists()
    assert browser.get("/instances/").status_code == 302


def test_a_session_that_came_after_is_not_shared_with_who_proved_the_old_one(people: People) -> None:
    """The same address and program: its row is there again, and not for a proof from before."""
    before = User.objects.get(id=people.alice.user.id)
    set_password(people.alice.user, AFTER)
    client = sign_ins.Client.of("192.0.2.1", "curl")
    now = User.objects.get(id=before.id)
    row = record_client(now, ("password",), client)
    with pytest.raises(passwords.NotAuthenticatedError):
        record_client(before, ("password",), client)
    assert record_client(now, ("password",), client) == row
