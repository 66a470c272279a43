"""Trusts that are handed on: how far, and no more than was got."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from provisioning.identity.models import Trust
from provisioning.identity.services.assignments import assign_role
from provisioning.identity.services.users import delete_user, set_user_enabled
from tests.identity.trusts.giving import TRUSTS, body, enter, give, token, with_token
from tests.support.cast import Api, People, Person, make_user
from tests.support.roles import remove_role
from tests.support.tables import each_row

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
FOR_GOOD: dict[str, Any] = {"impersonation": True, "allow_redelegation": True}


def further(people: People, by: Person, trust: dict[str, Any], to: Person, **changes: Any) -> Any:
    """Have the trustee of a trust of alice's hand it on."""
    requested = body(people.alice, to, **{"impersonation": True, **changes})
    return with_token(token(by, trust)).post(TRUSTS, requested)


@pytest.mark.slow
def test_chain_ends_where_it_should(people: People) -> None:
    dora, eve = (Person(make_user(name), people.alice.project) for name in ("dora", "eve"))
    first = give(people.alice, people.charlie, **FOR_GOOD)
    assert first["redelegation_count"] == 3
    second = further(people, people.charlie, first, dora, **FOR_GOOD).json()["trust"]
    assert (second["redelegation_count"], second["redelegated_trust_id"]) == (2, first["id"])
    assert second["trustor_user_id"] == people.alice.user_id.hex
    third = further(people, dora, second, eve, allow_redelegation=True, redelegated_trust_id=second["id"])
    fourth = further(people, eve, third.json()["trust"], people.charlie, **FOR_GOOD).json()["trust"]
    assert fourth["redelegation_count"] == 0
    assert further(people, people.charlie, fourth, dora).status_code == 403
    body = enter(people.charlie, fourth).json()["token"]
    assert body["user"]["id"] == people.alice.user_id.hex
    assert [role["name"] for role in body["roles"]] == ["reader"]


def test_operators_say_how_far(people: People, settings: Settings) -> None:
    made = give(people.alice, people.charlie, **FOR_GOOD, redelegation_count=3)
    settings.TRUST_REDELEGATIONS = 1
    assert give(people.alice, people.charlie, **FOR_GOOD)["redelegation_count"] == 1
    assert further(people, people.charlie, made, people.bob).status_code == 403
    answer = Api(people.alice).post(TRUSTS, body(people.alice, people.charlie, **FOR_GOOD, redelegation_count=2))
    assert answer.status_code == 403


@pytest.mark.parametrize("first", [{"impersonation": True}, {**FOR_GOOD, "redelegation_count": 0}])
def test_not_unless_allowed(people: People, first: dict[str, Any]) -> None:
    made = give(people.alice, people.charlie, **first)
    assert made["redelegation_count"] == 0
    assert further(people, people.charlie, made, people.bob).status_code == 403


@pytest.mark.slow
@each_row(
    ("changes", "status"),
    [
        ({"roles": [{"name": "member"}]}, 403),
        ({"roles": []}, 403),
        ({"project_id": "other"}, 403),
        ({"expires_at": "later"}, 403),
        ({"remaining_uses": 1}, 403),
        ({"allow_redelegation": True, "redelegation_count": 3}, 403),
        ({"redelegated_trust_id": "0" * 32}, 403),
        ({"trustor_user_id": "trustee"}, 403),
        ({"allow_redelegation": True, "redelegation_count": 2}, 201),
        ({"expires_at": "sooner"}, 201),
    ],
)
def test_no_more_than_was_got(people: People, changes: dict[str, Any], status: int) -> None:
    assign_role(people.alice.user, people.charlie.project, "reader")
    end = timezone.now() + timedelta(days=2)
    made = give(people.alice, people.charlie, **FOR_GOOD, expires_at=end.isoformat())
    values = {
        "other": people.charlie.project_id.hex,
        "later": (end + timedelta(days=1)).isoformat(),
        "sooner": (end - timedelta(days=1)).isoformat(),
        "trustee": people.charlie.user_id.hex,
    }
    requested = {name: values.get(str(value), value) for name, value in changes.items()}
    answer = further(people, people.charlie, made, people.bob, **requested)
    assert answer.status_code == status, answer.content
    if status == 201 and "expires_at" not in changes:
        assert answer.json()["trust"]["expires_at"] == made["expires_at"]


def test_without_impersonation_the_trustee_hands_on_the_trustor_s_roles(people: People) -> None:
    """As in Keystone: whoever hands a trust on needs no role there."""
    made = give(people.alice, people.charlie, allow_redelegation=True)
    api = with_token(token(people.charlie, made))
    requested = body(people.charlie, people.bob, project_id=people.alice.project_id.hex)
    assert api.post(TRUSTS, {"trust": requested["trust"] | {"impersonation": True}}).status_code == 403
    second = api.post(TRUSTS, requested).json()["trust"]
    assert second["trustor_user_id"] == people.charlie.user_id.hex
    got = with_token(token(people.bob, second))
    assert got.get("/compute/v2.1/servers").status_code == 200
    assert enter(people.bob, second).json()["token"]["user"]["id"] == people.bob.user_id.hex
    remove_role(people.alice.user, people.alice.project, "member")
    assert got.get("/compute/v2.1/servers").status_code == 401
    assert enter(people.bob, second).status_code == 403


@pytest.mark.slow
@each_row("what", ["first deleted", "middle disabled", "middle deleted", "trustor lost the role"])
def test_all_that_was_handed_on_falls_with_it(people: People, what: str) -> None:
    dora = Person(make_user("dora"), people.alice.project)
    first = give(people.alice, people.charlie, **FOR_GOOD)
    second = further(people, people.charlie, first, dora).json()["trust"]
    got = with_token(token(dora, second))
    assert got.get("/compute/v2.1/servers").status_code == 200
    if what == "first deleted":
        assert Api(people.alice).delete(f"{TRUSTS}/{first['id']}").status_code == 204
    elif what == "middle disabled":
        set_user_enabled(people.charlie.user, enabled=False)
    elif what == "middle deleted":
        delete_user(people.charlie.user)
    else:
        remove_role(people.alice.user, people.alice.project, "member")
    assert got.get("/compute/v2.1/servers").status_code == 401
    assert Trust.objects.exists() is (what not in {"first deleted", "middle deleted"})
    assert enter(dora, second).status_code == (403 if Trust.objects.exists() else 401)
