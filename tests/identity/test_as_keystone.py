"""Keystone ignores, keeps and refuses the same things."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from portal.api.identity.auth.requests import AUTH
from portal.api.identity.credentials.ec2 import EC2_TOKEN
from provisioning.identity.models import RegisteredLimit, RoleAssignment
from provisioning.identity.services.unified_limits import create_registered_limits
from tests.support.cast import PASSWORD, Api, People
from tests.support.tables import each_row, taken

pytestmark = pytest.mark.django_db
V3 = "/identity/v3"
USER: dict[str, Any] = {"name": "alice", "domain": {"id": "default"}, "password": PASSWORD}


def asking(scope: Any = "unscoped", user: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    identity = {"methods": ["password"], "password": {"user": user or USER}}
    return {"auth": {"identity": identity, "scope": scope, **more}}


def test_unknown_fields_of_a_request_for_a_token_are_ignored(people: People) -> None:
    project = {"id": people.alice.project_id.hex}
    bodies = [
        asking(tenantName="x"),
        asking(user={**USER, "tenantId": "x"}),
        asking(user={**USER, "domain": {"id": "default", "enabled": True}}),
        asking({"project": {**project, "links": {}}}),
        asking({"project": project, "tenant": "x"}),
        {**asking(), "extra": 1},
    ]
    assert taken(AUTH, bodies) == bodies
    wrong = [asking({"project": project, "system": {"all": True}}), asking({"tenant": "x"}), asking({})]
    assert taken(AUTH, wrong) == []
    answer = Api(people.alice).post(f"{V3}/auth/tokens", bodies[3])
    assert answer.status_code == 201, answer.content


def test_assignments_on_all_projects_of_a_domain_are_listed_by_its_id(people: People) -> None:
    api = Api(people.operator)

    def found(query: str) -> set[str]:
        answer = api.get(f"{V3}/role_assignments?scope.project.id={query}")
        assert answer.status_code == 200, answer.content
        return {each["scope"]["project"]["id"] for each in answer.json()["role_assignments"]}

    everywhere = {row.project_id.hex for row in RoleAssignment.objects.exclude(project=None) if row.project_id}
    for query in ("default&include_subtree", "default&include_subtree&effective"):
        assert found(query) == everywhere
    assert found("default") == set()
    for unknown in (uuid.uuid4().hex, "nothing"):
        assert api.get(f"{V3}/role_assignments?scope.project.id={unknown}&include_subtree").status_code == 404
        assert found(unknown) == set()


def test_the_blob_of_an_ec2_credential_is_replaced_as_a_whole(people: People) -> None:
    api, project = Api(people.alice), people.alice.project_id.hex
    body = {"type": "ec2", "blob": json.dumps({"access": "a", "secret": "s"}), "project_id": project}
    made = api.post(f"{V3}/credentials", {"credential": body}).json()["credential"]
    blob = json.dumps({"access": "other", "secret": "t"})
    answer = api.patch(f"{V3}/credentials/{made['id']}", {"credential": {"blob": blob}})
    assert answer.status_code == 200, answer.content
    shown = api.get(f"{V3}/credentials/{made['id']}").json()["credential"]
    assert (shown["id"], shown["blob"]) == (made["id"], blob)
    for wrong in ({"access": "a"}, {"access": "a", "secret": "s", "trust_id": "t"}):
        refused = api.patch(f"{V3}/credentials/{made['id']}", {"credential": {"blob": json.dumps(wrong)}})
        assert refused.status_code == 400


def test_registered_limits_stay_when_their_service_is_deleted(people: People) -> None:
    api = Api(people.operator)
    service = api.post(f"{V3}/services", {"service": {"type": "mine"}}).json()["service"]["id"]
    [row] = create_registered_limits([{"service_id": service, "resource_name": "things", "default_limit": 5}])
    assert api.delete(f"{V3}/services/{service}").status_code == 204
    assert RegisteredLimit.objects.filter(pk=row.pk).exists()
    [shown] = api.get(f"{V3}/registered_limits?service_id={service}").json()["registered_limits"]
    assert shown["service_id"] == service
    assert api.delete(f"{V3}/registered_limits/{row.id.hex}").status_code == 204


def test_policies_are_kept_and_shown(people: People) -> None:
    api = Api(people.operator)
    body = {"blob": "{'a': 1}", "type": "application/json", "own": ["x"]}
    answer = api.post(f"{V3}/policies", {"policy": body})
    assert answer.status_code == 201, answer.content
    made = answer.json()["policy"]
    assert {name: made[name] for name in body} == body
    path = f"{V3}/policies/{made['id']}"
    assert api.get(path).json()["policy"] == made
    assert [each["id"] for each in api.get(f"{V3}/policies?type=application/json").json()["policies"]] == [made["id"]]
    assert api.get(f"{V3}/policies?type=text/plain").json()["policies"] == []
    changed = api.patch(path, {"policy": {"blob": "b", "own": None}}).json()["policy"]
    assert (changed["blob"], changed["type"], "own" in changed) == ("b", "application/json", False)
    for wrong in ({}, {"policy": {}}, {"policy": {"blob": 1}}):
        assert api.patch(path, wrong).status_code == 400
    assert api.post(f"{V3}/policies", {"policy": {"blob": "b"}}).status_code == 400
    assert Api(people.alice).get(path).status_code == 403
    assert api.delete(path).status_code == 204
    assert api.get(path).status_code == 404


@each_row("length", [64, 128])
def test_a_hash_of_a_signed_body_may_be_of_any_kind(length: int) -> None:
    signed = {"access": "a", "signature": "s", "host": "h", "verb": "GET", "path": "/", "body_hash": "0" * length}
    body = {"credentials": signed}
    assert taken(EC2_TOKEN, [body]) == [body]
