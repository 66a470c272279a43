"""Idempotent requests: a client token creates resources only once (EC2 API reference, "Ensuring idempotency")."""

import hashlib
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.utils import timezone

from provisioning.common.errors import ConflictError, InvalidInputError
from provisioning.ec2.models import ClientToken

RETENTION = timedelta(days=2)
LONGEST = 128
HELD = timedelta(minutes=5)
"""Maximum age of a lock of ``alone``: a process that dies does not release its lock."""


class MismatchError(ConflictError):
    """The token was used before with other arguments."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The project, user and action of a token."""

    project_id: uuid.UUID
    user_id: uuid.UUID
    action: str


def once(owner: Owner, token: str, arguments: str, work: Callable[[], str]) -> str:
    """Run ``work`` and store its result, or return the stored result if the token was used before.

    Runs in the caller's transaction: if the work fails, the token can be used again; a concurrent request with the
    token waits. Raises MismatchError if the arguments differ, InvalidInputError for a token that is too long.
    """
    if not token.isascii() or len(token) > LONGEST:
        raise InvalidInputError(f"ClientToken must have at most {LONGEST} ASCII characters", field="ClientToken")
    digest = hashlib.sha256(arguments.encode(errors="replace")).hexdigest()
    try:
        with transaction.atomic():
            row = ClientToken.objects.create(**asdict(owner), token=token, digest=digest)
    except IntegrityError:
        known = ClientToken.objects.get(**asdict(owner), token=token)
        if known.digest != digest:
            raise MismatchError("The client token was used before with other arguments.", field="ClientToken") from None
        return known.answer
    row.answer = work()
    row.save(update_fields=["answer"])
    return row.answer


@contextmanager
def alone(owner: Owner, name: str) -> Iterator[bool]:
    """Lock a name during work that is not a single transaction. Yields False if another process has the lock.

    The lock is a ClientToken row with the name as its token and no digest.
    """
    rows = ClientToken.objects.filter(**asdict(owner), token=name)
    rows.filter(created_at__lt=timezone.now() - HELD).delete()
    try:
        with transaction.atomic():
            held = ClientToken.objects.create(**asdict(owner), token=name, digest="")
    except IntegrityError:
        yield False
        return
    try:
        yield True
    finally:
        rows.filter(pk=held.pk).delete()
