"""Key pairs at each microversion: types, other users, pages, and the end of generation."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from provisioning.quotas.services.limits import set_limit
from tests.compute_api.conftest import V21
from tests.support.cast import Api, People
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db
KEYS = f"{V21}/os-keypairs"
PUBLIC = Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def at(version: str) -> dict[str, str]:
    return {"OpenStack_API_Version": f"compute {version}"}


def names(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.content
    return [entry["keypair"]["name"] for entry in answer.json()["keypairs"]]


@each_row(
    ("version", "created", "deleted", "typed"),
    [("2.1", 200, 202, False), ("2.2", 201, 204, True), ("2.91", 201, 204, True), ("2.96", 201, 204, True)],
)
def test_statuses_and_shapes(api: Api, people: People, version: str, created: int, deleted: int, typed: bool) -> None:
    made = api.post(KEYS, {"keypair": {"name": "k", "public_key": PUBLIC}}, **at(version))
    assert made.status_code == created
    base = {"name", "public_key", "fingerprint"} | ({"type"} if typed else set())
    assert set(made.json()["keypair"]) == base | {"user_id"}
    assert set(api.get(KEYS, **at(version)).json()["keypairs"][0]["keypair"]) == base
    shown = api.get(f"{KEYS}/k", **at(version)).json()["keypair"]
    assert set(shown) == base | {"user_id", "id", "created_at", "updated_at", "deleted", "deleted_at"}
    assert (shown["deleted"], shown["deleted_at"], shown["updated_at"]) == (False, None, None)
    assert shown["user_id"] == people.alice.user_id.hex
    gone = api.delete(f"{KEYS}/k", **at(version))
    assert (gone.status_code, gone.content) == (deleted, b"")


@each_row(
    ("version", "keypair", "status"),
    [
        ("2.1", {"type": "ssh"}, 400),
        ("2.2", {"type": "ssh"}, 201),
        ("2.2", {"type": "pgp"}, 400),
        ("2.9", {"user_id": "x"}, 400),
        ("2.10", {"user_id": "nonsense"}, 400),
        ("2.91", {"name": "a@b.c"}, 400),
        ("2.92", {"name": "a@b.c"}, 400),
        ("2.92", {"name": "a@b.c", "public_key": PUBLIC}, 201),
        ("2.92", {}, 400),
        ("2.91", {}, 201),
        ("2.92", {"public_key": PUBLIC, "novella:algorithm": "rsa"}, 400),
    ],
)
def test_each_version_takes_its_fields(api: Api, version: str, keypair: dict[str, str], status: int) -> None:
    assert api.post(KEYS, {"keypair": {"name": "k"} | keypair}, **at(version)).status_code == status


def test_operators_keep_other_users_keys_from_2_10(people: People) -> None:
    operator, alice, user = Api(people.operator), Api(people.alice), people.alice.user_id.hex
    made = operator.post(KEYS, {"keypair": {"name": "k", "public_key": PUBLIC, "user_id": user}}, **at("2.10"))
    assert (made.status_code, made.json()["keypair"]["user_id"]) == (201, user)
    assert names(alice.get(KEYS)) == ["k"]
    assert names(operator.get(f"{KEYS}?user_id={user}", **at("2.10"))) == ["k"]
    assert names(operator.get(f"{KEYS}?user_id={user}", **at("2.9"))) == [], "not looked at before"
    assert operator.get(f"{KEYS}/k?user_id={user}", **at("2.10")).status_code == 200
    assert operator.get(f"{KEYS}/k", **at("2.10")).status_code == 404
    assert operator.delete(f"{KEYS}/k?user_id={user}", **at("2.9")).status_code == 404
    assert operator.delete(f"{KEYS}/k?user_id={user}", **at("2.10")).status_code == 204
    assert names(alice.get(KEYS)) == []
    unknown = {"keypair": {"name": "k", "public_key": PUBLIC, "user_id": "0" * 32}}
    assert operator.post(KEYS, unknown, **at("2.10")).status_code == 400
    assert names(operator.get(f"{KEYS}?user_id=nobody", **at("2.10"))) == []


def test_nobody_else_reaches_other_users_keys(people: People) -> None:
    bob, charlie, user = Api(people.bob), Api(people.charlie), people.alice.user_id.hex
    Api(people.alice).post(KEYS, {"keypair": {"name": "k", "public_key": PUBLIC}})
    body = {"keypair": {"name": "x", "public_key": PUBLIC, "user_id": user}}
    for answer in (
        bob.get(f"{KEYS}?user_id={user}", **at("2.10")),
        bob.get(f"{KEYS}/k?user_id={user}", **at("2.10")),
        charlie.get(f"{KEYS}?user_id={user}", **at("2.96")),
        charlie.delete(f"{KEYS}/k?user_id={user}", **at("2.10")),
        charlie.post(KEYS, body, **at("2.10")),
    ):
        assert answer.status_code == 403
    assert names(Api(people.alice).get(KEYS)) == ["k"]
    own = Api(people.alice).get(f"{KEYS}/k?user_id={user}", **at("2.10"))
    assert own.status_code == 200


def test_pages_from_2_35(api: Api) -> None:
    for name in ("c", "a", "b"):
        api.post(KEYS, {"keypair": {"name": name, "public_key": PUBLIC}})
    assert names(api.get(f"{KEYS}?limit=1", **at("2.34"))) == ["a", "b", "c"]
    first = api.get(f"{KEYS}?limit=2", **at("2.35"))
    assert names(first) == ["a", "b"]
    [link] = first.json()["keypairs_links"]
    assert link["rel"] == "next"
    rest = api.get(link["href"].partition("8000")[2], **at("2.35"))
    assert names(rest) == ["c"]
    assert "keypairs_links" not in rest.json()
    for query in ("limit=x", "limit=-1", "marker=nothing"):
        assert api.get(f"{KEYS}?{query}", **at("2.35")).status_code == 400
        assert api.get(f"{KEYS}?{query}", **at("2.34")).status_code == 200


@pytest.mark.parametrize(("version", "status"), [("2.74", 200), ("2.75", 400)])
def test_unknown_parameters_are_refused_from_2_75(api: Api, version: str, status: int) -> None:
    api.post(KEYS, {"keypair": {"name": "k", "public_key": PUBLIC}})
    assert api.get(f"{KEYS}?colour=red", **at(version)).status_code == status
    assert api.get(f"{KEYS}/k?limit=1", **at(version)).status_code == status
    assert api.delete(f"{KEYS}/k?colour=red", **at(version)).status_code == (204 if status == 200 else 400)


@pytest.mark.slow
def test_a_certificate_is_made_and_imported(api: Api) -> None:
    made = api.post(KEYS, {"keypair": {"name": "w", "type": "x509"}}, **at("2.2")).json()["keypair"]
    certificate = x509.load_pem_x509_certificate(made["public_key"].encode())
    private = load_pem_private_key(made["private_key"].encode(), None)
    assert certificate.public_key() == private.public_key()
    assert (made["type"], len(made["fingerprint"].split(":"))) == ("x509", 20)
    body = {"keypair": {"name": "i", "type": "x509", "public_key": made["public_key"]}}
    imported = api.post(KEYS, body, **at("2.92"))
    assert imported.status_code == 201
    assert imported.json()["keypair"]["fingerprint"] == made["fingerprint"]
    assert "private_key" not in imported.json()["keypair"]
    body["keypair"] |= {"name": "n", "public_key": PUBLIC}
    wrong = api.post(KEYS, body, **at("2.92"))
    assert wrong.status_code == 400
    assert "X.509" in wrong.json()["badRequest"]["message"]


def test_the_quota_is_that_of_the_user(people: People) -> None:
    set_limit(people.operator.project_id, "key_pairs", 1)
    operator = Api(people.operator)
    for name, status in (("a", 201), ("b", 403)):
        body = {"keypair": {"name": name, "public_key": PUBLIC, "user_id": people.alice.user_id.hex}}
        assert operator.post(KEYS, body, **at("2.10")).status_code == status
    assert operator.post(KEYS, {"keypair": {"name": "own", "public_key": PUBLIC}}).status_code == 200
