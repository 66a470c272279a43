"""Remote consoles of servers: one-time tokens that open them, and whether one may stay open."""

import hashlib
import secrets
import uuid
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, NotAuthenticatedError, NotFoundError
from provisioning.compute import selectors
from provisioning.compute.errors import ConsoleTakenError
from provisioning.compute.models import ConsoleToken, Instance, InstanceAction
from provisioning.compute.services.running import check_running
from provisioning.compute.states import VmState
from provisioning.events.services import record
from provisioning.identity import policy, token_store
from provisioning.identity.tokens import TokenData

RULE = "os_compute_api:os-remote-consoles"
Protocol = Literal["vnc", "serial"]
OFFERED: dict[tuple[str, str], Protocol] = {("vnc", "novnc"): "vnc", ("serial", "serial"): "serial"}
"""Protocol and type of the consoles there are."""
EXCLUSIVE = frozenset({"serial"})
"""Protocols whose console one window at a time can have."""
MOST_UNUSED = 10
"""Tokens of one user for one server that wait to be used; the oldest goes when there is another one."""
LONGEST_VALUE = 128
"""Characters; nothing longer was given out here."""
_VOID = "This address of a console was used, has expired or is unknown. Ask for another one."


@dataclass(frozen=True, slots=True)
class RemoteConsole:
    """A console that was asked for; ``token`` is a secret and opens it once."""

    protocol: str
    console_type: str
    token: str


@dataclass(frozen=True, slots=True)
class OpenConsole:
    """A console that a token has opened; ``row`` is asked again whether it may stay so.

    ``takes_over``: the same user may still have it open in another window, which was told to leave.
    """

    row: ConsoleToken
    context: RequestContext
    instance: Instance
    protocol: Protocol
    takes_over: bool = False


def create_console(
    context: RequestContext, instance_id: uuid.UUID | str, protocol: str, console_type: str, asked_with: TokenData
) -> RemoteConsole:
    """Give out a token for a console of a server; it ends with the token that the caller ``asked_with``.

    Raises NotFoundError, InvalidInputError for a console that is not offered, ConflictError while there is no guest
    that runs.
    """
    instance = selectors.instance_for(context, instance_id)
    if (protocol, console_type) not in OFFERED:
        raise InvalidInputError(f"Unavailable console type {console_type}.", field="type")
    check_running(instance)
    if context.user_id is None:
        raise NotFoundError(f"Instance {instance_id} could not be found.")
    token = secrets.token_urlsafe(32)
    ConsoleToken.objects.create(
        digest=_digest(token),
        instance=instance,
        user_id=context.user_id,
        attempt=instance.attempt,
        protocol=protocol,
        console_type=console_type,
        expires_at=timezone.now() + timedelta(seconds=settings.CONSOLE_TOKEN_TTL),
        asked_with=token_store.keep(asked_with),
    )
    unused = ConsoleToken.objects.filter(instance=instance, user_id=context.user_id, used_at=None)
    spare = list(unused.order_by("-created_at").values_list("digest", flat=True)[MOST_UNUSED : 2 * MOST_UNUSED])
    if spare:
        ConsoleToken.objects.filter(digest__in=spare).delete()
    return RemoteConsole(protocol, console_type, token)


def use_token(token: str) -> OpenConsole:
    """Open the console of a token, which is used up.

    Raises NotAuthenticatedError for one that is unknown, used or past its end, or when the sign-in it was asked with
    has ended; ForbiddenError, NotFoundError and ConflictError as ``still_open``.
    """
    row = _unused(token)
    if row is None:
        raise NotAuthenticatedError(_VOID)
    console = still_open(row)
    now = timezone.now()
    with transaction.atomic():
        if not ConsoleToken.objects.filter(digest=row.digest, used_at=None).update(used_at=now):
            raise NotAuthenticatedError(_VOID)
        row.used_at = now
        if row.protocol in EXCLUSIVE:  # the window that has it looks again whether it may stay
            record(f"project:{console.instance.project_id}", "console", {"id": str(console.instance.id)})
    return replace(console, takes_over=row.protocol in EXCLUSIVE and _same(row).filter(used_at__lt=now).exists())


def still_open(row: ConsoleToken) -> OpenConsole:
    """Look whether the console of a token may be open now.

    Raises NotAuthenticatedError when the sign-in it was asked with has ended, ForbiddenError when the user may not any
    more, NotFoundError when the server is gone or was made anew, ConflictError when it does not run, ConsoleTakenError
    when the user has opened it in another window since and only one can have it.
    """
    context = token_store.still_good(row.asked_with)
    instance = selectors.instance_for(context, row.instance_id)
    policy.enforce(context, RULE, {"project_id": str(instance.project_id), "user_id": str(instance.user_id)})
    if _made_anew(row, instance):
        raise NotFoundError(f"The guest of instance {instance.id} was made anew.")
    check_running(instance)
    if row.used_at is not None and row.protocol in EXCLUSIVE and _taken_over(row, row.used_at):
        raise ConsoleTakenError("You have opened this console in another window.")
    return OpenConsole(row, context, instance, OFFERED[row.protocol, row.console_type])


def find_token(token: str) -> ConsoleToken:
    """Return the record of a token that can still be used, with its server and host, without using it.

    Raises NotFoundError.
    """
    row = _unused(token)
    if row is None or row.instance.vm_state == VmState.DELETED or _made_anew(row, row.instance):
        raise NotFoundError("The console token is invalid or has expired.")
    return row


def flush() -> int:
    """Remove tokens past their end; returns how many."""
    removed, _ = ConsoleToken.objects.filter(expires_at__lt=timezone.now()).delete()
    return removed


def _unused(token: str) -> ConsoleToken | None:
    if not 0 < len(token) <= LONGEST_VALUE:
        return None
    rows = ConsoleToken.objects.select_related("instance__host")
    return rows.filter(digest=_digest(token), used_at=None, expires_at__gt=timezone.now()).first()


def _taken_over(row: ConsoleToken, used_at: datetime) -> bool:
    return _same(row).filter(used_at__gt=used_at).exists()


def _same(row: ConsoleToken) -> QuerySet[ConsoleToken]:
    """Return the tokens of a user for one console."""
    return ConsoleToken.objects.filter(instance_id=row.instance_id, user_id=row.user_id, protocol=row.protocol)


def _made_anew(row: ConsoleToken, instance: Instance) -> bool:
    """Whether the guest is another one than when the token was given out."""
    rebuilds = InstanceAction.objects.filter(instance=instance, action="rebuild", started_at__gt=row.created_at)
    return instance.attempt != row.attempt or rebuilds.exists()


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()
