"""Sessions: who is signed in from where, as rows that their tokens name; to end a session is to delete its row.

Only who has proved an identity causes a write here, and a program that asks for tokens again and again causes one a
minute at most.
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

from provisioning.common.errors import NotAuthenticatedError
from provisioning.common.retry import when_broken_off
from provisioning.identity import announce, lockout
from provisioning.identity.conflicts import told_as
from provisioning.identity.errors import REFUSED
from provisioning.identity.models import ApplicationCredential, Project, SignIn, User
from provisioning.identity.tokens import KEPT_AFTER_END, TokenData

MOST_BROWSERS = 25
"""Browsers of one user that are signed in at once; one more ends the one that was used least lately."""
MOST_PROGRAMS = 75
"""Rows for programs of one user; the last of them is shared by all that came when there were no others left."""
WRITTEN_EVERY = timedelta(minutes=1)
OTHERS = "other programs"


@dataclass(frozen=True, slots=True)
class Client:
    """What asks for tokens: its address and what it calls itself (User-Agent), each cut to what is kept."""

    address: str
    program: str

    @classmethod
    def of(cls, address: str, program: str) -> Client:
        """Return the client, without what a database cannot keep."""
        return cls(_plain(address)[:64], _plain(program)[:255])


def _plain(text: str) -> str:
    return text.replace("\0", "").encode(errors="replace").decode()


@when_broken_off
@told_as(REFUSED, NotAuthenticatedError)
def open_browser_session(user: User, client: Client, *, methods: Sequence[str], project: Project | None) -> SignIn:
    """Return the row of a new session of a browser; the one that was used least lately ends when there are too many.

    NotAuthenticatedError when everything of the user was ended since ``user`` was read: the proof may be an old one.
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
    """Return the row of the program that is about to get a token; written when it is new or a minute old.

    NotAuthenticatedError as of ``open_browser_session``.
    """
    now, ways = timezone.now(), sorted(methods)
    credential = application_credential.id.hex if application_credential else ""
    key = hashlib.sha256("\0".join([*ways, client.address, client.program, credential]).encode()).hexdigest()
    found = SignIn.objects.filter(user=user, client=key, user__tokens_valid_after=user.tokens_valid_after).first()
    if found is not None and _again(found, user, project, now):
        if found.last_used_at == now:  # it was written
            with told_as(REFUSED, NotAuthenticatedError):  # the user may go at this moment
                lockout.remember(user, ways, client.address)
        return found
    kept: dict[str, Any] = {
        "methods": ways,
        "address": client.address,
        "program": client.program,
        "application_credential": application_credential,
    }
    return _first(user, key, kept, project, now)


@when_broken_off
@told_as(REFUSED, NotAuthenticatedError)
def _first(user: User, key: str, kept: dict[str, Any], project: Project | None, now: datetime) -> SignIn:
    """Make the program's row, or take the shared one when there are many."""
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
    """Refuse a proof that was looked at while the password was changed; of two at once the second waits here."""
    now = User.objects.select_for_update(no_key=True).filter(id=user.id).values_list("tokens_valid_after", flat=True)
    if list(now) != [user.tokens_valid_after]:
        raise NotAuthenticatedError(REFUSED)


def _again(row: SignIn, user: User, project: Project | None, now: datetime) -> bool:
    """Note that the program came again, unless that was noted a moment ago; False when the row was ended meanwhile.

    A row from before everything of the user was ended is written in any case: it is worth something again.
    """
    ended = user.tokens_valid_after is not None and row.last_used_at < user.tokens_valid_after
    if not ended and now - row.last_used_at < WRITTEN_EVERY:
        return True
    row.last_used_at, row.project = now, project
    row.expires_at = max(row.expires_at, now + timedelta(seconds=settings.TOKEN_LIFETIME))
    found = SignIn.objects.filter(id=row.id)
    with told_as(REFUSED, NotAuthenticatedError):  # the project may go at this moment
        return bool(found.update(last_used_at=now, project=project, expires_at=row.expires_at))


@told_as(REFUSED, NotAuthenticatedError)
def move_session(sign_in_id: uuid.UUID, project: Project | None) -> None:
    """Note that a browser goes on in another project."""
    SignIn.objects.filter(id=sign_in_id).update(project=project, last_used_at=timezone.now())


@transaction.atomic
def end_sign_in(sign_in: SignIn) -> None:
    """End a session: every token that was got in it is worth nothing from now on."""
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
    """End the user's sessions but the one with the id ``keep``; return how many there were."""
    others = SignIn.objects.filter(user=user)
    ended, _ = (others if keep is None else others.exclude(id=keep)).delete()
    announce.revoked(user_id=user.id)
    return ended


def _prune(now: datetime) -> None:
    """Drop the rows whose last token ended; a minute more, for tokens that were got since the row was written."""
    SignIn.objects.filter(expires_at__lt=now - KEPT_AFTER_END - 2 * WRITTEN_EVERY).delete()
