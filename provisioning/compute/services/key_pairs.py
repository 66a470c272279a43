"""Key pairs, generated or imported. A generated private key is returned once and never stored."""

import re
import uuid

from django.db import IntegrityError, transaction

from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError, ForbiddenError, InvalidInputError
from provisioning.compute import selectors
from provisioning.compute.models import KeyPair
from provisioning.compute.records.names import key_pair_owner
from provisioning.compute.services import key_material
from provisioning.compute.services.key_material import Material
from provisioning.identity.selectors.lookups import users_by_id
from provisioning.quotas.selectors import Bounds, bounds_of
from provisioning.quotas.services.ledger import hold, release

_NAME = re.compile(r"[A-Za-z0-9 _@.-]{1,255}")


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
        return key_material.make_ssh(algorithm) if public_key is None else key_material.read_ssh(public_key)
    if kind == "x509":
        if public_key is None:
            return key_material.make_certificate(context.user_id.hex if context.user_id else context.user_name)
        return key_material.read_certificate(public_key)
    raise InvalidInputError(f"Key pairs of type {kind!r} are not supported; use 'ssh' or 'x509'.", field="type")
