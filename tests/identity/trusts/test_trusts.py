"""``/v3/OS-TRUST/trusts``: who may give what to whom, and who sees it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.utils import timezone

from provisioning.identity.models import Role, Trust
from provisioning.identity.services import trusts
from provisioning.identity.services.application_credentials import create_application_credential
from provisioning.identity.services.assignments import grant
from provisioning.identity.services.flush import flush
from provisioning.identity.services.projects import delete_project
from provisioning.identity.services.roles import create_role, imply
from provisioning.identity.services.tokens import issue_token
from provisioning.identity.services.users import delete_user
from tests.identity.trusts.giving import TRUSTS, body, enter, give, with_token
from tests.support.cast import Api, People, make_domain, make_project
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db


def ids(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.content
    return [each["id"] for each in answer.json()["trusts"]]


@pytest.mark.slow
def test_what_is_made_is_shown(people: People) -> None:
    made = give(people.alice, people.charlie, expires_at="2090-01-31T12:00:00Z", remaining_uses=3, why="cover")
    reader = Role.objects.get(name="reader")
    assert made["roles"] == [
        {
            "id": reader.id.hex,
            "name": "reader",
            "domain_id": None,
            "description": "",
            "options": {"immutable": True},
            "links": {"self": made["roles"][0]["links"]["self"]},
        }
    ]
    links = made["links"]["self"]
    assert {name: made[name] for name in made.keys() - {"id", "roles", "links"}} == {
        "trustor_user_id": people.alice.user_id.hex,
        "trustee_user_id": people.charlie.user_id.hex,
        "project_id": people.alice.project_id.hex,
        "impersonation": False,
        "expires_at": "2090-01-31T12:00:00.000000Z",
        "remaining_uses": 3,
        "deleted_at": None,
        "redelegated_trust_id": None,
        "redelegation_count": 0,
        "why": "cover",
        "roles_links": {"self": f"{links}/roles", "next": None, "previous": None},
    }
    assert links.endswith(f"/identity/v3/OS-TRUST/trusts/{made['id']}")
    for person in (people.alice, people.charlie, people.operator):
        api = Api(person)
        assert api.get(f"{TRUSTS}/{made['id']}").json() == {"trust": made}
        assert api.head(f"{TRUSTS}/{made['id']}").status_code == 200
        assert api.get(f"{TRUSTS}/{made['id']}/roles").json() == {"roles": made["roles"], "links": made["roles_links"]}
        one = f"{TRUSTS}/{made['id']}/roles/{reader.id.hex}"
        assert api.get(one).json() == {"role": made["roles"][0]}
        assert api.head(one).status_code == 200
        assert api.get(f"{TRUSTS}/{made['id']}/roles/{people.alice.user_id.hex}").status_code == 404
        assert api.patch(f"{TRUSTS}/{made['id']}", {}).status_code == 405


def test_lists_show_no_roles_and_each_their_own(people: People) -> None:
    first, second = give(people.alice, people.charlie), give(people.bob, people.alice)
    alice, bob, charlie = (each.user_id.hex for each in (people.alice, people.bob, people.charlie))
    listed = Api(people.alice).get(f"{TRUSTS}?trustor_user_id={alice}")
    assert listed.json()["trusts"] == [{name: first[name] for name in first if name not in {"roles", "roles_links"}}]
    assert listed.json()["links"]["self"].endswith(f"/OS-TRUST/trusts?trustor_user_id={alice}")
    assert ids(Api(people.alice).get(f"{TRUSTS}?trustee_user_id={alice}")) == [second["id"]]
    assert ids(Api(people.charlie).get(f"{TRUSTS}?trustee_user_id={charlie}")) == [first["id"]]
    assert ids(Api(people.alice).get(f"{TRUSTS}?trustor_user_id={alice}&trustee_user_id={bob}")) == []
    assert ids(Api(people.operator).get(TRUSTS)) == [first["id"], second["id"]]
    assert ids(Api(people.operator).get(f"{TRUSTS}?trustor_user_id={bob}")) == [second["id"]]
    assert ids(Api(people.operator).get(f"{TRUSTS}?trustor_user_id=nobody%00")) == []
    for query in ("", f"?trustor_user_id={bob}", f"?trustee_user_id={charlie}", "?trustor_user_id="):
        assert Api(people.alice).get(TRUSTS + query).status_code == 403, query


def test_reader_of_the_system_sees_all_and_changes_nothing(people: People) -> None:
    made = give(people.alice, people.charlie)
    grant(Role.objects.get(name="reader"), user=people.bob.user, system=True)
    api = with_token(issue_token(people.bob.user, "system", ("password",)).value)
    assert ids(api.get(TRUSTS)) == [made["id"]]
    assert api.get(f"{TRUSTS}/{made['id']}/roles").status_code == 200
    assert api.delete(f"{TRUSTS}/{made['id']}").status_code == 403


def test_only_trustor_and_operator_delete(people: People) -> None:
    made = give(people.alice, people.charlie)
    for person, status in ((people.bob, 404), (people.charlie, 403), (people.alice, 204), (people.alice, 404)):
        assert Api(person).delete(f"{TRUSTS}/{made['id']}").status_code == status
    made = give(people.alice, people.charlie)
    for path in ("", "/roles", f"/roles/{made['roles'][0]['id']}"):
        assert Api(people.bob).get(f"{TRUSTS}/{made['id']}{path}").status_code == 404
    assert Api(people.operator).delete(f"{TRUSTS}/{made['id']}").status_code == 204
    assert Api(people.operator).get(f"{TRUSTS}/nonsense").status_code == 404


@each_row(
    ("changes", "status"),
    [
        ({"trustor_user_id": None}, 400),
        ({"trustee_user_id": None}, 400),
        ({"impersonation": None}, 400),
        ({"impersonation": "yes"}, 400),
        ({"roles": [{"fake_key": "x"}]}, 400),
        ({"roles": [{"name": "reader", "id": "x"}]}, 400),
        ({"roles": {}}, 400),
        ({"roles": []}, 403),
        ({"roles": None}, 403),
        ({"roles": [{"name": "nothing"}]}, 404),
        ({"roles": [{"name": "admin"}]}, 404),
        ({"roles": [{"id": "0" * 32}]}, 404),
        ({"project_id": None}, 404),
        ({"project_id": "0" * 32}, 404),
        ({"project_id": "factory"}, 404),
        ({"trustee_user_id": "0" * 32}, 404),
        ({"trustor_user_id": "0" * 32}, 403),
        ({"trustor_user_id": ["x"]}, 403),
        ({"expires_at": "2001-01-01T00:00:00Z"}, 400),
        ({"expires_at": "tomorrow"}, 400),
        ({"expires_at": "9999-12-31T23:59:59-10:00"}, 400),
        *(({"remaining_uses": value}, 400) for value in (-1, 0, "a bad value", 7.2, 2**31)),
        ({"redelegation_count": -1}, 400),
        ({"allow_redelegation": True, "redelegation_count": 4}, 403),
        ({"allow_redelegation": True, "remaining_uses": 1}, 400),
        ({"redelegated_trust_id": "0" * 32}, 403),
        ({"extra\0": 1}, 400),
    ],
)
def test_what_cannot_be(people: People, changes: dict[str, Any], status: int) -> None:
    answer = Api(people.alice).post(TRUSTS, body(people.alice, people.charlie, **changes))
    assert (answer.status_code, Trust.objects.count()) == (status, 0), answer.content


@each_row("sent", [None, [], {}, {"trust": []}, {"trust": {}}, {"trust": {}, "more": 1}])
def test_bodies_that_are_none(people: People, sent: Any) -> None:
    assert Api(people.alice).post(TRUSTS, sent).status_code in {400, 403}


def test_roles_of_domains_and_by_name_of_several(people: People) -> None:
    helper = create_role("helper", domain=make_domain())
    imply(helper, Role.objects.get(name="reader"))
    grant(helper, user=people.alice.user, project=people.alice.project)
    made = give(people.alice, people.charlie, roles=[{"name": "helper"}, {"id": helper.id.hex}])
    assert [role["name"] for role in made["roles"]] == ["helper"]
    assert [role["name"] for role in enter(people.charlie, made).json()["token"]["roles"]] == ["reader"]
    create_role("helper")
    answer = Api(people.alice).post(TRUSTS, body(people.alice, people.charlie, roles=[{"name": "helper"}]))
    assert answer.status_code == 400


def test_same_trust_with_the_same_end_is_a_conflict(people: People) -> None:
    until = {"expires_at": "2090-01-31T12:00:00Z"}
    give(people.alice, people.charlie, **until)
    assert Api(people.alice).post(TRUSTS, body(people.alice, people.charlie, **until)).status_code == 409
    give(people.alice, people.charlie)
    give(people.alice, people.charlie)


def test_trust_for_nothing(people: People) -> None:
    made = give(people.alice, people.charlie, project_id=None, roles=[], impersonation=True)
    assert (made["project_id"], made["roles"]) == (None, [])
    body = enter(people.charlie, made).json()["token"]
    assert body["user"]["id"] == people.alice.user_id.hex
    assert not {"project", "roles", "catalog"} & body.keys()


def test_application_credentials_have_nothing_to_do_with_trusts(people: People) -> None:
    made = give(people.alice, people.charlie)
    for unrestricted in (False, True):
        record, _ = create_application_credential(
            people.alice.user, people.alice.project, f"robot {unrestricted}", unrestricted=unrestricted
        )
        issued = issue_token(people.alice.user, people.alice.project, ("x",), application_credential=record)
        api = with_token(issued.value)
        assert api.post(TRUSTS, body(people.alice, people.charlie)).status_code == 403
        for path in (f"?trustor_user_id={people.alice.user_id.hex}", f"/{made['id']}", f"/{made['id']}/roles"):
            assert api.get(TRUSTS + path).status_code == 403
        assert api.delete(f"{TRUSTS}/{made['id']}").status_code == 403


def test_nobody_gives_trusts_without_end(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trusts, "MOST_OF_USER", 1)
    give(people.alice, people.charlie)
    assert Api(people.alice).post(TRUSTS, body(people.alice, people.charlie)).status_code == 403


@pytest.mark.parametrize("whose", ["trustor", "trustee", "project"])
def test_goes_with(people: People, whose: str) -> None:
    project = make_project("short")
    grant(Role.objects.get(name="reader"), user=people.alice.user, project=project)
    give(people.alice, people.charlie, project_id=project.id.hex)
    if whose == "project":
        delete_project(project)
    else:
        delete_user(people.alice.user if whose == "trustor" else people.charlie.user)
    assert not Trust.objects.exists()


def test_expired_and_used_up_ones_are_gone_and_are_flushed_later(people: People) -> None:
    made = give(people.alice, people.charlie, expires_at="2090-01-31T12:00:00Z")
    used = give(people.alice, people.charlie, remaining_uses=1)
    kept = give(people.alice, people.charlie)
    assert enter(people.charlie, used).status_code == 201
    assert Api(people.alice).get(f"{TRUSTS}/{used['id']}").status_code == 404
    later = timezone.now().replace(year=2090, month=1, day=31, hour=12)
    left = {"credentials_after": timedelta(days=30)}
    with time_machine.travel(later, tick=False):
        assert Api(people.alice).get(f"{TRUSTS}/{made['id']}").status_code == 404
        assert enter(people.charlie, made).status_code == 401
        assert len(ids(Api(people.alice).get(f"{TRUSTS}?trustor_user_id={people.alice.user_id.hex}"))) == 3
        assert flush(**left)["trusts"] == 1, "the used one, whose tokens have ended"
    with time_machine.travel(later + timedelta(days=31), tick=False):
        assert flush(**left)["trusts"] == 1
    assert [str(each.id.hex) for each in Trust.objects.all()] == [kept["id"]]
    assert flush()["trusts"] == 0
