"""Credentials of users: EC2 keys, TOTP secrets, certificates. They are stored encrypted."""

import hashlib
import json
import uuid
from typing import Any, TypedDict, Unpack

import msgspec
from cryptography.fernet import Fernet, InvalidToken
from django.db import IntegrityError, transaction
from django.db.models import Sum
from django.db.models.functions import Length

from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError, ForbiddenError, InvalidInputError, NotFoundError, UnavailableError
from provisioning.identity.encryption import keys
from provisioning.identity.encryption.encrypted import renewed
from provisioning.identity.models import Credential, Project, SignIn, User
from provisioning.identity.records.conflicts import conflict_as
from provisioning.identity.services.application_credentials import check_manages
from provisioning.identity.services.sign_ins import OTHERS
from provisioning.identity.tokens import announce

EC2 = "ec2"
_UNKNOWN = "project_id"
"""Key in ``extra``: the id of a project that does not exist."""
TOTP = "totp"
LONGEST_BLOB = 65_535
"""Maximum number of characters."""
MOST_OF_USER = 500
"""Maximum number of credentials of one user."""
MOST_BYTES_OF_USER = 1 << 20
"""Maximum size of all encrypted blobs of one user; encryption enlarges them by a third."""


class Ec2Keys(msgspec.Struct, frozen=True):
    """The known fields of an EC2 credential's blob; other fields are stored but not read."""

    access: str
    secret: str
    trust_id: Any = None


class Changes(TypedDict, total=False):
    """The updatable fields of a credential; omitted fields are not changed."""

    kind: str
    blob: str
    project: Project | str | None
    user: User


@when_broken_off
@conflict_as("The user, the project or the application credential was deleted in the meantime.", NotFoundError)
def create_credential(
    user: User, *, kind: str, blob: str, project: Project | str | None = None, caller: RequestContext | None = None
) -> Credential:
    """Create a credential.  The id of an EC2 credential is the SHA-256 of its access key; other ids are random.

    As in Keystone, the project may be an id that does not exist. A credential created with the token of a trust is
    limited to that trust, and its blob contains the trust's id. Raises InvalidInputError naming the field,
    ConflictError if the access key exists, and ForbiddenError if the caller's token may not create one or the user has
    too many.
    """
    _check(kind, blob, project)
    if caller is not None:
        check_manages(caller)
        _check_reach(caller, kind, project)
    if Credential.objects.filter(user=user).count() >= MOST_OF_USER:
        raise ForbiddenError(f"A user may have {MOST_OF_USER} credentials. Delete some first.")
    if kind == EC2 and caller is not None and caller.trust_id is not None:
        blob = json.dumps(json.loads(blob) | {"trust_id": caller.trust_id.hex})
    encrypted = encrypt(blob)
    _check_room(user, encrypted, besides="")
    record = Credential(
        id=credential_id(ec2_keys(blob).access) if kind == EC2 else uuid.uuid4().hex,
        user=user,
        **_place(project),
        type=kind,
        encrypted_blob=encrypted,
        application_credential_id=caller.application_credential_id if caller is not None else None,
        trust_id=caller.trust_id if caller is not None else None,
    )
    try:
        with transaction.atomic():
            record.save(force_insert=True)
    except IntegrityError as error:
        raise ConflictError("An EC2 credential with this access key already exists.", field="blob") from error
    return record


@when_broken_off
@conflict_as("The user or the project was deleted in the meantime.", NotFoundError)
def update_credential(
    record: Credential, *, caller: RequestContext | None = None, **changes: Unpack[Changes]
) -> Credential:
    """Update a credential; tokens that were issued for an EC2 credential become invalid.

    An EC2 credential keeps its type and id. As in Keystone, it is found by the access key with which it was created,
    even if its blob now has another access key. Raises the errors of ``create_credential``.
    """
    kind, project = changes.get("kind", record.type), changes.get("project", project_of(record))
    if caller is not None:
        check_manages(caller)
        _check_factor(caller, record.type)
        _check_reach(caller, kind, project)
    if (kind == EC2) != (record.type == EC2):
        raise InvalidInputError("The type cannot be changed to or from ec2. Create a new credential.", field="type")
    _check_kind(kind)
    if "blob" in changes or kind == EC2:
        blob = changes["blob"] if "blob" in changes else blob_of(record)
        _check(kind, blob, project)
        if kind == EC2 and ec2_keys(blob).trust_id != ec2_keys(blob_of(record)).trust_id:
            raise InvalidInputError("trust_id can not be updated for credential.", field="blob")
        record.encrypted_blob = encrypt(blob)
    user = changes.get("user", record.user)
    if "blob" in changes or user != record.user:
        _check_room(user, record.encrypted_blob, besides=record.id)
    end_ec2_sessions(record)
    record.type, record.user = kind, user
    for column, value in _place(project).items():
        setattr(record, column, value)
    record.save(update_fields=["type", "project", "extra", "user", "encrypted_blob"])
    return record


@when_broken_off
@transaction.atomic
def delete_credential(record: Credential, *, caller: RequestContext | None = None) -> None:
    """Delete a credential; tokens that were issued for an EC2 credential become invalid."""
    if caller is not None:
        check_manages(caller)
        _check_factor(caller, record.type)
    end_ec2_sessions(record)
    record.delete()


def project_of(record: Credential) -> Project | str | None:
    """Return the project of the credential, or the given id if the project does not exist."""
    unknown: str | None = record.extra.get(_UNKNOWN)
    return record.project or unknown


def project_id_of(record: Credential) -> str | None:
    """As ``project_of``, but returns the id."""
    unknown: str | None = record.extra.get(_UNKNOWN)
    return record.project_id.hex if record.project_id else unknown


def blob_of(record: Credential) -> str:
    """Return the decrypted blob.  Raises UnavailableError if its key is missing."""
    try:
        return keys.CREDENTIALS.current().decrypt(record.encrypted_blob.encode()).decode()
    except InvalidToken as error:
        raise UnavailableError(
            f"The key that credential {record.id} was encrypted with is missing. "
            "Ask your operator to restore the credential keys from a backup, or delete the credential."
        ) from error


def encrypt(blob: str) -> str:
    return keys.CREDENTIALS.current().encrypt(blob.encode()).decode()


def ec2_keys(blob: str) -> Ec2Keys:
    """Return the keys in the blob of an EC2 credential, or raise InvalidInputError."""
    try:
        pair = msgspec.json.decode(blob, type=Ec2Keys)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidInputError(
            "The blob of an EC2 credential must be a JSON object with the strings access and secret.", field="blob"
        ) from error
    if not pair.access or not pair.secret:
        raise InvalidInputError("Access and secret must not be empty.", field="blob")
    return pair


def credential_id(access: str) -> str:
    """Return the id of the EC2 credential with this access key."""
    return hashlib.sha256(access.encode()).hexdigest()


def session_name(record_id: str) -> str:
    """Return the name of an EC2 credential's sessions in the user's list."""
    return f"EC2 credential {record_id}"


def end_ec2_sessions(record: Credential) -> None:
    """End all sessions of an EC2 credential, in the caller's transaction."""
    if record.type != EC2:
        return
    owner = record.user_id if record.trust is None else record.trust.trustee_id
    sessions = SignIn.objects.filter(user=owner, browser=False)
    if not sessions.filter(program=session_name(record.id)).delete()[0]:
        sessions.filter(client=OTHERS).delete()  # the shared row, if the credential has none of its own
    announce.revoked(user_id=owner)


def encrypt_again(newest: Fernet) -> tuple[int, list[str]]:
    """Encrypt all blobs again with this key; return their number, and the ids of blobs that no key decrypts.

    A blob that changes in the meantime is read again.
    """
    changed, lost = 0, []
    for record_id in list(Credential.objects.values_list("id", flat=True)):
        for _ in range(5):
            record = Credential.objects.filter(id=record_id).first()
            if record is None:
                break
            try:
                fresh = renewed(record.encrypted_blob, newest)
            except InvalidToken:
                lost.append(record_id)
                break
            if fresh == record.encrypted_blob:
                break
            same = Credential.objects.filter(id=record_id, encrypted_blob=record.encrypted_blob)
            changed += same.update(encrypted_blob=fresh)
    return changed, lost


def _place(project: Project | str | None) -> dict[str, Any]:
    """Return the columns for a project."""
    if isinstance(project, str):
        return {"project": None, "extra": {_UNKNOWN: project}}
    return {"project": project, "extra": {}}


def _check(kind: str, blob: str, project: Project | str | None) -> None:
    _check_kind(kind)
    if not 0 < len(blob) <= LONGEST_BLOB:
        raise InvalidInputError(f"The blob must have 1 to {LONGEST_BLOB} characters.", field="blob")
    if kind == EC2:
        ec2_keys(blob)
        if project is None:
            raise InvalidInputError("An EC2 credential needs a project_id.", field="project_id")


def _check_room(user: User, encrypted: str, *, besides: str) -> None:
    """Raise ForbiddenError if this blob and the user's other blobs would exceed ``MOST_BYTES_OF_USER``."""
    others = Credential.objects.filter(user=user).exclude(id=besides)
    kept = others.aggregate(bytes=Sum(Length("encrypted_blob")))["bytes"] or 0
    if kept + len(encrypted) > MOST_BYTES_OF_USER:
        raise ForbiddenError(
            f"The credentials of a user may have at most {MOST_BYTES_OF_USER} bytes. Delete some first."
        )


def _check_kind(kind: str) -> None:
    if not 0 < len(kind) <= 255 or "\0" in kind:
        raise InvalidInputError("The type must have 1 to 255 characters.", field="type")


def _check_reach(caller: RequestContext, kind: str, project: Project | str | None) -> None:
    """Raise ForbiddenError for a credential with more rights than the caller's application credential or trust."""
    _check_factor(caller, kind)
    own = isinstance(project, Project) and project.id == caller.project_id
    if (kind == EC2 or caller.trust_id) and caller.is_delegated and not own:
        raise ForbiddenError("A token issued via delegation may only create credentials for its own project.")


def _check_factor(caller: RequestContext, kind: str) -> None:
    if kind == TOTP and caller.is_delegated:
        raise ForbiddenError("A token issued via delegation may not change how its user authenticates.")
