"""Key pairs: made, imported, listed and deleted."""

from __future__ import annotations

import base64
import textwrap
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from django.utils import timezone

from provisioning.compute.models import KeyPair
from provisioning.ec2.models import Ec2Id, Ec2Tag
from provisioning.jobs import retention
from tests.ec2_api.conftest import Boto, code_of
from tests.support.cast import People
from tests.support.tables import each_row

OPENSSH = (serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
DER = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
ED25519 = ed25519.Ed25519PrivateKey.generate().public_key()
LINE = ED25519.public_bytes(*OPENSSH).decode()
TAGS = [{"ResourceType": "key-pair", "Tags": [{"Key": "team", "Value": "red"}]}]


def _refused(call: Any, **arguments: Any) -> str:
    with pytest.raises(ClientError) as error:
        call(**arguments)
    return code_of(error)


@pytest.mark.slow
def test_an_rsa_pair_opens_what_its_public_half_closes(alice: Any) -> None:
    made = alice.create_key_pair(KeyName="night", TagSpecifications=TAGS)
    private = serialization.load_pem_private_key(made["KeyMaterial"].encode(), None)
    assert made["KeyMaterial"].startswith("-----BEGIN RSA PRIVATE KEY-----")
    (key_pair,) = alice.describe_key_pairs(KeyNames=["night"], IncludePublicKey=True)["KeyPairs"]
    assert private.public_key().public_bytes(*OPENSSH).decode() == key_pair["PublicKey"].rpartition(" ")[0]
    assert (key_pair["KeyType"], key_pair["KeyPairId"]) == ("rsa", made["KeyPairId"])
    assert made["KeyFingerprint"] == key_pair["KeyFingerprint"] == KeyPair.objects.get().fingerprint
    assert made["Tags"] == key_pair["Tags"] == [{"Key": "team", "Value": "red"}]
    assert abs(key_pair["CreateTime"] - timezone.now()) < timedelta(minutes=1)
    assert "PublicKey" not in alice.describe_key_pairs()["KeyPairs"][0]


def test_an_ed25519_pair_is_in_the_format_of_openssh(alice: Any) -> None:
    made = alice.create_key_pair(KeyName="day", KeyType="ed25519")
    assert isinstance(serialization.load_ssh_private_key(made["KeyMaterial"].encode(), None), ed25519.Ed25519PrivateKey)
    assert len(base64.b64decode(made["KeyFingerprint"], validate=True)) == 32
    assert alice.describe_key_pairs()["KeyPairs"][0]["KeyType"] == "ed25519"


@pytest.mark.parametrize("form", ["line", "rfc 4716", "der"])
def test_public_keys_are_imported_in_the_formats_of_ec2(alice: Any, form: str) -> None:
    key = rsa.generate_private_key(65537, 2048).public_key()
    line = key.public_bytes(*OPENSSH).decode()
    body = "\n".join(textwrap.wrap(line.split()[1], 70))
    headers = 'Comment: "a key that \\\ngoes on"\nSubject: me'
    material = {
        "line": f"{line} me@here\n",
        "rfc 4716": f"---- BEGIN SSH2 PUBLIC KEY ----\n{headers}\n{body}\n---- END SSH2 PUBLIC KEY ----\n",
        "der": base64.encodebytes(key.public_bytes(*DER)).decode(),
    }[form]
    made = alice.import_key_pair(KeyName="mine", PublicKeyMaterial=material.encode(), TagSpecifications=TAGS)
    assert made["Tags"] == [{"Key": "team", "Value": "red"}]
    kept = alice.describe_key_pairs(IncludePublicKey=True)["KeyPairs"][0]["PublicKey"]
    assert kept == (material if form == "line" else line)
    assert "KeyMaterial" not in made


@pytest.mark.parametrize("form", ["{}\n", " {}", "{}\r\n"])
def test_a_security_key_is_imported_as_sent(alice: Any, form: str) -> None:
    kind = b"sk-ssh-ed25519@openssh.com"
    fields = (kind, bytes(range(32)), b"ssh:")
    blob = base64.b64encode(b"".join(len(field).to_bytes(4) + field for field in fields)).decode()
    sent = form.format(f"{kind.decode()} {blob} me@here")
    made = alice.import_key_pair(KeyName="token", PublicKeyMaterial=sent.encode())
    result = alice.describe_key_pairs(IncludePublicKey=True)["KeyPairs"][0]
    assert result["PublicKey"] == sent
    assert result["KeyFingerprint"] == made["KeyFingerprint"]


@each_row(
    "material",
    [
        b"rubbish", b"\xff\xfe", b"ssh-rsa AAAA", b"---- BEGIN SSH2 PUBLIC KEY ----\nAA=\n----", base64.b64encode(b"x"),
        b"---- BEGIN SSH2 PUBLIC KEY ----", b"---- BEGIN SSH2 PUBLIC KEY ----\n/////w==\n---- END SSH2 PUBLIC KEY ----",
        base64.b64encode(rsa.generate_private_key(65537, 1024).public_key().public_bytes(*DER)),  # noqa: S505
    ],
)  # fmt: skip
def test_what_is_no_key_or_a_weak_one_is_refused(alice: Any, material: bytes) -> None:
    assert _refused(alice.import_key_pair, KeyName="a", PublicKeyMaterial=material) == "InvalidKeyPair.Format"
    assert not KeyPair.objects.exists()


def test_names_are_checked_and_there_once(alice: Any, charlie: Any) -> None:
    alice.import_key_pair(KeyName="mine", PublicKeyMaterial=LINE.encode())
    charlie.import_key_pair(KeyName="mine", PublicKeyMaterial=LINE.encode())
    assert _refused(alice.create_key_pair, KeyName="mine", KeyType="ed25519") == "InvalidKeyPair.Duplicate"
    assert _refused(alice.create_key_pair, KeyName="a/b") == "InvalidParameterValue"
    assert _refused(alice.create_key_pair, KeyName="a", KeyType="dsa") == "InvalidParameterValue"
    assert _refused(alice.create_key_pair, KeyName="a", KeyFormat="ppk") == "UnsupportedOperation"
    assert _refused(alice.create_key_pair) == "MissingParameter"


@pytest.mark.slow
def test_key_pairs_are_found_by_name_id_and_filter(alice: Any, charlie: Any) -> None:
    for name in ("one", "two", "three"):
        alice.import_key_pair(KeyName=name, PublicKeyMaterial=LINE.encode())
    strange = charlie.import_key_pair(KeyName="four", PublicKeyMaterial=LINE.encode())["KeyPairId"]
    ids = {each["KeyName"]: each["KeyPairId"] for each in alice.describe_key_pairs()["KeyPairs"]}
    assert list(ids) == ["one", "two", "three"]
    alice.create_tags(Resources=[ids["two"]], Tags=[{"Key": "team", "Value": "blue"}])

    def names_of(**arguments: Any) -> list[str]:
        return [each["KeyName"] for each in alice.describe_key_pairs(**arguments)["KeyPairs"]]

    assert names_of(KeyPairIds=[ids["two"]], KeyNames=["one"]) == ["one", "two"]
    assert names_of(Filters=[{"Name": "key-name", "Values": ["t*"]}]) == ["two", "three"]
    assert names_of(Filters=[{"Name": "key-pair-id", "Values": [ids["one"]]}]) == ["one"]
    assert names_of(Filters=[{"Name": "tag:team", "Values": ["blue"]}]) == ["two"]
    assert names_of(Filters=[{"Name": "fingerprint", "Values": ["00:11"]}]) == []
    for arguments in ({"KeyNames": ["four"]}, {"KeyPairIds": [strange]}, {"KeyPairIds": ["vol-12345678"]}):
        assert _refused(alice.describe_key_pairs, **arguments) == "InvalidKeyPair.NotFound"
    assert _refused(alice.create_tags, Resources=[strange], Tags=[{"Key": "a"}]) == "InvalidKeyPair.NotFound"


@pytest.mark.slow
def test_key_pairs_are_deleted_by_name_and_id_and_a_second_time(alice: Any, charlie: Any) -> None:
    kept = charlie.import_key_pair(KeyName="kept", PublicKeyMaterial=LINE.encode())["KeyPairId"]
    ids = [
        alice.import_key_pair(KeyName=name, PublicKeyMaterial=LINE.encode(), TagSpecifications=TAGS)["KeyPairId"]
        for name in ("one", "two")
    ]
    for _ in range(2):
        assert alice.delete_key_pair(KeyName="one")["Return"] is True
        assert alice.delete_key_pair(KeyPairId=ids[1])["Return"] is True
    assert alice.delete_key_pair(KeyPairId=kept)["Return"] is True
    assert alice.delete_key_pair(KeyName="kept")["Return"] is True
    assert [pair.name for pair in KeyPair.objects.all()] == ["kept"]
    assert _refused(alice.delete_key_pair) == "MissingParameter"
    assert _refused(alice.delete_key_pair, KeyName="a", KeyPairId=ids[0]) == "InvalidParameterCombination"


@pytest.mark.both_databases("locks")
@pytest.mark.django_db
def test_what_is_gone_loses_its_id_and_tags(boto: Boto, people: People) -> None:
    alice = boto(people.alice)
    for name in ("gone", "kept"):
        alice.import_key_pair(KeyName=name, PublicKeyMaterial=LINE.encode(), TagSpecifications=TAGS)
    gone, kept = [each["KeyPairId"] for each in alice.describe_key_pairs()["KeyPairs"]]
    alice.delete_key_pair(KeyName="gone")
    retention.purge(timezone.now())
    assert list(Ec2Id.objects.filter(ec2_id__in=[gone, kept]).values_list("ec2_id", flat=True)) == [kept]
    assert Ec2Tag.objects.count() == 1
    assert alice.describe_key_pairs()["KeyPairs"][0]["KeyPairId"] == kept


def test_a_list_takes_the_same_queries_however_long(alice: Any, django_assert_max_num_queries: Any) -> None:
    for number in range(3):
        alice.import_key_pair(KeyName=f"k{number}", PublicKeyMaterial=LINE.encode(), TagSpecifications=TAGS)
    with django_assert_max_num_queries(12):
        alice.describe_key_pairs()
    for number in range(3, 9):
        alice.import_key_pair(KeyName=f"k{number}", PublicKeyMaterial=LINE.encode())
    with django_assert_max_num_queries(12):
        assert len(alice.describe_key_pairs()["KeyPairs"]) == 9


def test_readers_see_and_make_none_and_the_waiter_ends(alice: Any, bob: Any) -> None:
    assert bob.describe_key_pairs()["KeyPairs"] == []
    alice.create_key_pair(KeyName="x", KeyType="ed25519")
    alice.get_waiter("key_pair_exists").wait(KeyNames=["x"])
    assert _refused(alice.create_key_pair, KeyName="y", DryRun=True) == "DryRunOperation"
    assert KeyPair.objects.count() == 1
