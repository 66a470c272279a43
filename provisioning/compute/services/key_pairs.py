"""Key pairs: generated or imported; the private half leaves with the answer and is never kept."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Literal

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey, generate_private_key
from django.db import IntegrityError, transaction

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, ForbiddenError, InvalidInputError
from provisioning.common.retry import when_broken_off
from provisioning.compute import selectors
from provisioning.compute.models import KeyPair
from provisioning.compute.names import key_pair_owner
from provisioning.quotas import selectors as limits_of_projects
from provisioning.quotas import services as quotas

MIN_RSA_BITS = 2048
RSA_BITS = 3072
_NAME = re.compile(r"[A-Za-z0-9 _@.-]{1,255}")


@when_broken_off
def create_key_pair(
    context: RequestContext,
    name: str,
    public_key: str | None = None,
    type: str = "ssh",  # noqa: A002 - the field's name in the API
    algorithm: Literal["ed25519", "rsa"] = "ed25519",
) -> tuple[KeyPair, str | None]:
    """Keep an imported public key, or make a pair and return its private half in OpenSSH's format.

    Raises InvalidInputError (``name``, ``public_key``, ``type``), ConflictError for a name in use, OverQuotaError
    (``key_pairs`` are counted per user).
    """
    if context.user_id is None:
        raise ForbiddenError("A key pair belongs to a user.")
    if type != "ssh":
        raise InvalidInputError(f"Key pairs of type {type!r} are not supported; use 'ssh'.", field="type")
    if not _NAME.fullmatch(name) or name != name.strip():
        raise InvalidInputError(
            "Invalid input for name: use 1 to 255 letters, digits, blanks and the characters _ @ . -"
            " (no blank at either end).",
            field="name",
        )
    if name in (".", ".."):  # clients resolve them in a path, so what has such a name is never reached again
        raise InvalidInputError(f"Invalid input for name: {name!r} cannot be part of an address.", field="name")
    private_key = None
    if public_key is None:
        public_key, private_key = _generate(algorithm)
    else:
        public_key = _checked(public_key)
    try:
        with transaction.atomic():
            limits = limits_of_projects.limits_of(context.project_id) if context.project_id else None
            quotas.hold(context.user_id, key_pair_owner(context.user_id, name), {"key_pairs": 1}, limits)
            row = KeyPair.objects.create(
                user_id=context.user_id,
                name=name,
                type=type,
                public_key=public_key,
                fingerprint=fingerprint(public_key),
            )
    except IntegrityError as error:
        raise ConflictError(f"Key pair '{name}' already exists.", field="name") from error
    return row, private_key


@when_broken_off
def delete_key_pair(context: RequestContext, name: str) -> None:
    """Forget a key pair; servers keep the key they were made with.  Raises NotFoundError."""
    row = selectors.key_pair_for(context, name)
    with transaction.atomic():
        deleted, _ = KeyPair.objects.filter(pk=row.pk).delete()
        if deleted:
            quotas.release(key_pair_owner(row.user_id, row.name))


def fingerprint(public_key: str) -> str:
    """Return the MD5 of the key's blob as hex pairs with colons: the Compute API's fingerprint."""
    digest = hashlib.md5(base64.b64decode(public_key.split()[1]), usedforsecurity=False).digest()
    return ":".join(f"{byte:02x}" for byte in digest)


def _generate(algorithm: str) -> tuple[str, str]:
    """Return (public key line, private key in OpenSSH's PEM)."""
    key: Ed25519PrivateKey | RSAPrivateKey
    if algorithm == "ed25519":
        key = Ed25519PrivateKey.generate()
    elif algorithm == "rsa":
        key = generate_private_key(public_exponent=65537, key_size=RSA_BITS)
    else:
        raise InvalidInputError(
            f"Keys of kind {algorithm!r} cannot be made; use 'ed25519' or 'rsa'.", field="algorithm"
        )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    return f"{_line(key.public_key())} Generated-by-Novella", private.decode()


def _line(key: Ed25519PublicKey | RSAPublicKey | EllipticCurvePublicKey) -> str:
    return key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()


def _checked(text: str) -> str:
    """Return an imported key as one clean line, written anew from what was parsed, with its comment."""
    line = text.strip()
    if len(line) > 16_384 or not line.isprintable():
        raise InvalidInputError(
            "Keypair data is invalid: a public key is one line of at most 16,384 characters.", field="public_key"
        )
    try:
        key = serialization.load_ssh_public_key(line.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InvalidInputError(
            "Keypair data is invalid: it is not an OpenSSH public key.", field="public_key"
        ) from error
    if isinstance(key, RSAPublicKey):
        if key.key_size < MIN_RSA_BITS:
            raise InvalidInputError(
                f"Keypair data is invalid: an RSA key of {key.key_size} bits is too"
                f" weak; {MIN_RSA_BITS} are the least.",
                field="public_key",
            )
    elif not isinstance(key, Ed25519PublicKey | EllipticCurvePublicKey):
        raise InvalidInputError("Keypair data is invalid: use an ed25519, RSA or ECDSA key.", field="public_key")
    comment = " ".join(line.split()[2:])
    return f"{_line(key)} {comment}".rstrip()
