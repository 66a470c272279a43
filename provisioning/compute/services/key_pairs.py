"""Key pairs, generated or imported. A generated private key is returned once and never stored."""

import base64
import hashlib
import re
import unicodedata
import uuid
from dataclasses import dataclass
from datetime import timedelta

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey, generate_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from django.db import IntegrityError, transaction
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError, ForbiddenError, InvalidInputError
from provisioning.compute import selectors
from provisioning.compute.models import KeyPair
from provisioning.compute.records.names import key_pair_owner
from provisioning.identity.selectors.lookups import users_by_id
from provisioning.quotas.selectors import Bounds, bounds_of
from provisioning.quotas.services.ledger import hold, release

_NAME = re.compile(r"[A-Za-z0-9 _@.-]{1,255}")

MIN_RSA_BITS = 2048
RSA_BITS = 3072
LONGEST = 16_384
"""Maximum number of characters of an imported key or certificate."""
CERTIFICATE_LIFETIME = timedelta(days=3650)
_NOT_IN_A_LINE = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode categories of control characters, surrogates, and separators of lines and paragraphs."""
_CERTIFICATE = "-cert-v01@"
"""Part of the type of every OpenSSH certificate: ``ssh-ed25519-cert-v01@openssh.com``."""
_UPN = x509.ObjectIdentifier("1.3.6.1.4.1.311.20.2.3")
"""OID of a Windows user's name (UPN), by which WinRM finds the account of a certificate."""


@dataclass(frozen=True, slots=True)
class Material:
    """A public key in OpenSSH format or a certificate in PEM, its fingerprint, and the generated private key."""

    public_key: str
    fingerprint: str
    private_key: str | None = None
    """In OpenSSH format, or PKCS 8 for a certificate; None for an imported public key."""


def make_ssh(algorithm: str) -> Material:
    """Generate a key pair; ``algorithm`` is ``ed25519`` or ``rsa``. Raises InvalidInputError."""
    key: Ed25519PrivateKey | RSAPrivateKey
    if algorithm == "ed25519":
        key = Ed25519PrivateKey.generate()
    elif algorithm == "rsa":
        key = generate_private_key(public_exponent=65537, key_size=RSA_BITS)
    else:
        raise InvalidInputError(
            f"Keys of type {algorithm!r} cannot be generated; use 'ed25519' or 'rsa'.", field="algorithm"
        )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    public = f"{_line(key.public_key())} Generated-by-Novella"
    return Material(public, _md5(public), private.decode())


def make_certificate(user: str) -> Material:
    """Create a self-signed certificate with which this user signs in to a Windows guest by WinRM."""
    key = generate_private_key(public_exponent=65537, key_size=RSA_BITS)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, user[:64])])
    upn = f"{user[:64]}@localhost".encode()
    now = timezone.now()
    certificate = (
        x509.CertificateBuilder(subject_name=name, issuer_name=name, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + CERTIFICATE_LIFETIME)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.OtherName(_UPN, _utf8_string(upn))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Material(_pem(certificate), _sha1(certificate), private.decode())


def read_ssh(text: str) -> Material:
    """Validate an imported key and return it unchanged, with the fingerprint of its blob.

    Surrounding whitespace is kept, because clients compare the result with the key in their request. Security keys
    (``sk-ssh-ed25519@openssh.com``, ``sk-ecdsa-sha2-nistp256@openssh.com``) keep their type, which ``sshd`` needs.
    Raises InvalidInputError for ``public_key``.
    """
    line = text.strip()
    if len(text) > LONGEST or any(unicodedata.category(each) in _NOT_IN_A_LINE for each in line.replace("\t", " ")):
        raise _invalid(f"a public key is one line of at most {LONGEST:,} characters.")
    if _CERTIFICATE in line.partition(" ")[0]:
        raise _invalid("sshd does not accept an OpenSSH certificate as an authorized key; import its public key.")
    try:
        key = serialization.load_ssh_public_key(line.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _invalid("it is not an OpenSSH public key.") from error
    if isinstance(key, RSAPublicKey):
        _check_strength(key)
    elif not isinstance(key, Ed25519PublicKey | EllipticCurvePublicKey):
        raise _invalid("use an ed25519, RSA or ECDSA key.")
    return Material(text, _md5(line))


def read_certificate(text: str) -> Material:
    """Validate an imported certificate in PEM and return it unchanged. Raises InvalidInputError."""
    if len(text) > LONGEST or "\0" in text:
        raise _invalid(f"a certificate has at most {LONGEST:,} characters.")
    try:
        certificate = x509.load_pem_x509_certificate(text.strip().encode())
        key = certificate.public_key()
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _invalid("it is not an X.509 certificate in PEM.") from error
    if isinstance(key, RSAPublicKey):
        _check_strength(key)
    return Material(text, _sha1(certificate))


def _invalid(why: str) -> InvalidInputError:
    return InvalidInputError(f"Keypair data is invalid: {why}", field="public_key")


def _check_strength(key: RSAPublicKey) -> None:
    if key.key_size < MIN_RSA_BITS:
        raise _invalid(f"an RSA key of {key.key_size} bits is too weak; at least {MIN_RSA_BITS} are required.")


def _line(key: Ed25519PublicKey | RSAPublicKey | EllipticCurvePublicKey) -> str:
    return key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _utf8_string(text: bytes) -> bytes:
    return bytes((0x0C, len(text))) + text


def _md5(line: str) -> str:
    """Return the MD5 of the key's blob as hexadecimal pairs with colons, the Compute API's fingerprint."""
    return _pairs(hashlib.md5(base64.b64decode(line.split()[1]), usedforsecurity=False).digest())


def _sha1(certificate: x509.Certificate) -> str:
    return _pairs(certificate.fingerprint(hashes.SHA1()))  # noqa: S303 - the reference's fingerprint


def _pairs(digest: bytes) -> str:
    return ":".join(f"{byte:02x}" for byte in digest)


@when_broken_off
def create_key_pair(
    context: RequestContext,
    name: str,
    public_key: str | None = None,
    type: str = "ssh",  # noqa: A002 - the field's name in the API
    algorithm: str = "ed25519",
    *,
    user_id: uuid.UUID | None = None,
) -> tuple[KeyPair, str | None]:
    """Store an imported public key, or generate a key pair and return its private key.

    ``type`` is ``ssh`` (OpenSSH formats; ``algorithm`` is ``ed25519`` or ``rsa``) or ``x509`` (a certificate in PEM).
    ``user_id`` is the owner: the caller, or another user for operators. Raises InvalidInputError (``name``,
    ``public_key``, ``type``, ``user_id``), ForbiddenError, ConflictError for a name in use, OverQuotaError
    (``key_pairs`` count for each user).
    """
    if context.user_id is None:
        raise ForbiddenError("Only a user can create a key pair, and this request has no user.")
    owner = selectors.key_pair_user(context, user_id, "os_compute_api:os-keypairs:create")
    _check_name(name)
    if owner != context.user_id and owner not in users_by_id([owner]):
        raise InvalidInputError(f"User ID {owner.hex} is not a valid user.", field="user_id")
    material = _material(context, type, public_key, algorithm)
    try:
        with transaction.atomic():
            hold(owner, key_pair_owner(owner, name), {"key_pairs": 1}, _bounds(context, owner))
            row = KeyPair.objects.create(
                user_id=owner,
                name=name,
                type=type,
                public_key=material.public_key,
                fingerprint=material.fingerprint,
            )
    except IntegrityError as error:
        raise ConflictError(f"Key pair '{name}' already exists.", field="name") from error
    return row, material.private_key


@when_broken_off
def delete_key_pair(context: RequestContext, name: str, *, user_id: uuid.UUID | None = None) -> None:
    """Delete a key pair; servers keep the key they were created with. Raises NotFoundError, ForbiddenError."""
    row = selectors.key_pair_for(context, name, user_id=user_id, rule="os_compute_api:os-keypairs:delete")
    with transaction.atomic():
        deleted, _ = KeyPair.objects.filter(pk=row.pk).delete()
        if deleted:
            release(key_pair_owner(row.user_id, row.name))


def _bounds(context: RequestContext, owner: uuid.UUID) -> Bounds | None:
    """Return the limits that apply to the owner's key pairs for a request in this project."""
    return Bounds(bounds_of(context.project_id, owner).least) if context.project_id else None


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or name != name.strip():
        raise InvalidInputError(
            "Invalid input for name: use 1 to 255 letters, digits, blanks and the characters _ @ . -"
            " (no blank at either end).",
            field="name",
        )
    if name in (".", ".."):  # clients resolve them in URLs, so such a key pair could not be addressed
        raise InvalidInputError(f"Invalid input for name: {name!r} cannot be part of a URL.", field="name")


def _material(context: RequestContext, kind: str, public_key: str | None, algorithm: str) -> Material:
    if kind == "ssh":
        return make_ssh(algorithm) if public_key is None else read_ssh(public_key)
    if kind == "x509":
        if public_key is None:
            return make_certificate(context.user_id.hex if context.user_id else context.user_name)
        return read_certificate(public_key)
    raise InvalidInputError(f"Key pairs of type {kind!r} are not supported; use 'ssh' or 'x509'.", field="type")
