"""Key pairs over HTTP."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_private_key

from tests.compute_api.conftest import V21
from tests.support.cast import Api, People
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db
KEYS = f"{V21}/os-keypairs"
PUBLIC = (
    Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode() + " a\r\n"
)


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "kind"), [("ed25519", Ed25519PrivateKey), ("rsa", RSAPrivateKey)])
def test_a_made_pair_belongs_together_and_is_shown_once(api: Api, algorithm: str, kind: type) -> None:
    answer = api.post(KEYS, {"keypair": {"name": "k", "novella:algorithm": algorithm}})
    assert answer.status_code == 200
    pair = answer.json()["keypair"]
    private = load_ssh_private_key(pair["private_key"].encode(), None)
    assert isinstance(private, kind)
    public = private.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    assert pair["public_key"].split()[:2] == public.split()
    assert "private_key" not in api.get(f"{KEYS}/k").json()["keypair"]


def test_import_list_and_delete(api: Api, people: People) -> None:
    public = Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    made = api.post(
        KEYS, {"keypair": {"name": "mine", "public_key": public + " me@home"}}, OpenStack_API_Version="compute 2.2"
    )
    assert made.status_code == 201
    assert made.json()["keypair"]["type"] == "ssh"
    assert len(made.json()["keypair"]["fingerprint"].split(":")) == 16
    assert api.post(KEYS, {"keypair": {"name": "mine", "public_key": public}}).status_code == 409
    assert [entry["keypair"]["name"] for entry in api.get(KEYS).json()["keypairs"]] == ["mine"]
    assert Api(people.charlie).get(KEYS).json()["keypairs"] == []
    assert Api(people.charlie).get(f"{KEYS}/mine").status_code == 404
    assert Api(people.charlie).delete(f"{KEYS}/mine").status_code == 404
    assert api.delete(f"{KEYS}/mine").status_code == 202
    assert api.get(f"{KEYS}/mine").status_code == 404


@each_row(
    "keypair",
    [
        {},
        {"name": ""},
        {"name": "a/b"},
        {"name": "."},
        {"name": ".."},
        {"name": "x", "public_key": "ssh-rsa nonsense"},
        {"name": "x", "public_key": ""},
        {"name": 1},
    ],
)
def test_wrong_pairs_are_400(api: Api, keypair: dict[str, object]) -> None:
    answer = api.post(KEYS, {"keypair": keypair})
    assert answer.status_code == 400
    assert api.get(KEYS).json()["keypairs"] == []


def test_a_slash_at_the_end_is_no_redirect(api: Api) -> None:
    sent = {"keypair": {"name": "slashed", "public_key": PUBLIC}}
    assert api.post(f"{KEYS}/", sent).status_code == 404, "a pair whose name was left out"
    assert api.post(KEYS, sent).status_code == 200
    assert api.get(f"{KEYS}/slashed/").json()["keypair"]["public_key"] == PUBLIC
    assert api.get(f"{KEYS}/slashed//").status_code == 404
    for path in ("/compute/v2.1/servers/detail/", "/compute/v2/flavors/detail/", "/volume/v3/volumes/detail/"):
        assert api.get(path).status_code == 200, path
    assert api.delete(f"{KEYS}/slashed/").status_code == 202
