"""Remote consoles of servers: one-time tokens that open them, and checks of open consoles."""

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

from compute_agent.contract.power import PowerState
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError, NotAuthenticatedError, NotFoundError
from provisioning.compute import selectors
from provisioning.compute.errors import ConsoleTakenError
from provisioning.compute.models import ConsoleToken, Instance, InstanceAction
from provisioning.compute.states import TaskState, VmState
from provisioning.events.services import record
from provisioning.identity import policy
from provisioning.identity.authentication import authenticate
from provisioning.identity.tokens.tokens import TokenData

RULE = "os_compute_api:os-remote-consoles"
TAKE_OVER = "novella:servers:replace_console"
Protocol = Literal["vnc", "serial"]
OFFERED: dict[tuple[str, str], Protocol] = {("vnc", "novnc"): "vnc", ("serial", "serial"): "serial"}
"""Supported protocols and types of consoles."""
EXCLUSIVE = frozenset({"serial"})
"""Protocols that allow one connection at a time."""
MOST_UNUSED = 10
"""Maximum number of unused tokens of one user for one server; the oldest is deleted when it is exceeded."""
LONGEST_VALUE = 128
"""Maximum number of characters of a presented token; issued tokens are shorter."""
_VOID = "This console URL was already used, has expired or is unknown. Request a new one."

_NO_GUEST = {VmState.BUILDING, VmState.SHELVED_OFFLOADED, VmState.SOFT_DELETED, VmState.DELETED}
_GOING = {
    TaskState.DELETING,
    TaskState.SOFT_DELETING,
    TaskState.SHELVING_OFFLOADING,
    TaskState.REBUILDING,
    TaskState.REBUILD_BLOCK_DEVICE_MAPPING,
    TaskState.REBUILD_SPAWNING,
}


@dataclass(frozen=True, slots=True)
class RemoteConsole:
    """A requested console; ``token`` is a secret and opens it once."""

    protocol: str
    console_type: str
    token: str


@dataclass(frozen=True, slots=True)
class OpenConsole:
    """A console opened with a token; ``row`` is checked again while it stays open.

    ``takes_over``: another window, which was notified to close, may still have the console open.
    """

    row: ConsoleToken
    context: RequestContext
    instance: Instance
    protocol: Protocol
    takes_over: bool = False


def create_console(
    context: RequestContext,
    instance_id: uuid.UUID | str,
    protocol: str,
    console_type: str,
    asked_with: TokenData,
    *,
    takes_over: bool = False,
) -> RemoteConsole:
    """Issue a token for a console of a server. It becomes invalid, and the console closes, when the caller's token
    ``asked_with`` ends.

    ``takes_over``: opening the console closes an exclusive console of another user. Raises NotFoundError,
    InvalidInputError for an unsupported console, ConflictError without a running guest, ForbiddenError.
    """
    instance = selectors.instance_for(context, instance_id)
    if takes_over:
        policy.enforce(context, TAKE_OVER, _target(instance))
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
        asked_with=authenticate.keep(asked_with),
        takes_over=takes_over,
    )
    unused = ConsoleToken.objects.filter(instance=instance, user_id=context.user_id, used_at=None)
    spare = list(unused.order_by("-created_at").values_list("digest", flat=True)[MOST_UNUSED : 2 * MOST_UNUSED])
    if spare:
        ConsoleToken.objects.filter(digest__in=spare).delete()
    return RemoteConsole(protocol, console_type, token)


def use_token(token: str) -> OpenConsole:
    """Open the console of a token, which can be used once.

    Raises NotAuthenticatedError for a token that is unknown, used or expired, or whose caller's token has ended;
    also ForbiddenError, NotFoundError and ConflictError as in ``still_open``.
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
        if row.protocol in EXCLUSIVE:  # an open window of this console then checks whether it may stay open
            record(f"project:{console.instance.project_id}", "console", {"id": str(console.instance.id)})
    earlier = row.protocol in EXCLUSIVE and _replaced_by(row).filter(used_at__lt=now).exists()
    return replace(console, takes_over=earlier)


def still_open(row: ConsoleToken) -> OpenConsole:
    """Check whether the console of a token may be open now.

    Raises NotAuthenticatedError when the token with which it was requested has ended, ForbiddenError when the user is
    no longer allowed, NotFoundError when the server was deleted or rebuilt, ConflictError when it does not run,
    ConsoleTakenError when an exclusive console was opened in another window, or replaced by another user, since.
    """
    context = authenticate.still_good(row.asked_with)
    instance = selectors.instance_for(context, row.instance_id)
    policy.enforce(context, RULE, _target(instance))
    if _was_replaced(row, instance):
        raise NotFoundError(f"The guest of instance {instance.id} was rebuilt.")
    check_running(instance)
    if row.used_at is not None and row.protocol in EXCLUSIVE:
        _check_not_taken(row, row.used_at)
    return OpenConsole(row, context, instance, OFFERED[row.protocol, row.console_type])


def find_token(token: str) -> ConsoleToken:
    """Return a usable token with its server and host, without using it.

    Raises NotFoundError.
    """
    row = _unused(token)
    if row is None or row.instance.vm_state == VmState.DELETED or _was_replaced(row, row.instance):
        raise NotFoundError("The console token is invalid or has expired.")
    return row


def flush() -> int:
    """Delete expired tokens; returns their number."""
    removed, _ = ConsoleToken.objects.filter(expires_at__lt=timezone.now()).delete()
    return removed


def _unused(token: str) -> ConsoleToken | None:
    if not 0 < len(token) <= LONGEST_VALUE:
        return None
    rows = ConsoleToken.objects.select_related("instance__host")
    return rows.filter(digest=_digest(token), used_at=None, expires_at__gt=timezone.now()).first()


def _check_not_taken(row: ConsoleToken, used_at: datetime) -> None:
    later = _of_console(row).filter(used_at__gt=used_at)
    if later.filter(user_id=row.user_id).exists():
        raise ConsoleTakenError("You have opened this console in another window.")
    if later.filter(takes_over=True).exists():
        raise ConsoleTakenError("Another user has replaced your connection to this console.")


def _replaced_by(row: ConsoleToken) -> QuerySet[ConsoleToken]:
    """Return the tokens whose consoles close when the console of this token is opened."""
    return _of_console(row) if row.takes_over else _of_console(row).filter(user_id=row.user_id)


def _of_console(row: ConsoleToken) -> QuerySet[ConsoleToken]:
    return ConsoleToken.objects.filter(instance_id=row.instance_id, protocol=row.protocol)


def _target(instance: Instance) -> dict[str, str]:
    return {"project_id": str(instance.project_id), "user_id": str(instance.user_id)}


def _was_replaced(row: ConsoleToken, instance: Instance) -> bool:
    """Whether the guest was replaced after the token was issued."""
    rebuilds = InstanceAction.objects.filter(instance=instance, action="rebuild", started_at__gt=row.created_at)
    return instance.attempt != row.attempt or rebuilds.exists()


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def check_running(instance: Instance) -> None:
    """Raise ConflictError unless the server's guest is running or paused."""
    there = instance.host_id is not None and instance.vm_state not in _NO_GUEST and instance.task_state not in _GOING
    if not there or instance.power_state not in (PowerState.RUNNING, PowerState.PAUSED):
        raise ConflictError(f"Instance {instance.id} is not ready")
