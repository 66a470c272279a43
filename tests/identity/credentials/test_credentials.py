"""``/v3/credentials`` and ``/v3/users/{id}/credentials/OS-EC2``."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from provisioning.common.errors import ForbiddenError, NotFoundError
from provisioning.identity.encryption import keys
from provisioning.identity.models import Credential
from provisioning.identity.selectors.credentials import application_credentials_of, existing_credential
from provisioning.identity.selectors.tokens import context_for_token
from provisioning.identity.services.application_credentials import (
    create_application_credential,
    delete_application_credential,
)
from provisioning.identity.services.credentials import (
    LONGEST_BLOB,
    MOST_BYTES_OF_USER,
    blob_of,
    create_credential,
    delete_credential,
    encrypt_again,
)
from provisioning.identity.services.tokens import issue_token
from tests.support.cast import Api, People, Person
from tests.support.tables import each_row

WHERE = "/identity/v3/credentials"
KEYS = json.dumps({"access": "AKID", "secret": "s3cr3t"})


@pytest.fixture(autouse=True)
def _own_keys(settings: Settings, tmp_path: Path) -> None:
    settings.CREDENTIAL_KEYS_DIR = tmp_path / "keys"


def post(api: Api, **fields: Any) -> Any:
    return api.post(WHERE, {"credential": {"type": "cert", "blob": "my secret", **fields}})


def made(person: Person, **fields: Any) -> Any:
    answer = post(Api(person), **fields)
    assert answer.status_code == 201, answer.content
    return answer.json()["credential"]


def ec2(person: Person) -> Any:
    where = f"/identity/v3/users/{person.user_id.hex}/credentials/OS-EC2"
    return Api(person).post(where, {"tenant_id": person.project_id.hex}).json()["credential"]


def test_blob_is_encrypted_at_rest(alice: Person) -> None:
    shown = made(alice, project_id=alice.project_id.hex)
    assert (shown["blob"], shown["user_id"], shown["project_id"]) == (
        "my secret",
        alice.user_id.hex,
        alice.project_id.hex,
    )
    record = Credential.objects.get()
    assert "my secret" not in record.encrypted_blob
    assert blob_of(record) == "my secret"
    assert Api(alice).get(f"{WHERE}/{record.id}").json()["credential"] == shown


def test_id_of_an_ec2_credential_is_the_digest_of_its_access_key(alice: Person, charlie: Person) -> None:
    shown = made(alice, type="ec2", blob=KEYS, project_id=alice.project_id.hex)
    assert shown["id"] == hashlib.sha256(b"AKID").hexdigest()
    answer = post(Api(charlie), type="ec2", blob=KEYS, project_id=charlie.project_id.hex)
    assert answer.status_code == 409
    assert blob_of(Credential.objects.get()) == KEYS


@each_row(
    ("fields", "word"),
    [
        ({"type": "ec2", "blob": KEYS}, "project_id"),
        ({"type": "ec2", "blob": "no json"}, "blob"),
        ({"type": "ec2", "blob": '{"access": "a"}'}, "blob"),
        ({"type": "ec2", "blob": '{"access": "", "secret": "x"}'}, "Access"),
        ({"type": "ec2", "blob": '{"access": 1, "secret": 2}'}, "blob"),
        ({"type": "ec2", "blob": '{"access": "\\ud800", "secret": "x"}'}, "blob"),
        ({"type": "ec2", "blob": "[" * 60_000}, "blob"),
        ({"type": ""}, "type"),
        ({"blob": ""}, "blob"),
        ({"blob": {"access": "a"}}, "blob"),
        ({"color": "red"}, "color"),
        ({"user_id": 3}, "user_id"),
    ],
)
def test_wrong_fields_are_named(alice: Person, fields: dict[str, Any], word: str) -> None:
    answer = post(Api(alice), **fields)
    assert answer.status_code == 400
    assert word in answer.json()["error"]["message"]
    assert not Credential.objects.exists()


@pytest.mark.slow
def test_all_credentials_of_a_user_have_a_bound_together(alice: Person, charlie: Person, operator: Person) -> None:
    large = "x" * LONGEST_BLOB
    small, moved = made(alice), made(charlie, blob=large)
    answers = [post(Api(alice), blob=large).status_code for _ in range(13)]
    assert answers == [201] * answers.count(201) + [403] * answers.count(403)
    kept = Credential.objects.filter(user=alice.user_id).values_list("encrypted_blob", flat=True)
    assert MOST_BYTES_OF_USER // 2 < sum(map(len, kept)) <= MOST_BYTES_OF_USER
    where = f"{WHERE}/{small['id']}"
    assert Api(alice).patch(where, {"credential": {"blob": large}}).status_code == 403
    assert Api(alice).patch(where, {"credential": {"blob": "another"}}).status_code == 200
    to_alice = {"credential": {"user_id": alice.user_id.hex}}
    assert Api(operator).patch(f"{WHERE}/{moved['id']}", to_alice).status_code == 403
    Credential.objects.filter(
        id=Credential.objects.exclude(id=small["id"]).filter(user=alice.user_id).values("id")[:1]
    ).delete()
    made(alice, blob=large)


def test_users_have_their_own_and_operators_all(people: People) -> None:
    alice, charlie, operator = people.alice, people.charlie, people.operator
    mine, his = made(alice)["id"], made(charlie, type="totp")["id"]

    def listed(person: Person, query: str = "") -> set[str]:
        return {each["id"] for each in Api(person).get(WHERE + query).json()["credentials"]}

    assert listed(alice) == {mine}
    assert listed(alice, f"?user_id={charlie.user_id.hex}") == set()
    assert listed(operator) == {mine, his}
    assert listed(operator, f"?user_id={charlie.user_id.hex}") == {his}
    assert listed(operator, "?type=cert") == {mine}
    assert listed(operator, "?type=%00") == listed(operator, "?user_id=x") == set()
    assert post(Api(alice), user_id=charlie.user_id.hex).status_code == 403
    assert post(Api(operator), user_id=charlie.user_id.hex).status_code == 201
    assert post(Api(operator), user_id="f" * 32).status_code == 404
    for ask in (
        lambda: Api(charlie).get(f"{WHERE}/{mine}"),
        lambda: Api(charlie).patch(f"{WHERE}/{mine}", {"credential": {"blob": "taken"}}),
        lambda: Api(charlie).delete(f"{WHERE}/{mine}"),
        lambda: Api(charlie).get(f"{WHERE}/%00"),
    ):
        assert ask().status_code == 404
    assert Api(operator).delete(f"{WHERE}/{mine}").status_code == 204


@pytest.mark.parametrize("where", ["charlie's", "f" * 32, "x" * 64])
def test_nobody_looks_whether_there_is_the_project(people: People, where: str) -> None:
    api, own = Api(people.alice), people.alice.project_id.hex
    project_id = people.charlie.project_id.hex if where == "charlie's" else where
    shown = made(people.alice, project_id=project_id)
    path = f"{WHERE}/{shown['id']}"
    assert shown["project_id"] == api.get(path).json()["credential"]["project_id"] == project_id
    assert api.patch(path, {"credential": {"blob": "y"}}).json()["credential"]["project_id"] == project_id
    for other in (own, project_id, None):
        assert api.patch(path, {"credential": {"project_id": other}}).json()["credential"]["project_id"] == other
    keys = made(people.alice, type="ec2", blob=KEYS, project_id=project_id)
    pairs = api.get(f"/identity/v3/users/{people.alice.user_id.hex}/credentials/OS-EC2").json()["credentials"]
    assert [each["tenant_id"] for each in pairs] == [keys["project_id"]]
    assert post(api, project_id="x" * 65).status_code == 400


def test_change(alice: Person, charlie: Person) -> None:
    where = f"{WHERE}/{made(alice)['id']}"
    assert Api(alice).patch(where, {"credential": {}}).status_code == 400
    changed = Api(alice).patch(where, {"credential": {"blob": "new", "type": "other"}}).json()["credential"]
    assert (changed["blob"], changed["type"]) == ("new", "other")
    assert Api(alice).patch(where, {"credential": {"user_id": charlie.user_id.hex}}).status_code == 403
    assert Credential.objects.get().user_id == alice.user_id


def test_ec2_credential_keeps_its_type(alice: Person) -> None:
    where = f"{WHERE}/{made(alice, type='ec2', blob=KEYS, project_id=alice.project_id.hex)['id']}"
    plain = f"{WHERE}/{made(alice, project_id=alice.project_id.hex)['id']}"
    assert Api(alice).patch(where, {"credential": {"type": "cert"}}).status_code == 400
    assert Api(alice).patch(where, {"credential": {"project_id": None}}).status_code == 400
    assert Api(alice).patch(plain, {"credential": {"type": "ec2", "blob": KEYS}}).status_code == 400
    new = json.dumps({"access": "AKID", "secret": "new"})
    assert Api(alice).patch(where, {"credential": {"blob": new}}).json()["credential"]["blob"] == new


def test_ec2_resource(people: People) -> None:
    alice, charlie = people.alice, people.charlie
    where = f"/identity/v3/users/{alice.user_id.hex}/credentials/OS-EC2"
    shown = ec2(alice)
    assert shown["tenant_id"] == alice.project_id.hex
    assert len(shown["access"]) == 32
    assert [each["access"] for each in Api(alice).get(where).json()["credentials"]] == [shown["access"]]
    one = f"{where}/{shown['access']}"
    assert Api(alice).get(one).json()["credential"] == shown
    assert Api(people.operator).get(one).status_code == 200
    assert Api(charlie).get(one).status_code == 403
    own = f"/identity/v3/users/{charlie.user_id.hex}/credentials/OS-EC2"
    assert Api(charlie).get(f"{own}/{shown['access']}").status_code == 404
    assert Api(charlie).delete(f"{own}/{shown['access']}").status_code == 404
    assert Api(alice).post(where, {"tenant_id": charlie.project_id.hex}).status_code == 404
    assert Api(alice).post(where, {"tenant_id": 3}).status_code == 400
    assert Api(alice).delete(one).status_code == 204
    assert Api(alice).get(one).status_code == 404


def api_with(person: Person, **options: Any) -> Api:
    record, _ = create_application_credential(person.user, person.project, "robot", **options)
    issued = issue_token(person.user, person.project, ("x",), application_credential=record)
    return Api(None, **{"X-Auth-Token": issued.value})


def test_application_credential_gains_nothing_by_credentials(alice: Person) -> None:
    """What a person keeps is worth more than a program that acts with some of the person's roles."""
    mine, pair = made(alice), ec2(alice)
    of_ec2 = f"/identity/v3/users/{alice.user_id.hex}/credentials/OS-EC2"
    api = api_with(alice)
    assert api.get(WHERE).json()["credentials"] == []
    assert api.get(f"{WHERE}/{mine['id']}").status_code == 404
    assert api.delete(f"{WHERE}/{mine['id']}").status_code == 404
    assert api.get(of_ec2).json()["credentials"] == []
    assert api.get(f"{of_ec2}/{pair['access']}").status_code == 404
    assert api.post(of_ec2, {"tenant_id": alice.project_id.hex}).status_code == 403
    assert post(api).status_code == 403


def test_unrestricted_one_makes_pairs_that_fall_with_it(alice: Person) -> None:
    api = api_with(alice, unrestricted=True)
    of_ec2 = f"/identity/v3/users/{alice.user_id.hex}/credentials/OS-EC2"
    pair = api.post(of_ec2, {"tenant_id": alice.project_id.hex}).json()["credential"]
    assert [each["access"] for each in api.get(of_ec2).json()["credentials"]] == [pair["access"]]
    assert post(api, type="totp").status_code == 403
    (record,) = application_credentials_of(alice.user)
    delete_application_credential(record)
    assert not Credential.objects.exists()


def test_no_application_credential_takes_a_second_factor_away(alice: Person, operator: Person) -> None:
    """Not even one that made the record, before the person made a factor of it, nor that of an operator."""
    api = api_with(alice, unrestricted=True)
    record = f"{WHERE}/{post(api, type='cert').json()['credential']['id']}"
    assert Api(alice).patch(record, {"credential": {"type": "totp"}}).status_code == 200
    for one in (api, api_with(operator, unrestricted=True)):
        for change in ({"type": "cert"}, {"blob": "AAAA"}, {"user_id": alice.user_id.hex}):
            assert one.patch(record, {"credential": change}).status_code == 403
        assert one.delete(record).status_code == 403
    assert Api(operator).delete(record).status_code == 204


def test_rotation_encrypts_again_and_drops_the_old_key(
    alice: Person, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    made(alice)
    before = Credential.objects.get().encrypted_blob
    call_command("rotate_credential_keys", "--keep", "1")
    assert [path.name for path in settings.CREDENTIAL_KEYS_DIR.iterdir()] == ["2"]
    assert "1 credential" in capsys.readouterr().out
    record = Credential.objects.get()
    assert record.encrypted_blob != before
    assert blob_of(record) == "my secret"
    call_command("rotate_credential_keys")
    assert sorted(path.name for path in settings.CREDENTIAL_KEYS_DIR.iterdir()) == ["2", "3"]
    assert encrypt_again(keys.CREDENTIALS.newest()) == (0, [])
    with pytest.raises(CommandError):
        call_command("rotate_credential_keys", "--keep", "0")


def test_lost_key_is_reported_and_no_key_is_dropped(alice: Person, settings: Settings) -> None:
    shown = made(alice)
    keys.CREDENTIALS.add()
    (settings.CREDENTIAL_KEYS_DIR / "1").unlink()
    answer = Api(alice).get(f"{WHERE}/{shown['id']}")
    assert answer.status_code == 503
    assert shown["id"] in answer.json()["error"]["message"]
    with pytest.raises(CommandError, match=shown["id"]):
        call_command("rotate_credential_keys", "--keep", "1")
    assert sorted(path.name for path in settings.CREDENTIAL_KEYS_DIR.iterdir()) == ["2", "3"]
    assert Api(alice).delete(f"{WHERE}/{shown['id']}").status_code == 204


def test_services_refuse_what_the_face_would(alice: Person, charlie: Person) -> None:
    record = create_credential(alice.user, kind="cert", blob="x")
    with pytest.raises(NotFoundError):
        existing_credential(charlie.context, record.id)
    robot = context_for_token(api_with(alice).headers["X-Auth-Token"])
    with pytest.raises(ForbiddenError):
        delete_credential(record, caller=robot)
