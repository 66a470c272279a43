"""Generates and imports keys and certificates, and calculates their fingerprints."""

import base64
import hashlib
import unicodedata
from dataclasses import dataclass
from datetime import timedelta

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey, generate_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from django.utils import timezone

from provisioning.common.errors import InvalidInputError

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
