"""Calls to hosts: requests that wait for an answer.  Never used to render a list page."""

import asyncio
import contextlib
import threading
import uuid
from collections import Counter
from datetime import timedelta

import msgspec
from django.db import transaction
from django.utils import timezone

from compute_agent.contract.calls import Call, CallBody, CallResult, ConsoleOutputCall
from compute_agent.contract.messages import decode_call_body, decode_call_result, encode
from provisioning.common.database.connections import release
from provisioning.common.errors import UnavailableError
from provisioning.common.processes.threads import SOCKETS
from provisioning.common.values.ids import read_id
from provisioning.events import services as events
from provisioning.events.selectors import LoggedEvent
from provisioning.events.tailer import tailer
from provisioning.hosts.commands import topic
from provisioning.hosts.models import HostCall

NO_ANSWER = "The host does not answer."
MOST_WAITING = 8
"""Maximum number of threads of a process that wait for hosts: half of the threads that serve pages."""
MOST_OF_HOST = 3
"""Maximum number of threads that wait for one host, so that other hosts can be called while it does not answer."""
RETRY_AFTER = 10
"""Seconds after which a refused caller is asked to retry: the longest time that callers wait for an answer."""

MOST_CONSOLE_BYTES = 131_072
"""Maximum size of console output in one answer: in JSON a control character has six bytes, and the answer must fit into
one frame.
"""

_waiting: Counter[uuid.UUID] = Counter()
"""Number of waiting threads for each host."""
_waiting_lock = threading.Lock()


def call(host_id: uuid.UUID, body: CallBody, timeout: float) -> CallResult:
    """Call the host and block this thread for up to ``timeout`` seconds.  Raises UnavailableError if no answer arrives,
    and immediately if ``MOST_WAITING`` threads wait already, or ``MOST_OF_HOST`` for this host.

    Must not run inside a transaction, because the call is sent on commit.
    """
    with _waiting_lock:
        if _waiting[host_id] >= MOST_OF_HOST or _waiting.total() >= MOST_WAITING:
            text = "Too many calls to hosts are waiting for an answer. Try again."
            raise UnavailableError(text, retry_after=RETRY_AFTER)
        _waiting[host_id] += 1
    try:
        return _call(host_id, body, timeout)
    finally:
        with _waiting_lock:
            _waiting[host_id] -= 1
            if not _waiting[host_id]:
                del _waiting[host_id]


def _call(host_id: uuid.UUID, body: CallBody, timeout: float) -> CallResult:
    call_id = uuid.uuid4()
    answered = threading.Event()
    subscription = tailer().subscribe([_reply_topic(call_id)], lambda _: answered.set())
    try:
        _ask(call_id, host_id, body, timeout)
        release()
        answered.wait(timeout)
        return _pop_answer(call_id)
    finally:
        subscription.close()


async def acall(host_id: uuid.UUID, body: CallBody, timeout: float) -> CallResult:
    """Call the host and wait for up to ``timeout`` seconds, without blocking a thread. Raises UnavailableError if no
    answer arrives.

    The limits on waiting threads do not apply.
    """
    call_id = uuid.uuid4()
    answered = asyncio.Event()
    loop = asyncio.get_running_loop()

    def wake(_: LoggedEvent) -> None:
        loop.call_soon_threadsafe(answered.set)

    subscription = await SOCKETS.run(tailer().subscribe, [_reply_topic(call_id)], wake)
    try:
        await SOCKETS.run(_ask, call_id, host_id, body, timeout)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(answered.wait(), timeout)
        return await SOCKETS.run(_pop_answer, call_id)
    finally:
        subscription.close()


def pending_calls(host_id: uuid.UUID) -> list[Call]:
    """Return the host's unanswered calls whose callers still wait."""
    rows = HostCall.objects.filter(host_id=host_id, result=None, expires_at__gt=timezone.now()).order_by("created_at")
    return [Call(id=str(row.id), body=decode_call_body(row.body)) for row in rows]


def answer(host_id: uuid.UUID, call_id: str, result: CallResult) -> bool:
    """Store the host's answer and wake the caller; False if no caller waits for it from this host."""
    known = read_id(call_id)
    if known is None:
        return False
    with transaction.atomic():
        rows = HostCall.objects.filter(host_id=host_id, id=known, result=None)
        if not rows.update(result=encode(result).decode()):
            return False
        events.record(_reply_topic(call_id), "answered", {})
    return True


def prune() -> int:
    """Delete calls whose callers no longer wait; returns their number."""
    return HostCall.objects.filter(expires_at__lt=timezone.now() - timedelta(minutes=1)).delete()[0]


def _reply_topic(call_id: uuid.UUID | str) -> str:
    return f"reply:{call_id}"


def _ask(call_id: uuid.UUID, host_id: uuid.UUID, body: CallBody, timeout: float) -> None:
    if isinstance(body, ConsoleOutputCall):
        body = msgspec.structs.replace(body, max_bytes=min(body.max_bytes, MOST_CONSOLE_BYTES))
    expires = timezone.now() + timedelta(seconds=timeout)
    with transaction.atomic():
        HostCall.objects.create(id=call_id, host_id=host_id, body=encode(body).decode(), expires_at=expires)
        events.record(topic(host_id), "call", {"id": str(call_id)})


def _pop_answer(call_id: uuid.UUID) -> CallResult:
    """Read and delete the answer; raises UnavailableError if there is none."""
    text = HostCall.objects.filter(id=call_id).values_list("result", flat=True).first()
    HostCall.objects.filter(id=call_id).delete()
    if text is None:
        raise UnavailableError(NO_ANSWER)
    return decode_call_result(text)
