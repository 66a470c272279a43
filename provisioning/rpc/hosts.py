"""Orders and questions to hosts: durable commands, sent until acknowledged, and calls that wait for an answer."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec
from django.db import connection, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from compute_agent.contract.commands import CommandBody
from compute_agent.contract.messages import (
    Call,
    CallBody,
    CallResult,
    Command,
    ConsoleOutputCall,
    decode_call_body,
    decode_call_result,
    decode_command_body,
    encode,
)
from provisioning.common.errors import UnavailableError
from provisioning.common.threads import in_thread
from provisioning.events import services as events
from provisioning.events.selectors import LoggedEvent
from provisioning.events.tailer import tailer
from provisioning.rpc.models import HostCall, HostCommand

NO_ANSWER = "The host does not answer."
MOST_WAITING = 8
"""Threads of one process that wait for hosts: half of those that serve pages, so that a silent host stops none."""
KEPT = timedelta(days=1)
"""How long finished commands are kept for whoever looks into a fault."""

LOST_AFTER = timedelta(minutes=10)
"""An order that a host took so long ago and never ended counts as lost: its report was, or the host's memory."""

MOST_CONSOLE_BYTES = 131_072
"""Asked of a host at once: six times as much, as a log of control codes becomes in JSON, still fits a frame."""

SIDE_ORDERS = ("attach_interface_request", "detach_interface_request", "refresh_ports_request")
"""Kinds of orders that belong to no task of their instance: they go on beside it, in their turn."""

_waiting = threading.BoundedSemaphore(MOST_WAITING)


def topic(host_id: uuid.UUID) -> str:
    """The event topic that the web process holding the host's link follows."""
    return f"host:{host_id}"


# ----- commands -------------------------------------------------------------------------------------------------------


def command(
    host_id: uuid.UUID, instance_id: uuid.UUID, attempt: int, body: CommandBody, deadline: datetime | None
) -> HostCommand:
    """Order something of a host in the caller's transaction; sent when that commits, and again until acknowledged."""
    order = HostCommand.objects.create(
        host_id=host_id,
        instance_id=instance_id,
        attempt=attempt,
        kind=str(type(body).__struct_config__.tag),
        body=encode(body).decode(),
        deadline=deadline,
    )
    events.record(topic(host_id), "command", {"id": str(order.id)})
    return order


def pending(host_id: uuid.UUID) -> list[Command]:
    """What the host has not acknowledged yet, in the order of giving."""
    orders = HostCommand.objects.filter(host_id=host_id, acknowledged_at=None, finished_at=None)
    return [
        Command(
            id=str(order.id),
            instance_id=str(order.instance_id),
            attempt=order.attempt,
            body=decode_command_body(order.body),
            deadline=order.deadline.timestamp() if order.deadline else 0.0,
        )
        for order in orders.order_by("created_at", "attempt")
    ]


def acknowledge(host_id: uuid.UUID, ids: Iterable[str]) -> int:
    """The host has stored these commands; ids that are not its own change nothing.  Returns how many were new.

    One that somebody else is ending at this moment is passed over: its end says as much.
    """
    known = HostCommand.objects.filter(host_id=host_id, id__in=_uuids(ids), acknowledged_at=None)
    if not connection.features.has_select_for_update_skip_locked:
        return known.update(acknowledged_at=timezone.now()) if known.exists() else 0
    with transaction.atomic():
        free = list(known.select_for_update(skip_locked=True).values_list("id", flat=True))
        return known.filter(id__in=free).update(acknowledged_at=timezone.now()) if free else 0


def finish(host_id: uuid.UUID, command_id: str | uuid.UUID) -> bool:
    """The host has done with the command, well or badly; False when that was known or the command is not its own.

    What the order said is forgotten with its end: there may be passwords in it.
    """
    now = timezone.now()
    known = HostCommand.objects.filter(host_id=host_id, id__in=_uuids([str(command_id)]), finished_at=None)
    unacknowledged = known.filter(acknowledged_at=None).update(acknowledged_at=now, finished_at=now, body="")
    return bool(unacknowledged or known.update(finished_at=now, body=""))


def withdraw(instance_id: uuid.UUID, older_than_attempt: int) -> int:
    """Send the commands of older attempts no more; returns how many were still unfinished."""
    stale = HostCommand.objects.filter(instance_id=instance_id, attempt__lt=older_than_attempt, finished_at=None)
    return stale.update(finished_at=timezone.now(), body="")


def withdraw_orders(instance_id: uuid.UUID) -> int:
    """Send no order of a task any more, and pass over what is still said of one; returns how many there were."""
    stale = HostCommand.objects.filter(instance_id=instance_id, finished_at=None)
    stale = stale.exclude(kind__in=["destroy_request", *SIDE_ORDERS])
    return stale.update(finished_at=timezone.now(), body="")


def withdraw_unsent(host_id: uuid.UUID, instance_id: uuid.UUID, kind: str) -> int:
    """Forget the orders of a kind that the host has not taken yet, because the next one says all that they say; returns
    how many: however often it is asked for, one waits for a host that is away.
    """
    waiting = HostCommand.objects.filter(host_id=host_id, instance_id=instance_id, kind=kind, acknowledged_at=None)
    return waiting.filter(finished_at=None).update(finished_at=timezone.now(), body="")


def order_of(instance_id: uuid.UUID, attempt: int) -> HostCommand | None:
    """Return the newest unfinished order of a task of an instance, but to build or destroy it."""
    orders = HostCommand.objects.filter(instance_id=instance_id, attempt=attempt, finished_at=None)
    orders = orders.exclude(kind__in=["build_request", "destroy_request", *SIDE_ORDERS])
    return orders.order_by("-created_at").first()


def is_busy_with(instance_id: uuid.UUID) -> bool:
    """Whether any order but to destroy it has not ended for an instance."""
    orders = HostCommand.objects.filter(instance_id=instance_id, finished_at=None)
    return orders.exclude(kind="destroy_request").exists()


def side_orders_overdue() -> QuerySet[HostCommand]:
    """Return the side orders whose deadline has passed without a word."""
    return HostCommand.objects.filter(kind__in=SIDE_ORDERS, finished_at=None, deadline__lt=timezone.now())


def send_again(host_id: uuid.UUID) -> int:
    """The host has lost what it had stored: whatever has not ended is sent once more; returns how many commands."""
    taken = HostCommand.objects.filter(host_id=host_id, finished_at=None).exclude(acknowledged_at=None)
    return taken.update(acknowledged_at=None)


def destroys_awaited() -> QuerySet[HostCommand]:
    """Orders to destroy whose end can still be expected: they wait for their host, or it took them lately."""
    lately = Q(acknowledged_at=None) | Q(acknowledged_at__gte=timezone.now() - LOST_AFTER)
    return HostCommand.objects.filter(lately, kind="destroy_request", finished_at=None)


# ----- calls ----------------------------------------------------------------------------------------------------------


def call(host_id: uuid.UUID, body: CallBody, timeout: float) -> CallResult:
    """Ask the host and wait up to ``timeout`` seconds in this thread; raises UnavailableError when no answer comes, and
    at once when ``MOST_WAITING`` threads wait already.

    Not inside a transaction: the question is sent when it is committed.
    """
    if not _waiting.acquire(blocking=False):
        raise UnavailableError("Too many questions to hosts wait for an answer. Try again.")
    try:
        return _call(host_id, body, timeout)
    finally:
        _waiting.release()


def _call(host_id: uuid.UUID, body: CallBody, timeout: float) -> CallResult:
    question = uuid.uuid4()
    answered = threading.Event()
    subscription = tailer().subscribe([_reply_topic(question)], lambda _: answered.set())
    try:
        _ask(question, host_id, body, timeout)
        answered.wait(timeout)
        return _take_answer(question)
    finally:
        subscription.close()


async def acall(host_id: uuid.UUID, body: CallBody, timeout: float) -> CallResult:
    """As ``call``, without holding a thread while waiting."""
    question = uuid.uuid4()
    answered = asyncio.Event()
    loop = asyncio.get_running_loop()

    def wake(_: LoggedEvent) -> None:
        loop.call_soon_threadsafe(answered.set)

    subscription = await in_thread(tailer().subscribe, [_reply_topic(question)], wake)
    try:
        await in_thread(_ask, question, host_id, body, timeout)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(answered.wait(), timeout)
        return await in_thread(_take_answer, question)
    finally:
        subscription.close()


def pending_calls(host_id: uuid.UUID) -> list[Call]:
    """The questions to put to the host: not answered yet, and somebody still waits."""
    asked = HostCall.objects.filter(host_id=host_id, result=None, expires_at__gt=timezone.now()).order_by("created_at")
    return [Call(id=str(question.id), body=decode_call_body(question.body)) for question in asked]


def answer(host_id: uuid.UUID, call_id: str, result: CallResult) -> bool:
    """Keep the host's answer and wake the caller; False when nobody waits for it from this host."""
    with transaction.atomic():
        asked = HostCall.objects.filter(host_id=host_id, id__in=_uuids([call_id]), result=None)
        if not asked.update(result=encode(result).decode()):
            return False
        events.record(_reply_topic(call_id), "answered", {})
    return True


def prune() -> int:
    """Remove questions nobody waits for and commands finished long ago; returns how many."""
    now = timezone.now()
    calls, _ = HostCall.objects.filter(expires_at__lt=now - timedelta(minutes=1)).delete()
    orders, _ = HostCommand.objects.filter(finished_at__lt=now - KEPT).delete()
    return calls + orders


def _reply_topic(question: uuid.UUID | str) -> str:
    return f"reply:{question}"


def _ask(question: uuid.UUID, host_id: uuid.UUID, body: CallBody, timeout: float) -> None:
    if isinstance(body, ConsoleOutputCall):
        body = msgspec.structs.replace(body, max_bytes=min(body.max_bytes, MOST_CONSOLE_BYTES))
    expires = timezone.now() + timedelta(seconds=timeout)
    with transaction.atomic():
        HostCall.objects.create(id=question, host_id=host_id, body=encode(body).decode(), expires_at=expires)
        events.record(topic(host_id), "call", {"id": str(question)})


def _take_answer(question: uuid.UUID) -> CallResult:
    """Read and remove the answer; raises UnavailableError when there is none."""
    text = HostCall.objects.filter(id=question).values_list("result", flat=True).first()
    HostCall.objects.filter(id=question).delete()
    if text is None:
        raise UnavailableError(NO_ANSWER)
    return decode_call_result(text)


def _uuids(ids: Iterable[str]) -> list[uuid.UUID]:
    """The ids that are well formed; what a host sends is not trusted to be."""
    found = []
    for text in ids:
        with contextlib.suppress(ValueError):
            found.append(uuid.UUID(text))
    return found
