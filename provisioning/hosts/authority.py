"""The certificate authority of hosts: creates itself, and signs hosts' requests (RFC 5280, RFC 2986)."""

import uuid
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from provisioning.common.errors import InvalidInputError

AUTHORITY_LIFE = timedelta(days=3650)
BEFORE = timedelta(days=1)
"""Certificates are valid from this long before their issue, because hosts' clocks may be behind."""
LONGEST_REQUEST = 16 * 1024
"""Limit of a request, in characters; the rest is ignored."""


def new_authority(now: datetime) -> tuple[str, str, datetime]:
    """Return a new authority's certificate and key, both PEM, and its expiry."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Novella hosts {now:%Y-%m-%d} {uuid.uuid4().hex[:8]}")])
    ends = (now + AUTHORITY_LIFE).replace(microsecond=0)
    certificate = (
        _builder(name, name, key.public_key(), now, ends)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return _pem(certificate), key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(), ends


class Authority:
    """Signs certificates with one authority's key; certificate and key are PEM."""

    def __init__(self, certificate: str, key: str) -> None:
        self._certificate = x509.load_pem_x509_certificate(certificate.encode())
        loaded = load_pem_private_key(key.encode(), password=None)
        if not isinstance(loaded, ec.EllipticCurvePrivateKey):
            text = "The key of the authority of hosts is not an elliptic curve key."
            raise TypeError(text)
        self._key = loaded

    def sign(self, request: str, common_name: str, *, server_name: str = "", now: datetime, life: timedelta) -> str:
        """Return a PEM certificate for the request's public key; the rest of the request is ignored.

        It is a server certificate if ``server_name`` is given, otherwise a client certificate. Raises
        InvalidInputError.
        """
        public_key = _key_of(request)
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if server_name else ExtendedKeyUsageOID.CLIENT_AUTH
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        issuer = self._certificate.subject
        ends = min(now + life, self._certificate.not_valid_after_utc)
        builder = (
            _builder(name, issuer, public_key, now, ends)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if server_name:
            builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(server_name)]), critical=False)
        return _pem(builder.sign(self._key, hashes.SHA256()))


def _key_of(request: str) -> ec.EllipticCurvePublicKey:
    """Return the public key of a certificate request. Its curve must be P-256, which QEMU's TLS supports.

    Raises InvalidInputError, also if the signature is invalid.
    """
    try:
        signing_request = x509.load_pem_x509_csr(request[:LONGEST_REQUEST].encode())
        key, good = signing_request.public_key(), signing_request.is_signature_valid
    except (ValueError, UnsupportedAlgorithm, InvalidSignature) as error:
        raise InvalidInputError("This is not a certificate request.", field="certificate") from error
    if not good or not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise InvalidInputError("A certificate request must have a key on the curve P-256.", field="certificate")
    return key


def _builder(
    name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, ends: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BEFORE)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_encipherment=not signs,  # QEMU before 9.2 requires it for every key
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()
