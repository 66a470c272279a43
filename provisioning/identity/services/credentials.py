"""Credentials kept for users: EC2 keys, TOTP secrets, certificates; in the database they are encrypted."""

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
from provisioning.common.errors import ConflictError, ForbiddenError, InvalidInputError, NotFoundError, UnavailableError
from provisioning.common.retry import when_broken_off
from provisioning.identity import announce, keys
from provisioning.identity.conflicts import told_as
from provisioning.identity.encrypted import renewed
from provisioning.identity.models import Credential, Project, SignIn, User
from provisioning.identity.services.application_credentials import check_manages
from provisioning.identity.services.sign_ins import OTHERS

EC2 = "ec2"
_UNKNOWN = "project_id"
"""Of what is kept besides: a project's id that is none's."""
TOTP = "totp"
LONGEST_BLOB = 65_535
"""Characters."""
MOST_OF_USER = 500
"""Credentials of one user."""
MOST_BYTES_OF_USER = 1 << 20
"""Of all blobs of one user as they are kept: encrypted, which makes them a third longer."""


class Ec2Keys(msgspec.Struct, frozen=True):
    """What the blob of an EC2 credential says; what else stands there is kept and not read."""

    access: str
    secret: str
    trust_id: Any = None


class Changes(TypedDict, total=False):
    """What may be changed of a credential; what is absent stays."""

    kind: str
    blob: str
    project: Project | str | None
    user: User


@when_broken_off
@told_as("The user, the project or the application credential was deleted meanwhile.", NotFoundError)
def create_credential(
    user: User, *, kind: str, blob: str, project: Project | str | None = None, caller: RequestContext | None = None
) -> Credential:
    """Keep a credential.  The id of an EC2 credential is the SHA-256 of its access key; any other's is random.

    A project may be an id that is none's, as in Keystone: whoever reads the credential knows what it means there.
    One that is made with the token of a trust is worth no more than that, and its blob says which it is.

    Raises InvalidInputError naming the field, ConflictError when there is an EC2 credential with this access key, and
    ForbiddenError when the caller's own token may not make one, or when the user has too many.
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
        raise ConflictError("There is an EC2 credential with this access key already.", field="blob") from error
    return record


@when_broken_off
@told_as("The user or the project was deleted meanwhile.", NotFoundError)
def update_credential(
    record: Credential, *, caller: RequestContext | None = None, **changes: Unpack[Changes]
) -> Credential:
    """Change a credential; what was got with an EC2 credential as it was before ends.

    An EC2 credential keeps its type and its id.  As in Keystone, requests find it by the access key that it was created
    with, of which the id is made, also when its blob has another one now.  Errors as of ``create_credential``.
    """
    kind, project = changes.get("kind", record.type), changes.get("project", project_of(record))
    if caller is not None:
        check_manages(caller)
        _check_factor(caller, record.type)
        _check_reach(caller, kind, project)
    if (kind == EC2) != (record.type == EC2):
        raise InvalidInputError("The type ec2 can be neither given nor taken. Make a new credential.", field="type")
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
    """Remove a credential; what was got with an EC2 credential ends at once."""
    if caller is not None:
        check_manages(caller)
        _check_factor(caller, record.type)
    end_ec2_sessions(record)
    record.delete()


def project_of(record: Credential) -> Project | str | None:
    """Return the project that the credential is for, or the id that was given and is none's."""
    unknown: str | None = record.extra.get(_UNKNOWN)
    return record.project or unknown


def project_id_of(record: Credential) -> str | None:
    """As ``project_of``, the id."""
    unknown: str | None = record.extra.get(_UNKNOWN)
    return record.project_id.hex if record.project_id else unknown


def blob_of(record: Credential) -> str:
    """Return what is secret in the credential; UnavailableError when its key is gone."""
    try:
        return keys.CREDENTIALS.current().decrypt(record.encrypted_blob.encode()).decode()
    except InvalidToken as error:
        raise UnavailableError(
            f"The key that credential {record.id} was encrypted with is gone. "
            "Ask your operator to restore the credential keys from a backup, or delete the credential."
        ) from error


def encrypt(blob: str) -> str:
    return keys.CREDENTIALS.current().encrypt(blob.encode()).decode()


def ec2_keys(blob: str) -> Ec2Keys:
    """Return the keys that the blob of an EC2 credential has, or raise InvalidInputError."""
    try:
        found = msgspec.json.decode(blob, type=Ec2Keys)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidInputError(
            "The blob of an EC2 credential must be a JSON object with the texts access and secret.", field="blob"
        ) from error
    if not found.access or not found.secret:
        raise InvalidInputError("Neither access nor secret may be empty.", field="blob")
    return found


def credential_id(access: str) -> str:
    """Return the id of the EC2 credential with this access key."""
    return hashlib.sha256(access.encode()).hexdigest()


def session_name(record_id: str) -> str:
    """Return what the sessions of an EC2 credential are called in the user's list."""
    return f"EC2 credential {record_id}"


def end_ec2_sessions(record: Credential) -> None:
    """End every token that was got with the EC2 credential; in the caller's transaction."""
    if record.type != EC2:
        return
    owner = record.user_id if record.trust is None else record.trust.trustee_id
    sessions = SignIn.objects.filter(user=owner, browser=False)
    if not sessions.filter(program=session_name(record.id)).delete()[0]:
        sessions.filter(client=OTHERS).delete()  # where it went if there was no room for a row of its own
    announce.revoked(user_id=owner)


def encrypt_again(newest: Fernet) -> tuple[int, list[str]]:
    """Encrypt with this key what an older one encrypted: return how many blobs, and the ids that no key opens.

    What is changed meanwhile is left to whoever changes it, and looked at again.
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
    """Return the columns that keep a project."""
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
    """Refuse a blob for which the user's others, besides the credential of this id, leave no room."""
    others = Credential.objects.filter(user=user).exclude(id=besides)
    kept = others.aggregate(bytes=Sum(Length("encrypted_blob")))["bytes"] or 0
    if kept + len(encrypted) > MOST_BYTES_OF_USER:
        raise ForbiddenError(f"The credentials of a user may take {MOST_BYTES_OF_USER} bytes. Delete some first.")


def _check_kind(kind: str) -> None:
    if not 0 < len(kind) <= 255 or "\0" in kind:
        raise InvalidInputError("The type must have 1 to 255 characters.", field="type")


def _check_reach(caller: RequestContext, kind: str, project: Project | str | None) -> None:
    """Refuse what would let an application credential or a trust do more than it may itself."""
    _check_factor(caller, kind)
    own = isinstance(project, Project) and project.id == caller.project_id
    if (kind == EC2 or caller.trust_id) and caller.is_delegated and not own:
        raise ForbiddenError("A token issued via delegation may make credentials for its own project only.")


def _check_factor(caller: RequestContext, kind: str) -> None:
    if kind == TOTP and caller.is_delegated:
        raise ForbiddenError("A token issued via delegation may not set how its user signs in.")
