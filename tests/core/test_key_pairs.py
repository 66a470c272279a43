"""Key pairs: made or imported, checked by parsing, with the fingerprint that ssh-keygen gives."""

from __future__ import annotations

import base64
import hashlib
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import SSHCertificateBuilder, SSHCertificateType
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError, OverQuotaError
from provisioning.compute import selectors
from provisioning.compute.models import KeyPair
from provisioning.compute.services.key_pairs import create_key_pair, delete_key_pair
from provisioning.quotas.services.limits import set_limit
from provisioning.quotas.services.repair import examine
from tests.support.clouds import context, stand

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _made(db: None) -> None:
    stand(context("alice").project_id, context("charlie").project_id)


def openssh(key: object) -> str:
    line = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)  # type: ignore[attr-defined]
    return line.decode()


@pytest.mark.parametrize(("algorithm", "word"), [("ed25519", "ssh-ed25519"), ("rsa", "ssh-rsa")])
def test_a_made_pair_fits_together(alice: RequestContext, algorithm: str, word: str) -> None:
    row, private = create_key_pair(alice, "laptop", algorithm=algorithm)
    assert private is not None
    assert row.public_key.startswith(f"{word} ")
    loaded = serialization.load_ssh_private_key(private.encode(), None)
    assert openssh(loaded).split()[1] == row.public_key.split()[1]
    assert private not in str(list(KeyPair.objects.values()))


def test_the_fingerprint_is_that_of_ssh_keygen(alice: RequestContext, tmp_path: Path) -> None:
    row, _ = create_key_pair(alice, "laptop")
    path = tmp_path / "key.pub"
    path.write_text(row.public_key)
    output = subprocess.run(
        ["ssh-keygen", "-l", "-E", "md5", "-f", str(path)], check=True, capture_output=True, text=True
    ).stdout
    assert f"MD5:{row.fingerprint} " in output


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()])
def test_ecdsa_is_imported(alice: RequestContext, curve: ec.EllipticCurve) -> None:
    line = openssh(ec.generate_private_key(curve))
    row, private = create_key_pair(alice, "mine", f"  {line}   me@home  \n")
    assert private is None
    assert row.public_key == f"  {line}   me@home  \n"


def blob(*parts: bytes) -> str:
    """Return fields of a key's wire format (RFC 4251, string) in base64."""
    return base64.b64encode(b"".join(len(part).to_bytes(4) + part for part in parts)).decode()


SK_ED25519, SK_ECDSA = b"sk-ssh-ed25519@openssh.com", b"sk-ecdsa-sha2-nistp256@openssh.com"
POINT = ec.generate_private_key(ec.SECP256R1()).public_key()
POINT_BYTES = POINT.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [(SK_ED25519, (bytes(range(32)), b"ssh:")), (SK_ECDSA, (b"nistp256", POINT_BYTES, b"ssh:"))],
)
def test_a_security_key_stays_one(alice: RequestContext, kind: bytes, fields: tuple[bytes, ...]) -> None:
    sent = f"{kind.decode()} {blob(kind, *fields)} user@host\n"
    row, _ = create_key_pair(alice, "token", sent)
    assert row.public_key == sent
    digest = hashlib.md5(base64.b64decode(sent.split()[1]), usedforsecurity=False).hexdigest()
    assert row.fingerprint.replace(":", "") == digest


def test_an_openssh_certificate_is_refused(alice: RequestContext) -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    builder = SSHCertificateBuilder().public_key(key.public_key()).type(SSHCertificateType.USER).key_id(b"me")
    builder = builder.valid_principals([b"me"]).valid_after(0).valid_before(2**63)
    line = builder.sign(key).public_bytes().decode()
    with pytest.raises(InvalidInputError) as caught:
        create_key_pair(alice, "cert", f"{line} me@home")
    assert caught.value.field == "public_key"


@pytest.mark.parametrize(
    "form",
    ["{}", "{}\n", "{}\r\n", "{}\n\n", " {}", "{}  two  blanks ", "{} émoji 👩\u200d💻", "{}\tafter a tab"],
)
def test_the_text_of_a_key_is_kept_as_sent(alice: RequestContext, form: str) -> None:
    row, _ = create_key_pair(alice, "kept", form.format(GOOD))
    row.refresh_from_db()
    assert row.public_key == form.format(GOOD)


@pytest.mark.slow
def test_a_certificate_is_kept_as_sent(alice: RequestContext) -> None:
    made, _ = create_key_pair(alice, "made", type="x509")
    sent = "Bag Attributes\r\n" + made.public_key.replace("\n", "\r\n") + "\r\n"
    row, _ = create_key_pair(alice, "imported", sent, "x509")
    assert (row.public_key, row.fingerprint) == (sent, made.fingerprint)


def rsa_line(bits: int) -> str:
    return openssh(rsa.generate_private_key(public_exponent=65537, key_size=bits))


def test_rsa_needs_2048_bits(alice: RequestContext) -> None:
    create_key_pair(alice, "strong", rsa_line(2048))
    with pytest.raises(InvalidInputError, match="too weak") as caught:
        create_key_pair(alice, "weak", rsa_line(1024))
    assert caught.value.field == "public_key"


GOOD = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGm0Ks0KqTPHDqyPZoQmJLoJUD6JsGRXSh9ARV3yZxvV"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ssh-ed25519",
        "ssh-ed25519 AAAA",
        "ssh-rsa " + GOOD.split()[1],
        GOOD + "\nssh-ed25519 AAAA",
        GOOD + "\x00",
        GOOD + "\r\nroot",
        'command="reboot" ' + GOOD,
        "-----BEGIN PRIVATE KEY-----",
        "x" * 20_000,
    ],
)
def test_what_is_no_public_key_is_refused(alice: RequestContext, text: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        create_key_pair(alice, "bad", text)
    assert caught.value.field == "public_key"
    assert not KeyPair.objects.exists()


def test_dsa_is_refused(alice: RequestContext) -> None:
    key = dsa.generate_private_key(1024)  # noqa: S505 - weak is what is tested
    blob = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    with pytest.raises(InvalidInputError):
        create_key_pair(alice, "bad", blob.decode())


@pytest.mark.parametrize("name", ["", " ", " a", "a/b", "a\nb", "a" * 256, "<b>", "ключ"])
def test_bad_names_are_refused(alice: RequestContext, name: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        create_key_pair(alice, name)
    assert caught.value.field == "name"


def test_keys_and_certificates_and_nothing_else(alice: RequestContext) -> None:
    with pytest.raises(InvalidInputError) as caught:
        create_key_pair(alice, "win", type="pgp")
    assert caught.value.field == "type"


def weak_certificate() -> str:
    """A certificate in PEM whose key has too few bits."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=1024)  # noqa: S505 - weak is what is tested
    name = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, "weak")])
    now = timezone.now()
    builder = x509.CertificateBuilder(name, name, key.public_key(), 5, now, now + timedelta(days=1))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


@pytest.mark.parametrize("text", ["nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "weak"])
def test_what_is_no_good_certificate_is_refused(alice: RequestContext, text: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        create_key_pair(alice, "win", weak_certificate() if text == "weak" else text, type="x509")
    assert caught.value.field == "public_key"
    assert not KeyPair.objects.exists()


def test_a_name_is_used_once_per_user(alice: RequestContext, charlie: RequestContext) -> None:
    create_key_pair(alice, "laptop")
    create_key_pair(charlie, "laptop")
    with pytest.raises(ConflictError, match="already exists") as caught:
        create_key_pair(context("alice"), "laptop")
    assert caught.value.field == "name"
    assert [row.name for row in selectors.key_pairs_for(alice)] == ["laptop"]


def test_key_pairs_are_counted_per_user(alice: RequestContext, charlie: RequestContext) -> None:
    for caller in (alice, charlie):
        set_limit(caller.project_id, "key_pairs", 1)
        create_key_pair(caller, "first")
        with pytest.raises(OverQuotaError):
            create_key_pair(caller, "second")
        assert selectors.limits_for(caller).usage["key_pairs"] == 1
        delete_key_pair(caller, "first")
        create_key_pair(caller, "second")
    assert examine() == []


def test_deleting(alice: RequestContext, charlie: RequestContext) -> None:
    create_key_pair(alice, "laptop")
    with pytest.raises(NotFoundError):
        delete_key_pair(charlie, "laptop")
    delete_key_pair(alice, "laptop")
    with pytest.raises(NotFoundError):
        delete_key_pair(alice, "laptop")
