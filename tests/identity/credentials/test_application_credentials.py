"""``/v3/users/{id}/application_credentials`` and ``/access_rules``."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.db.models import Model
from django.utils import timezone

from provisioning.identity.credentials import secret_hashes
from provisioning.identity.models import AccessRule, ApplicationCredential, Role, User
from provisioning.identity.selectors.tokens import context_for_token, context_of
from provisioning.identity.services.application_credentials import (
    RequestPattern,
    check_secret,
    create_application_credential,
)
from provisioning.identity.services.assignments import assign_role
from provisioning.identity.services.tokens import issue_token
from provisioning.identity.tokens import tokens
from tests.support.cast import Api, People, Person, make_project
from tests.support.tables import each_row

RULE = {"service": "compute", "method": "GET", "path": "/v2.1/servers/*"}


def path_of(user: User, tail: str = "application_credentials") -> str:
    return f"/identity/v3/users/{user.id.hex}/{tail}"


def make(person: Person, api: Api | None = None, **fields: Any) -> Any:
    body = {"application_credential": {"name": "robot", **fields}}
    return (api or Api(person)).post(path_of(person.user), body)


def token_of(record: ApplicationCredential) -> str:
    return issue_token(record.user, record.project, ("application_credential",), application_credential=record).value


def api_of(record: ApplicationCredential) -> Api:
    return Api(None, **{"X-Auth-Token": token_of(record)})


@pytest.mark.parametrize("table", [ApplicationCredential.roles.through, ApplicationCredential.access_rules.through])
def test_a_fault_in_the_middle_leaves_nothing(alice: Person, table: type[Model]) -> None:
    """Least of all one without its access rules: that might ask for anything."""

    def fails(execute: Any, sql: str, *arguments: Any) -> Any:
        if sql.startswith("INSERT") and f'"{table._meta.db_table}"' in sql:
            raise OperationalError("disk full")
        return execute(sql, *arguments)

    pattern = RequestPattern("compute", "GET", "/v2.1/servers/*")
    with connection.execute_wrapper(fails), pytest.raises(OperationalError):
        create_application_credential(alice.user, alice.project, "robot", access_rules=[pattern])
    assert not ApplicationCredential.objects.exists()
    assert not AccessRule.objects.exists()
    record, _ = create_application_credential(alice.user, alice.project, "robot", access_rules=[pattern])
    assert record.access_rules.count() == 1


def test_secret_is_shown_once_and_kept_as_a_hash(alice: Person) -> None:
    answer = make(alice, description="nightly", access_rules=[RULE])
    assert answer.status_code == 201
    assert answer["Cache-Control"] == "no-store"
    made = answer.json()["application_credential"]
    assert {role["name"] for role in made["roles"]} == {"member", "reader"}
    assert made["project_id"] == alice.project_id.hex
    assert (made["description"], made["expires_at"], made["unrestricted"]) == ("nightly", None, False)
    assert [{name: rule[name] for name in RULE} for rule in made["access_rules"]] == [RULE]
    record = ApplicationCredential.objects.get()
    assert check_secret(record, made["secret"])
    assert not check_secret(record, made["secret"][:-1] + ("a" if made["secret"].endswith("_") else "_"))
    assert made["secret"] not in record.secret_hash
    assert record.secret_hash.startswith("sha256$")
    for answer in (Api(alice).get(path_of(alice.user)), Api(alice).get(f"{path_of(alice.user)}/{made['id']}")):
        assert answer.status_code == 200
        assert made["secret"] not in answer.content.decode()
        assert record.secret_hash not in answer.content.decode()


def test_chosen_secret_is_kept_by_the_slow_hash(alice: Person) -> None:
    assert make(alice, secret="abc").json()["application_credential"]["secret"] == "abc"
    record = ApplicationCredential.objects.get()
    assert record.secret_hash.startswith("argon2")
    assert check_secret(record, "abc")
    assert not check_secret(record, "abx")


@pytest.mark.parametrize("kept", ["drawn", "chosen", None])
def test_work_shows_in_the_secret_only(kept: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the slow hash is computed does not depend on the record it is compared with."""
    encoded = {"drawn": secret_hashes.hash_of(secret_hashes.draw()), "chosen": secret_hashes.hash_of("abc")}.get(
        kept or ""
    )
    slow: list[str] = []
    monkeypatch.setattr(secret_hashes, "make_password", lambda secret: slow.append(secret))
    monkeypatch.setattr(secret_hashes, "check_password", lambda secret, encoded: slow.append(secret))
    assert not secret_hashes.matches("wrong", encoded)
    assert slow == ["wrong"]
    assert not secret_hashes.matches(secret_hashes.draw(), encoded)
    assert slow == ["wrong"]
    assert not secret_hashes.matches("x" * 2000, encoded)


def test_no_roles_are_all_that_one_has(alice: Person) -> None:
    """The command line sends an empty list when it is told no roles."""
    for name, fields in (("without", {}), ("null", {"roles": None}), ("empty", {"roles": []})):
        made = make(alice, name=name, **fields).json()["application_credential"]
        assert {role["name"] for role in made["roles"]} == {"member", "reader"}


def test_only_roles_that_one_has_can_be_passed_on(alice: Person) -> None:
    reader = Role.objects.get(name="reader")
    made = make(alice, roles=[{"id": reader.id.hex}]).json()["application_credential"]
    assert [role["name"] for role in made["roles"]] == ["reader"]
    record = ApplicationCredential.objects.get()
    assert context_for_token(token_of(record)).roles == {"reader"}
    for roles in ([{"name": "admin"}], [{"name": "nobody"}], [{"id": "x"}], [{}]):
        answer = make(alice, name="other", roles=roles)
        assert answer.status_code == 400, roles
        assert "role" in answer.json()["error"]["message"]
    assert ApplicationCredential.objects.count() == 1


@each_row(
    ("fields", "word"),
    [
        ({"name": ""}, "name"),
        ({"name": "  "}, "name"),
        ({"name": 3}, "name"),
        ({"name": "x" * 256}, "name"),
        ({"secret": ""}, "secret"),
        ({"secret": "x" * 1025}, "secret"),
        ({"expires_at": "yesterday"}, "expires_at"),
        ({"expires_at": "2001-01-01T00:00:00Z"}, "expiry"),
        ({"expires_at": "0001-01-01T00:00:00+14:00"}, "expires_at"),
        ({"expires_at": 3}, "expires_at"),
        ({"unrestricted": "yes"}, "unrestricted"),
        ({"access_rules": [{"service": "compute"}]}, "method"),
        ({"access_rules": [{**RULE, "path": "servers"}]}, "path"),
        ({"access_rules": [{**RULE, "method": "get"}]}, "method"),
        ({"access_rules": [{**RULE, "service": "COM PUTE"}]}, "service"),
        ({"access_rules": "all"}, "access_rules"),
        ({"roles": {"name": "reader"}}, "roles"),
        ({"project_id": "f" * 32}, "project_id"),
        ({"color": "red"}, "color"),
    ],
)
def test_wrong_fields_are_named(alice: Person, fields: dict[str, Any], word: str) -> None:
    answer = make(alice, **fields)
    assert answer.status_code == 400
    assert word in answer.json()["error"]["message"]
    assert not ApplicationCredential.objects.exists()
    assert not AccessRule.objects.exists()


def test_name_is_given_once(alice: Person, bob: Person) -> None:
    assert make(alice).status_code == 201
    assert make(alice).status_code == 409
    assert make(bob).status_code == 201


def test_list_is_filtered_by_name(alice: Person) -> None:
    for name in ("b", "a"):
        make(alice, name=name)
    application_credentials = Api(alice).get(path_of(alice.user)).json()["application_credentials"]
    assert [each["name"] for each in application_credentials] == ["a", "b"]
    application_credentials = Api(alice).get(path_of(alice.user) + "?name=b").json()["application_credentials"]
    assert [each["name"] for each in application_credentials] == ["b"]
    assert Api(alice).get(path_of(alice.user) + "?name=%00").json()["application_credentials"] == []


def test_only_users_themselves_make_them_and_operators_may_look_and_delete(people: People) -> None:
    made = make(people.alice).json()["application_credential"]
    where = f"{path_of(people.alice.user)}/{made['id']}"
    assert make(people.alice, Api(people.operator), name="other").status_code == 403
    assert make(people.alice, Api(people.charlie), name="other").status_code == 403
    for ask in (Api(people.charlie).get, Api(people.charlie).delete):
        assert ask(where).status_code == 403
    assert Api(people.charlie).get(f"{path_of(people.charlie.user)}/{made['id']}").status_code == 404
    assert Api(people.operator).get(path_of(people.alice.user)).status_code == 200
    assert Api(people.operator).delete(where).status_code == 204
    assert Api(people.alice).get(where).status_code == 404


def test_token_for_no_project_makes_none(alice: Person) -> None:
    unscoped = issue_token(alice.user, None, ("password",)).value
    assert make(alice, Api(None, **{"X-Auth-Token": unscoped})).status_code == 403


def test_restricted_one_manages_no_others(alice: Person) -> None:
    record, _ = create_application_credential(alice.user, alice.project, "robot")
    api = api_of(record)
    assert make(alice, api, name="child").status_code == 403
    assert api.delete(f"{path_of(alice.user)}/{record.id.hex}").status_code == 403
    assert api.get(path_of(alice.user)).status_code == 200
    rule = AccessRule.objects.create(user=alice.user, **RULE)
    assert api.delete(f"{path_of(alice.user, 'access_rules')}/{rule.id.hex}").status_code == 403


def test_unrestricted_one_passes_on_no_more_than_it_has(alice: Person) -> None:
    reader = Role.objects.get(name="reader")
    record, _ = create_application_credential(alice.user, alice.project, "robot", roles=[reader], unrestricted=True)
    api = api_of(record)
    made = make(alice, api, name="child").json()["application_credential"]
    assert [role["name"] for role in made["roles"]] == ["reader"]
    assert make(alice, api, name="other", roles=[{"name": "member"}]).status_code == 400
    assert api.delete(f"{path_of(alice.user)}/{made['id']}").status_code == 204


def test_one_with_access_rules_passes_on_its_own_only(alice: Person) -> None:
    wide = RequestPattern("identity", "POST", "/v3/users/*/application_credentials")
    record, _ = create_application_credential(
        alice.user, alice.project, "robot", unrestricted=True, access_rules=[wide]
    )
    caller = context_for_token(token_of(record))
    other = RequestPattern("compute", "GET", "/v2.1/servers")
    for rules in ([], [other], [wide, other]):
        with pytest.raises(Exception, match="its own access rules"):
            create_application_credential(alice.user, alice.project, "x", access_rules=rules, caller=caller)
    create_application_credential(alice.user, alice.project, "x", access_rules=[wide], caller=caller)


def test_access_rules_are_shared_and_stay_while_used(alice: Person, charlie: Person) -> None:
    first = make(alice, access_rules=[RULE, RULE]).json()["application_credential"]
    (rule,) = first["access_rules"]
    second = make(alice, name="second", access_rules=[{"id": rule["id"]}]).json()["application_credential"]
    assert second["access_rules"] == [rule]
    where = f"{path_of(alice.user, 'access_rules')}/{rule['id']}"
    listed = Api(alice).get(path_of(alice.user, "access_rules")).json()["access_rules"]
    assert [each["id"] for each in listed] == [rule["id"]]
    assert Api(alice).get(where).json()["access_rule"]["path"] == RULE["path"]
    assert Api(alice).delete(where).status_code == 403
    assert Api(charlie).get(where).status_code == 403
    assert make(charlie, access_rules=[{"id": rule["id"]}]).status_code == 404
    for made in (first, second):
        Api(alice).delete(f"{path_of(alice.user)}/{made['id']}")
    assert Api(alice).delete(where).status_code == 204
    assert Api(alice).get(where).status_code == 404


@pytest.mark.parametrize("tail", ["application_credentials/x", "application_credentials/%00", "access_rules/x"])
def test_what_is_no_id_is_not_found(alice: Person, tail: str) -> None:
    assert Api(alice).get(path_of(alice.user, tail)).status_code == 404
    assert Api(alice).delete(path_of(alice.user, tail)).status_code == 404


def test_unknown_user_is_not_found(operator: Person) -> None:
    for tail in ("application_credentials", "access_rules", "credentials/OS-EC2"):
        assert Api(operator).get(f"/identity/v3/users/{'f' * 32}/{tail}").status_code == 404


def test_no_token_of_it_is_good_elsewhere(alice: Person) -> None:
    elsewhere = make_project("elsewhere")
    assign_role(alice.user, elsewhere, "member")
    record, _ = create_application_credential(alice.user, alice.project, "robot")
    for scope in (elsewhere, None):
        data = tokens.issue(alice.user, scope, ("token",), application_credential=record).data
        with pytest.raises(Exception, match="requires authentication"):
            context_of(data)


def test_expiry_is_reported_and_held(alice: Person) -> None:
    made = make(alice, expires_at="2099-01-31T12:00:00").json()["application_credential"]
    assert made["expires_at"] == "2099-01-31T12:00:00.000000"
    ends = timezone.now() + timedelta(seconds=30)
    record, _ = create_application_credential(alice.user, alice.project, "short", expires_at=ends)
    issued = issue_token(alice.user, alice.project, ("x",), application_credential=record)
    assert issued.data.expires_at == ends
