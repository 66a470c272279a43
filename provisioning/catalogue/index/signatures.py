"""Signatures of an index: Ed25519 over the bytes of the file.

A signature file has a line for each key: the public key, a space and the signature, both in base64. Several lines allow
operators to change keys one after another.
"""

import base64
import binascii
from collections.abc import Collection

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from provisioning.catalogue.errors import CatalogueError

KEY_BYTES = 32


def new_key() -> bytes:
    """Return a new private key, as PEM without a passphrase."""
    return Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def is_key(text: str) -> bool:
    """Return whether the text is a public key in base64."""
    return len(_decoded(text)) == KEY_BYTES


def public_key(private: bytes) -> str:
    """Return the public key of a private key (PEM) in base64. Raises CatalogueError."""
    raw = _private(private).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return base64.b64encode(raw).decode()


def sign(content: bytes, private: bytes) -> str:
    """Return the line of a signature file. Raises CatalogueError if the key is not an Ed25519 key in PEM."""
    signature = base64.b64encode(_private(private).sign(content)).decode()
    return f"{public_key(private)} {signature}\n"


def check(content: bytes, signatures: bytes, trusted: Collection[str]) -> str:
    """Return the trusted key that signed the content. Raises CatalogueError."""
    if not trusted:
        raise CatalogueError("No key is trusted: set NOVELLA_CATALOGUE_KEYS to the public key of the index.")
    signed_by = []
    for line in signatures.decode("ascii", "replace").splitlines():
        key, _, signature = line.partition(" ")
        if key not in trusted:
            signed_by.append(key)
            continue
        try:
            Ed25519PublicKey.from_public_bytes(_decoded(key)).verify(_decoded(signature.strip()), content)
        except InvalidSignature:
            raise CatalogueError("The signature of the index is wrong: the index was changed or damaged.") from None
        return key
    if not signed_by:
        raise CatalogueError("The signature file of the index is empty.")
    raise CatalogueError("The index is not signed by a key in NOVELLA_CATALOGUE_KEYS.")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _private(pem: bytes) -> Ed25519PrivateKey:
    try:
        key = load_pem_private_key(pem, None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise CatalogueError("The key file has no Ed25519 private key in PEM format without a passphrase.")
    return key
