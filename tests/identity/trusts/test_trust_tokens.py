"""Tokens of trusts: whom they speak for, what they may, and when they end."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.utils import timezone
from pytest_django import Settings

from provisioning.common.errors import NotAuthenticatedError
from provisioning.events.models import Event
from provisioning.identity.encryption import keys
from provisioning.identity.models import Credential, ImpliedRole, SignIn, Trust, User
from provisioning.identity.selectors.tokens import context_for_token
from provisioning.identity.services.application_credentials import create_application_credential
from provisioning.identity.services.assignments import assign_role, grant
from provisioning.identity.services.ec2 import create_ec2_credential
from provisioning.identity.services.passwords import set_password
from provisioning.identity.services.projects import set_project_enabled
from provisioning.identity.services.roles import create_role, delete_role
from provisioning.identity.services.tokens import issue_token, revoke_token
from provisioning.identity.services.users import set_user_enabled
from provisioning.identity.tokens.tokens import read
from tests.identity.bodies import TOKENS, by_password, by_token, in_project
from tests.identity.credentials.test_ec2_tokens import EC2, signed
from tests.identity.trusts.giving import TRUSTS, body, enter, give, token, with_token
from tests.support.cast import Api, People, Person
from tests.support.roles import remove_role
from tests.support.tables import each_row

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
SERVERS = "/compute/v2.1/servers"


@pytest.fixture(autouse=True)
def _own_keys(settings: Settings, tmp_path: Path) -> None:
    settings.CREDENTIAL_KEYS_DIR = tmp_path / "keys"


@pytest.mark.parametrize("impersonation", [True, False])
def test_speaks_for_trustor_or_trustee_with_the_roles_given(people: People, impersonation: bool) -> None:
    made = give(people.alice, people.charlie, impersonation=impersonation)
    answer = enter(people.charlie, made)
    body = answer.json()["token"]
    who = people.alice if impersonation else people.charlie
    assert (body["user"]["id"], body["user"]["name"]) == (who.user_id.hex, who.user.name)
    assert body["OS-TRUST:trust"] == {
        "id": made["id"],
        "impersonation": impersonation,
        "trustor_user": {"id": people.alice.user_id.hex},
        "trustee_user": {"id": people.charlie.user_id.hex},
    }
    assert body["project"]["id"] == people.alice.project_id.hex
    assert [role["name"] for role in body["roles"]] == ["reader"]
    assert body["catalog"]
    value = answer["X-Subject-Token"]
    context = context_for_token(value)
    assert (context.user_id, context.trust_id and context.trust_id.hex) == (who.user_id, made["id"])
    assert with_token(value).get(SERVERS).status_code == 200
    assert with_token(value).post(SERVERS, {"server": {}}).status_code == 403, "a reader launches nothing"
    for asks in (Api(people.operator), with_token(value)):
        shown = asks.get(TOKENS, X_Subject_Token=value)
        assert shown.json() == answer.json()
    assert Api(people.operator).get(f"/identity/v2.0/tokens/{value}").status_code == 404


def test_by_a_token_of_the_trustees(people: People) -> None:
    made = give(people.alice, people.charlie)
    first = issue_token(people.charlie.user, None, ("password",), lifetime=timedelta(minutes=5))
    answer = Api(None).post(TOKENS, by_token(first.value, {"OS-TRUST:trust": {"id": made["id"]}}))
    assert answer.status_code == 201
    assert read(answer["X-Subject-Token"]).expires_at == first.data.expires_at
    revoke_token(first.data)
    assert with_token(answer["X-Subject-Token"]).get(SERVERS).status_code == 401


@each_row(("scope", "status"), [({}, 400), ("", 400), ({"id": ""}, 400), ({"id": "x" * 32}, 401)])
def test_trust_that_is_none(people: People, scope: Any, status: int) -> None:
    assert Api(None).post(TOKENS, by_password(people.charlie, {"OS-TRUST:trust": scope})).status_code == status


def test_others_get_nothing_and_use_nothing_up(people: People) -> None:
    made = give(people.alice, people.charlie, remaining_uses=3)
    assert enter(people.bob, made).status_code == 403
    assert enter(people.alice, made).status_code == 403
    assert Api(people.alice).get(f"{TRUSTS}/{made['id']}").json()["trust"]["remaining_uses"] == 3
    wrong = by_password(people.charlie, {"OS-TRUST:trust": {"id": made["id"]}}, password="wrong")
    assert Api(None).post(TOKENS, wrong).status_code == 401
    assert Trust.objects.get().remaining_uses == 3


def test_so_many_tokens_and_no_more(people: People) -> None:
    made = give(people.alice, people.charlie, remaining_uses=2)
    values = [token(people.charlie, made) for _ in range(2)]
    assert enter(people.charlie, made).status_code == 401
    assert all(with_token(value).get(SERVERS).status_code == 200 for value in values), "what was got is good"
    assert Api(people.alice).delete(f"{TRUSTS}/{made['id']}").status_code == 204
    assert all(with_token(value).get(SERVERS).status_code == 401 for value in values)


def test_ends_with_the_trust_at_the_latest(people: People) -> None:
    end = timezone.now() + timedelta(minutes=5)
    value = token(people.charlie, give(people.alice, people.charlie, expires_at=end.isoformat()))
    assert read(value).expires_at == end


def lose_role(people: People) -> None:
    remove_role(people.alice.user, people.alice.project, "member")


def lose_implication(_: People) -> None:
    ImpliedRole.objects.filter(prior__name="member").delete()


def close(user: User) -> None:
    set_user_enabled(user, enabled=False)


WAYS: dict[str, tuple[Callable[[People], object], int]] = {
    "trustor disabled": (lambda people: close(people.alice.user), 403),
    "trustee disabled": (lambda people: close(people.charlie.user), 401),
    "trustor lost the role": (lose_role, 403),
    "trustor's role implies it no more": (lose_implication, 403),
    "project disabled": (lambda people: set_project_enabled(people.alice.project, enabled=False), 401),
    "trustor's password": (lambda people: set_password(people.alice.user, "another one"), 201),
    "trustee signed out": (lambda people: SignIn.objects.filter(user=people.charlie.user).delete(), 201),
    "trust deleted": (lambda _: Api(_.alice).delete(f"{TRUSTS}/{Trust.objects.get().id.hex}"), 401),
}


@pytest.mark.slow
@each_row("way", WAYS)
@each_row("impersonation", [True, False])
def test_worth_nothing_at_once(people: People, way: str, impersonation: bool) -> None:
    made = give(people.alice, people.charlie, impersonation=impersonation)
    value = token(people.charlie, made)
    seen = Event.objects.filter(topic="auth").count()
    change, status = WAYS[way]
    change(people)
    with pytest.raises(NotAuthenticatedError):
        context_for_token(value)
    assert enter(people.charlie, made).status_code == status
    if way not in {"trustor's role implies it no more", "trustee signed out"}:  # what tests did behind the services
        assert Event.objects.filter(topic="auth").count() > seen, "open sockets look again"


def test_trustees_new_password_ends_them(people: People) -> None:
    value = token(people.charlie, give(people.alice, people.charlie))
    set_password(people.charlie.user, "another one")
    with pytest.raises(NotAuthenticatedError):
        context_for_token(value)


def test_role_that_is_deleted_is_not_replaced(people: People) -> None:
    special = create_role("special")
    grant(special, user=people.alice.user, project=people.alice.project)
    made = give(people.alice, people.charlie, roles=[{"name": "special"}, {"name": "reader"}])
    value = token(people.charlie, made)
    delete_role(special)
    assert with_token(value).get(SERVERS).status_code == 401
    assert enter(people.charlie, made).status_code == 403
    assert [role["name"] for role in Api(people.alice).get(f"{TRUSTS}/{made['id']}").json()["trust"]["roles"]] == [
        "reader"
    ]


def test_no_token_of_it_gets_another(people: People) -> None:
    assign_role(people.alice.user, people.charlie.project, "member")
    made, other = give(people.alice, people.charlie, impersonation=True), give(people.alice, people.charlie)
    value = token(people.charlie, made)
    scopes = (None, "unscoped", in_project(people.alice), in_project(people.charlie), {"system": {"all": True}})
    for scope in (*scopes, {"OS-TRUST:trust": {"id": other["id"]}}, {"OS-TRUST:trust": {"id": made["id"]}}):
        assert Api(None).post(TOKENS, by_token(value, scope)).status_code == 403, scope
    beside = by_password(people.charlie)
    beside["auth"]["identity"] |= {"methods": ["password", "token"], "token": {"id": value}}
    assert Api(None).post(TOKENS, beside).status_code == 403
    api = with_token(value)
    assert [each["name"] for each in api.get("/identity/v3/auth/projects").json()["projects"]] == ["wonderland"]
    assert api.get("/identity/v3/auth/domains").json()["domains"] == []
    assert api.get("/identity/v3/auth/system").json()["system"] == []


def test_application_credentials_stay_out_of_reach(people: People) -> None:
    record, _ = create_application_credential(people.alice.user, people.alice.project, "robot")
    api = with_token(token(people.charlie, give(people.alice, people.charlie, impersonation=True)))
    base = f"/identity/v3/users/{people.alice.user_id.hex}"
    sent = {"application_credential": {"name": "backdoor"}}
    assert api.post(f"{base}/application_credentials", sent).status_code == 403
    for path in ("/application_credentials", f"/application_credentials/{record.id.hex}", "/access_rules"):
        assert api.get(base + path).status_code == 403
    assert api.delete(f"{base}/application_credentials/{record.id.hex}").status_code == 403
    body = {"methods": ["application_credential"], "application_credential": {"id": record.id.hex, "secret": "x"}}
    scope = {"OS-TRUST:trust": {"id": Trust.objects.get().id.hex}}
    assert Api(None).post(TOKENS, {"auth": {"identity": body, "scope": scope}}).status_code == 401


class TestCredentials:
    CREDENTIALS = "/identity/v3/credentials"

    def post(self, api: Api, **fields: Any) -> Any:
        return api.post(self.CREDENTIALS, {"credential": {"blob": "x", **fields}})

    def test_what_it_makes_and_sees(self, people: People) -> None:
        create_ec2_credential(people.alice.user, people.alice.project)
        api = with_token(token(people.charlie, give(people.alice, people.charlie, impersonation=True)))
        own = people.alice.project_id.hex
        assert self.post(api, type="totp", project_id=own).status_code == 403
        assert self.post(api, type="cert").status_code == 403, "it is for no project"
        assert self.post(api, type="cert", project_id=own).status_code == 201
        listed = api.get(self.CREDENTIALS).json()["credentials"]
        assert [each["type"] for each in listed] == ["cert"], "the trustor's own keys are worth more than the trust"
        assert len(Api(people.alice).get(self.CREDENTIALS).json()["credentials"]) == 2

    def test_operators_trust_does_not_leave_its_project(self, people: People) -> None:
        create_ec2_credential(people.alice.user, people.alice.project)
        roles = [{"name": "admin"}]
        api = with_token(token(people.charlie, give(people.operator, people.charlie, roles=roles, impersonation=True)))
        assert api.get(self.CREDENTIALS).json()["credentials"] == []
        assert self.post(api, type="cert", project_id=people.alice.project_id.hex).status_code in {403, 404}

    @pytest.mark.parametrize("impersonation", [True, False])
    @pytest.mark.parametrize("way", ["OS-EC2", "credentials"])
    def test_ec2_keys_are_worth_what_the_trust_is(self, people: People, impersonation: bool, way: str) -> None:
        made = give(people.alice, people.charlie, impersonation=impersonation, roles=[{"name": "reader"}])
        who = people.alice if impersonation else people.charlie
        api, own = with_token(token(people.charlie, made)), people.alice.project_id.hex
        pair = {"access": "a1", "secret": "s1"}
        if way == "OS-EC2":
            base = f"/identity/v3/users/{who.user_id.hex}/credentials/OS-EC2"
            pair = api.post(base, {"tenant_id": own}).json()["credential"]
            assert pair["trust_id"] == made["id"]
            assert api.post(base, {"tenant_id": people.charlie.project_id.hex}).status_code in {403, 404}
        else:
            blob = '{"access": "a1", "secret": "s1", "trust_id": "mine"}'
            answer = self.post(api, type="ec2", blob=blob, project_id=own)
            assert f'"trust_id": "{made["id"]}"' in answer.json()["credential"]["blob"]
            changed = api.patch(f"{self.CREDENTIALS}/{Credential.objects.get().id}", {"credential": {"blob": blob}})
            assert changed.status_code == 400
        answer = Api(people.operator).post(EC2, signed(pair["access"], pair["secret"]))
        body = answer.json()["token"]
        assert body["user"]["id"] == who.user_id.hex
        assert body["OS-TRUST:trust"]["id"] == made["id"]
        assert [role["name"] for role in body["roles"]] == ["reader"]
        record = Credential.objects.get()
        assert api.delete(f"{self.CREDENTIALS}/{record.id}").status_code == 204
        assert with_token(answer["X-Subject-Token"]).get(SERVERS).status_code == 401

    def test_ec2_keys_go_with_it(self, people: People) -> None:
        made = give(people.alice, people.charlie, remaining_uses=2)
        api = with_token(token(people.charlie, made))
        base = f"/identity/v3/users/{people.charlie.user_id.hex}/credentials/OS-EC2"
        pair = api.post(base, {"tenant_id": people.alice.project_id.hex}).json()["credential"]
        requested = signed(pair["access"], pair["secret"])
        value = Api(people.operator).post(EC2, requested)["X-Subject-Token"]
        assert Trust.objects.get().remaining_uses == 1, "a key was got by a use and counts none itself"
        token(people.charlie, made)
        assert Api(people.operator).post(EC2, requested).status_code == 401
        Api(people.alice).delete(f"{TRUSTS}/{made['id']}")
        assert not Credential.objects.exists()
        assert with_token(value).get(SERVERS).status_code == 401


def test_looking_at_it_is_one_query(people: People, django_assert_num_queries: Any) -> None:
    value = token(people.charlie, give(people.alice, people.charlie))
    with django_assert_num_queries(1):
        context_for_token(value)


def test_token_from_before_is_still_read(people: People) -> None:
    """What was issued by the version before has no place for a trust."""
    value = people.alice.token
    data = read(value)
    packed = keys.current().decrypt(value + "=" * (-len(value) % 4))
    assert packed[0] == 0x9B, "an array of eleven"
    shorter = keys.current().encrypt(b"\x9a" + packed[1:-1]).decode().rstrip("=")
    assert read(shorter) == data


def test_expiry_of_the_trust_is_seen_by_operators_who_look_into_it(people: People) -> None:
    end = timezone.now() + timedelta(minutes=5)
    value = token(people.charlie, give(people.alice, people.charlie, expires_at=end.isoformat()))
    with time_machine.travel(end + timedelta(minutes=1), tick=False):
        operator = Api(Person(people.operator.user, people.operator.project))
        assert operator.get(TOKENS, X_Subject_Token=value).status_code == 404
        assert operator.get(f"{TOKENS}?allow_expired=1", X_Subject_Token=value).status_code == 200


def test_who_impersonates_takes_back_no_other_trust(people: People) -> None:
    made = give(people.alice, people.charlie, impersonation=True, allow_redelegation=True)
    other = give(people.alice, people.bob)
    api = with_token(token(people.charlie, made))
    assert api.delete(f"{TRUSTS}/{other['id']}").status_code == 403
    additional = api.post(TRUSTS, body(people.alice, people.bob, impersonation=True)).json()["trust"]
    assert api.delete(f"{TRUSTS}/{additional['id']}").status_code == 204
    assert api.delete(f"{TRUSTS}/{made['id']}").status_code == 204
    assert [each.id.hex for each in Trust.objects.all()] == [other["id"]]
