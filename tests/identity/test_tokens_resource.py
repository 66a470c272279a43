"""``GET``, ``HEAD`` and ``DELETE /v3/auth/tokens``: one's own, and others' for operators only."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.identity.models import Role
from provisioning.identity.services.assignments import grant
from provisioning.identity.services.tokens import issue_token
from tests.identity.bodies import TOKENS, by_password, by_token, in_project
from tests.support.cast import Api, People, Person, make_user
from tests.support.tables import each_row


def headers(value: str) -> dict[str, str]:
    return {"X_Subject_Token": value}


def test_own_token_reads_as_it_was_issued(people: People) -> None:
    issued = Api(None).post(TOKENS, by_password(people.alice, in_project(people.alice)))
    value = issued["X-Subject-Token"]
    shown = Api(None).get(TOKENS, X_Auth_Token=value, **headers(value))
    assert shown.status_code == 200
    assert shown["X-Subject-Token"] == value
    assert shown.json() == issued.json()
    head = Api(None).head(TOKENS, X_Auth_Token=value, **headers(value))
    assert head.status_code == 200
    assert head.content == b""


@each_row("method", ["get", "head", "delete"])
@each_row(("asker", "status"), [("alice", 200), ("bob", 403), ("charlie", 403), ("operator", 200), (None, 401)])
def test_who_may_touch_alices_token(people: People, method: str, asker: str | None, status: int) -> None:
    value = people.alice.token
    api = Api(getattr(people, asker) if asker else None)
    response = getattr(api, method)(TOKENS, **headers(value))
    assert response.status_code == (204 if method == "delete" and status == 200 else status)
    still_good = Api(None).get(TOKENS, X_Auth_Token=value, **headers(value)).status_code == 200
    assert still_good is not (method == "delete" and status == 200)


@each_row("method", ["get", "head", "delete"])
@each_row("subject", ["", "nonsense", "gAAAA" + "b" * 180])
def test_what_is_no_token_is_404(people: People, method: str, subject: str) -> None:
    response = getattr(Api(people.operator), method)(TOKENS, **headers(subject))
    assert response.status_code == 404
    if method != "head":
        error = response.json()["error"]
        assert (error["code"], error["title"]) == (404, "Not Found")
        assert not subject or subject not in error["message"]


@pytest.mark.parametrize("value", ["", "nonsense", "gAAAA" + "b" * 180])
def test_asking_without_a_good_token_is_401(people: People, value: str) -> None:
    response = Api(None).get(TOKENS, X_Auth_Token=value, **headers(people.alice.token))
    assert response.status_code == 401
    assert response["WWW-Authenticate"].startswith('Keystone uri="http')
    assert response.json() == {
        "error": {
            "code": 401,
            "title": "Unauthorized",
            "message": "The request you have made requires authentication.",
        }
    }


def test_nocatalog(people: People) -> None:
    value = people.alice.token
    shown = Api(people.alice).get(f"{TOKENS}?nocatalog", **headers(value)).json()["token"]
    assert "catalog" not in shown


def test_other_methods_are_405(people: People) -> None:
    response = Api(people.alice).put(TOKENS, {})
    assert response.status_code == 405
    assert response.json()["error"]["code"] == 405


def test_revoking_ends_what_was_got_by_it_and_nothing_else(people: People) -> None:
    def got_by(value: str) -> str:
        return str(Api(None).post(TOKENS, by_token(value, in_project(people.alice)))["X-Subject-Token"])

    def good(*values: str) -> list[bool]:
        return [Api(None).get(TOKENS, X_Auth_Token=value, **headers(value)).status_code == 200 for value in values]

    parent = people.alice.token
    child, sister = got_by(parent), got_by(parent)
    grandchild = got_by(child)
    assert good(parent, child, sister, grandchild) == [True] * 4
    assert Api(None).delete(TOKENS, X_Auth_Token=child, **headers(child)).status_code == 204
    assert good(parent, child, sister, grandchild) == [True, False, True, False]
    assert Api(None).post(TOKENS, by_token(grandchild)).status_code == 401
    assert Api(None).delete(TOKENS, X_Auth_Token=parent, **headers(parent)).status_code == 204
    assert good(parent, sister) == [False, False]


def test_revoking_twice_is_401_by_itself_and_404_by_an_operator(people: People) -> None:
    value = people.alice.token
    own: dict[str, Any] = {"X_Auth_Token": value, **headers(value)}
    assert Api(None).delete(TOKENS, **own).status_code == 204
    assert Api(None).delete(TOKENS, **own).status_code == 401
    assert Api(people.operator).delete(TOKENS, **headers(value)).status_code == 404


def test_browser_session_does_not_speak_at_the_api(people: People) -> None:
    from_browser: Person = people.alice
    api = Api(None)
    session = api.client.session
    session["token"] = from_browser.token
    session.save()
    assert api.get("/identity/v3/auth/projects").status_code == 401


def test_services_and_readers_of_the_system_look_and_take_nothing_back(people: People) -> None:
    value, reader = people.alice.token, Role.objects.get(name="reader", domain=None)
    gateway = Person(make_user("gateway", {people.operator.project: "service"}), people.operator.project)
    grant(reader, user=people.bob.user, system=True)
    auditor = Api(None, **{"X-Auth-Token": issue_token(people.bob.user, "system", ("password",)).value})
    for api, head in ((Api(gateway), 403), (auditor, 200)):  # Keystone's rules differ so
        assert api.get(TOKENS, **headers(value)).status_code == 200
        assert api.head(TOKENS, **headers(value)).status_code == head
        assert api.delete(TOKENS, **headers(value)).status_code == 403
