"""``/v3/ec2tokens`` and ``/v3/s3tokens``: who signed a request that an AWS client made."""

from __future__ import annotations

import base64
import hashlib
import hmac
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.utils import timezone
from pytest_django import Settings

from provisioning.common.errors import NotAuthenticatedError
from provisioning.identity.credentials.ec2_signatures import SignedRequest
from provisioning.identity.models import Credential, Role, SignIn
from provisioning.identity.selectors.tokens import context_for_token, context_of
from provisioning.identity.services.application_credentials import (
    create_application_credential,
    delete_application_credential,
)
from provisioning.identity.services.assignments import assign_role
from provisioning.identity.services.credentials import create_credential, delete_credential
from provisioning.identity.services.ec2 import context_for_request, create_ec2_credential
from provisioning.identity.services.roles import ensure_role
from provisioning.identity.services.tokens import issue_token
from provisioning.identity.services.users import set_user_enabled
from tests.identity.bodies import TOKENS, by_token, in_project
from tests.support.cast import Api, People, Person, make_user
from tests.support.roles import remove_role
from tests.support.tables import each_row

EC2, S3 = "/identity/v3/ec2tokens", "/identity/v3/s3tokens"


@pytest.fixture(autouse=True)
def _own_keys(settings: Settings, tmp_path: Path) -> None:
    settings.CREDENTIAL_KEYS_DIR = tmp_path / "keys"


def pair_of(person: Person) -> tuple[str, str]:
    return create_ec2_credential(person.user, person.project)


def signed(access: str, secret: str, /, **changes: Any) -> dict[str, Any]:
    """A request signed in version 2, as a service that got it describes it."""
    params = {
        "AWSAccessKeyId": access,
        "Action": "DescribeInstances",
        "SignatureMethod": "HmacSHA256",
        "SignatureVersion": "2",
        "Timestamp": timezone.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    query = "&".join(f"{quote(name, safe='')}={quote(params[name], safe='-_.~')}" for name in sorted(params))
    digest = hmac.new(secret.encode(), f"GET\nec2.cloud\n/\n{query}".encode(), hashlib.sha256).digest()
    given = {
        "access": access,
        "signature": base64.b64encode(digest).decode(),
        "host": "ec2.cloud",
        "verb": "GET",
        "path": "/",
        "params": params,
        "headers": {},
        "body_hash": "",
    }
    return {"credentials": given | changes}


def signed_for_s3(access: str, secret: str) -> dict[str, Any]:
    text = b"GET\n\n\nTue, 27 Mar 2007 19:36:42 +0000\n/bucket/key"
    signature = base64.b64encode(hmac.new(secret.encode(), text, hashlib.sha1).digest()).decode()
    return {"credentials": {"access": access, "signature": signature, "token": base64.b64encode(text).decode()}}


@pytest.mark.parametrize(("where", "sign"), [(EC2, signed), (S3, signed_for_s3)])
def test_token_is_of_the_keys_user_and_project(people: People, where: str, sign: Any) -> None:
    access, secret = pair_of(people.alice)
    answer = Api(people.operator).post(where, sign(access, secret))
    assert answer.status_code == 200, answer.content
    token = answer.json()["token"]
    assert token["methods"] == ["ec2credential"]
    assert token["user"]["id"] == people.alice.user_id.hex
    assert token["project"]["id"] == people.alice.project_id.hex
    assert {role["name"] for role in token["roles"]} == {"member", "reader"}
    assert "catalog" in token
    context = context_for_token(answer["X-Subject-Token"])
    assert context.user_id == people.alice.user_id
    assert Api(people.operator).post(where, sign(access, "wrong")).status_code == 401
    assert Api(people.operator).post(where, sign("unknown", secret)).status_code == 401


@pytest.mark.parametrize("known", [True, False])
def test_keys_for_a_project_without_a_role_there_open_nothing(people: People, known: bool) -> None:
    project = people.charlie.project if known else "f" * 32
    create_credential(people.alice.user, kind="ec2", blob='{"access": "a", "secret": "s"}', project=project)
    assert Api(people.operator).post(EC2, signed("a", "s")).status_code == 401
    with pytest.raises(NotAuthenticatedError):
        context_for_request(SignedRequest(**signed("a", "s")["credentials"]))


def test_other_names_of_the_body(people: People) -> None:
    keys = pair_of(people.alice)
    for name in ("ec2Credentials", "credential"):
        assert Api(people.operator).post(EC2, {name: signed(*keys)["credentials"]}).status_code == 200
    assert Api(people.operator).post(S3, {"credential": signed_for_s3(*keys)["credentials"]}).status_code == 200


@pytest.mark.parametrize(("where", "sign"), [(EC2, signed), (S3, signed_for_s3)])
def test_only_operators_and_services_may_ask(people: People, where: str, sign: Any) -> None:
    body = sign(*pair_of(people.alice))
    assert Api(None).post(where, body).status_code == 401
    assert Api(people.alice).post(where, body).status_code == 403
    assert not SignIn.objects.filter(user=people.alice.user).exists()
    ensure_role("service")
    gateway = Person(make_user("gateway", {people.operator.project: "service"}), people.operator.project)
    assert Api(gateway).post(where, body).status_code == 200


@each_row(
    "body",
    [
        {},
        {"credentials": {}},
        {"credentials": []},
        signed("a", "b", params={"a": ["b"]}),
        signed("a", "b", headers="x"),
        signed("a", "b", access=3),
        signed("a", "b") | {"ec2Credentials": {}},
        signed("a", "b", color="red"),
    ],
)
def test_wrong_bodies(operator: Person, body: Any) -> None:
    assert Api(operator).post(EC2, body).status_code == 400


def test_wrong_s3_bodies(operator: Person) -> None:
    for body in ({}, {"credentials": {"access": "a"}}, {"credentials": {"access": "a", "signature": "b", "token": 3}}):
        assert Api(operator).post(S3, body).status_code == 400


def test_tokens_end_with_the_pair(people: People) -> None:
    access, secret = pair_of(people.alice)
    value = Api(people.operator).post(EC2, signed(access, secret))["X-Subject-Token"]
    other = people.alice.token
    assert "member" in context_for_token(value).roles
    delete_credential(Credential.objects.get())
    with pytest.raises(NotAuthenticatedError):
        context_for_token(value)
    assert "member" in context_for_token(other).roles
    assert Api(people.operator).post(EC2, signed(access, secret)).status_code == 401


def test_one_session_for_each_pair(people: People) -> None:
    access, secret = pair_of(people.alice)
    for _ in range(3):
        Api(people.operator).post(EC2, signed(access, secret))
    assert SignIn.objects.filter(user=people.alice.user).count() == 1


def test_nothing_without_a_role_or_for_a_closed_user(people: People) -> None:
    access, secret = pair_of(people.alice)
    set_user_enabled(people.alice.user, enabled=False)
    assert Api(people.operator).post(EC2, signed(access, secret)).status_code == 401
    set_user_enabled(people.alice.user, enabled=True)
    remove_role(people.alice.user, people.alice.project, "member")
    assert Api(people.operator).post(EC2, signed(access, secret)).status_code == 401


def test_pair_of_an_application_credential_is_worth_no_more_than_that(people: People) -> None:
    alice = people.alice
    record, _ = create_application_credential(
        alice.user, alice.project, "robot", roles=[Role.objects.get(name="reader")], unrestricted=True
    )
    issued = issue_token(alice.user, alice.project, ("x",), application_credential=record)
    caller = context_of(issued.data)
    access, secret = create_ec2_credential(alice.user, alice.project, caller=caller)
    answer = Api(people.operator).post(EC2, signed(access, secret))
    assert {role["name"] for role in answer.json()["token"]["roles"]} == {"reader"}
    assert context_for_token(answer["X-Subject-Token"]).roles == {"reader"}
    delete_application_credential(record)
    assert Api(people.operator).post(EC2, signed(access, secret)).status_code == 401
    with pytest.raises(NotAuthenticatedError):
        context_for_token(answer["X-Subject-Token"])


def test_its_token_stays_in_the_key_s_project_and_changes_nothing_in_identity(people: People) -> None:
    """A service gets it to know who asks; who holds it is not the user."""
    assign_role(people.alice.user, people.charlie.project, "member")
    user = f"/identity/v3/users/{people.alice.user_id.hex}"
    value = Api(people.operator).post(EC2, signed(*pair_of(people.alice)))["X-Subject-Token"]
    for scope in (in_project(people.charlie), "unscoped", {"system": {"all": True}}):
        assert Api(None).post(TOKENS, by_token(value, scope)).status_code == 403, scope
    additional = Api(None).post(TOKENS, by_token(value, in_project(people.alice)))
    assert additional.status_code == 201
    for each in (value, additional["X-Subject-Token"]):
        api = Api(None, **{"X-Auth-Token": each})
        assert api.get("/compute/v2.1/servers").status_code == 200
        assert api.get(user).status_code == 403
        body = {"application_credential": {"name": "x"}}
        assert api.post(f"{user}/application_credentials", body).status_code == 403
        looked = Api(people.operator).get(TOKENS, **{"X-Subject-Token": each})
        assert looked.json()["token"]["user"]["id"] == people.alice.user_id.hex
