"""Sessions of users, as rows that their tokens refer to. A session is ended by deleting its row.

Only authenticated clients cause writes here; a program that requests tokens repeatedly causes at most one write per
minute.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import NotAuthenticatedError
from provisioning.identity.errors import REFUSED
from provisioning.identity.lockout import lockout, throttle
from provisioning.identity.models import ApplicationCredential, Project, SignIn, User
from provisioning.identity.records.conflicts import conflict_as
from provisioning.identity.selectors.credentials import application_credential_by
from provisioning.identity.selectors.lookups import record_by
from provisioning.identity.services.application_credentials import check_secret
from provisioning.identity.services.passwords import typed_name
from provisioning.identity.tokens import announce
from provisioning.identity.tokens.tokens import KEPT_AFTER_END, TokenData

MOST_BROWSERS = 25
"""Maximum number of concurrent browser sessions of one user; a new one ends the least recently used."""
MOST_PROGRAMS = 75
"""Maximum number of program sessions of one user; the last row is shared by all other programs."""
WRITTEN_EVERY = timedelta(minutes=1)
AT_ONCE = 20
"""Maximum number of concurrent attempts with one credential from one address; programs authenticate in parallel."""
OTHERS = "other programs"


@dataclass(frozen=True, slots=True)
class Client:
    """The client that requests tokens: its address and User-Agent, truncated to the lengths of the columns."""

    address: str
    program: str

    @classmethod
    def of(cls, address: str, program: str) -> Client:
        """Return the client, without characters that the database cannot store."""
        return cls(_plain(address)[:64], _plain(program)[:255])


def _plain(text: str) -> str:
    return text.replace("\0", "").encode(errors="replace").decode()


@when_broken_off
@conflict_as(REFUSED, NotAuthenticatedError)
def open_browser_session(user: User, client: Client, *, methods: Sequence[str], project: Project | None) -> SignIn:
    """Create the session of a browser; the least recently used session is ended if there are too many.

    Raises NotAuthenticatedError if all of the user's sessions were ended since ``user`` was read, because the proof may
    be outdated.
    """
    now, session_id = timezone.now(), uuid.uuid4()
    _check_unchanged(user)
    _prune(now)
    known = SignIn.objects.filter(user=user, browser=True).order_by("-last_used_at", "-id")
    for old in known[MOST_BROWSERS - 1 :]:
        end_sign_in(old)
    lockout.remember(user, methods, client.address)
    return SignIn.objects.create(
        id=session_id,
        user=user,
        browser=True,
        client=session_id.hex,
        methods=list(methods),
        address=client.address,
        program=client.program,
        project=project,
        last_used_at=now,
        expires_at=now + timedelta(seconds=settings.TOKEN_LIFETIME),
    )


def record_client(
    user: User,
    methods: Iterable[str],
    client: Client,
    *,
    project: Project | None = None,
    application_credential: ApplicationCredential | None = None,
) -> SignIn:
    """Return the session of a program that requests a token; the session is written if it is new or was last written
    more than a minute ago.

    Raises NotAuthenticatedError in the same cases as ``open_browser_session``.
    """
    now, ways = timezone.now(), sorted(methods)
    credential = application_credential.id.hex if application_credential else ""
    key = hashlib.sha256("\0".join([*ways, client.address, client.program, credential]).encode()).hexdigest()
    sign_in = SignIn.objects.filter(user=user, client=key, user__tokens_valid_after=user.tokens_valid_after).first()
    if sign_in is not None and _again(sign_in, user, project, now):
        if sign_in.last_used_at == now:  # the row was written
            with conflict_as(REFUSED, NotAuthenticatedError):  # the user may be deleted concurrently
                lockout.remember(user, ways, client.address)
        return sign_in
    kept: dict[str, Any] = {
        "methods": ways,
        "address": client.address,
        "program": client.program,
        "application_credential": application_credential,
    }
    return _first(user, key, kept, project, now)


@when_broken_off
@conflict_as(REFUSED, NotAuthenticatedError)
def _first(user: User, key: str, kept: dict[str, Any], project: Project | None, now: datetime) -> SignIn:
    """Create the program's session, or use the shared one if there are too many."""
    _check_unchanged(user)
    _prune(now)
    lockout.remember(user, kept["methods"], kept["address"])
    if SignIn.objects.filter(user=user, browser=False).exclude(client=OTHERS).count() >= MOST_PROGRAMS - 1:
        key, kept = OTHERS, {"program": OTHERS}
    ends = now + timedelta(seconds=settings.TOKEN_LIFETIME)
    row, made = SignIn.objects.get_or_create(
        user=user,
        client=key,
        defaults={**kept, "project": project, "last_used_at": now, "expires_at": ends},
    )
    if not made:
        _again(row, user, project, now)
    return row


def _check_unchanged(user: User) -> None:
    """Raise NotAuthenticatedError if the user's tokens were invalidated after ``user`` was read, for example by a new
    password.

    Waits for a concurrent change of the user.
    """
    now = User.objects.select_for_update(no_key=True).filter(id=user.id).values_list("tokens_valid_after", flat=True)
    if list(now) != [user.tokens_valid_after]:
        raise NotAuthenticatedError(REFUSED)


def _again(row: SignIn, user: User, project: Project | None, now: datetime) -> bool:
    """Update the last use of a session, at most once a minute; return False if it was ended.

    If all of the user's sessions were ended after its last use, the row is always updated, so that it is valid again.
    """
    ended = user.tokens_valid_after is not None and row.last_used_at < user.tokens_valid_after
    if not ended and now - row.last_used_at < WRITTEN_EVERY:
        return True
    row.last_used_at, row.project = now, project
    row.expires_at = max(row.expires_at, now + timedelta(seconds=settings.TOKEN_LIFETIME))
    rows = SignIn.objects.filter(id=row.id)
    with conflict_as(REFUSED, NotAuthenticatedError):  # the project may be deleted concurrently
        return bool(rows.update(last_used_at=now, project=project, expires_at=row.expires_at))


@conflict_as(REFUSED, NotAuthenticatedError)
def move_session(sign_in_id: uuid.UUID, project: Project | None) -> None:
    """Record that a browser has switched to another project."""
    SignIn.objects.filter(id=sign_in_id).update(project=project, last_used_at=timezone.now())


@transaction.atomic
def end_sign_in(sign_in: SignIn) -> None:
    """End a session; all its tokens become invalid."""
    SignIn.objects.filter(id=sign_in.id).delete()
    announce.revoked(user_id=sign_in.user_id)


@transaction.atomic
def end_session(data: TokenData) -> None:
    if data.sign_in is not None:
        SignIn.objects.filter(id=data.sign_in).delete()
    announce.revoked(user_id=data.user_id)


@when_broken_off
@transaction.atomic
def end_other_sign_ins(user: User, *, keep: uuid.UUID | None = None) -> int:
    """End the user's sessions except ``keep``; return how many were ended."""
    others = SignIn.objects.filter(user=user)
    ended, _ = (others if keep is None else others.exclude(id=keep)).delete()
    announce.revoked(user_id=user.id)
    return ended


def _prune(now: datetime) -> None:
    """Delete sessions whose last token has expired, with a margin because rows are not updated for every token."""
    SignIn.objects.filter(expires_at__lt=now - KEPT_AFTER_END - 2 * WRITTEN_EVERY).delete()


def authenticate_application_credential(
    *,
    credential_id: str | None = None,
    name: str | None = None,
    user_id: str | None = None,
    user_name: str | None = None,
    domain_id: str | None = None,
    domain_name: str | None = None,
    secret: str,
    source: str,
) -> ApplicationCredential:
    """Return the application credential with this secret, with its user and project.

    The credential is specified by id, or by name and user (by id, or by name and domain). An unknown credential, a
    wrong secret, an expired credential and a disabled user raise the same NotAuthenticatedError after the same work.
    Raises TooManyAttemptsError while the client must wait.
    """
    throttle.check_address(source)
    typed = typed_name(user_id, user_name, domain_id, domain_name)
    typed = f"credential {credential_id.replace('-', '').lower()}" if credential_id else f"credential {name} of {typed}"
    application_credential: ApplicationCredential | None = None
    if "\0" in typed:  # PostgreSQL rejects it in queries
        application_credential = None
    elif credential_id is not None:
        application_credential = application_credential_by(credential_id=credential_id)
    else:
        user = record_by(User, record_id=user_id, name=user_name, domain_id=domain_id, domain_name=domain_name)
        application_credential = application_credential_by(user=user, name=name) if user is not None else None
    with throttle.Attempt(typed, source, at_once=AT_ONCE) as attempt:
        right = check_secret(application_credential, secret)
        if application_credential is None or not right or not _is_open(application_credential):
            raise NotAuthenticatedError(REFUSED)
        attempt.succeeded()
    return application_credential


def _is_open(record: ApplicationCredential) -> bool:
    current = record.expires_at is None or record.expires_at > timezone.now()
    return current and record.user.enabled and record.user.domain.enabled
