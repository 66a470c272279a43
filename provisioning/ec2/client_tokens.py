"""Requests that a client may send again: a token makes nothing twice (EC2 API reference, "Ensuring idempotency")."""

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

KEPT = timedelta(days=2)
LONGEST = 128
HELD = timedelta(minutes=5)
"""How long a name is held at most (``alone``): a process that ended does not give it back."""


class MismatchError(ConflictError):
    """The token was used before with other arguments."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose token it is, and of which action."""

    project_id: uuid.UUID
    user_id: uuid.UUID
    action: str


def once(owner: Owner, token: str, arguments: str, work: Callable[[], str]) -> str:
    """Do the work and keep what it says, or return what it said when the token was used before.

    In the caller's transaction: when the work fails the token is free again; who comes at the same moment waits for it.
    Raises MismatchError when the arguments were others, InvalidInputError for a token that is too long.
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
    """Hold a name while something is made that is not one transaction; yield whether nobody else held it.

    The row stands where those of client tokens do, with a name in the place of the token and no digest.
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
