"""The agents' link: one WebSocket for each host, which delivers commands and calls and receives reports."""

import asyncio
import contextlib
import logging
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime
from typing import Any

from cryptography.fernet import InvalidToken
from django.conf import settings

from compute_agent.contract.base import Message
from compute_agent.contract.certificates import CertificateRequest, RenewCertificate
from compute_agent.contract.messages import (
    CallReply,
    CommandAck,
    ContractError,
    CredentialStored,
    CredentialTaken,
    Enrol,
    Events,
    EventsAck,
    Heartbeat,
    Hello,
    NewCredential,
    Refused,
    RenewCredential,
    ResourceAudit,
    ToPortal,
    Welcome,
    decode_to_portal,
    encode,
)
from compute_agent.contract.samples import Samples
from portal.common.websockets import handshake
from portal.common.websockets.consumer import Consumer
from provisioning.common.errors import InvalidInputError, NotAuthenticatedError
from provisioning.common.processes.threads import in_thread
from provisioning.events import services as log
from provisioning.events.selectors import LoggedEvent
from provisioning.events.tailer import Subscription, tailer
from provisioning.hosts import (
    audits,
    calls,
    certificates,
    commands,
    credentials,
    enrolment,
    liveness,
    refused,
    reports,
    versions,
)
from provisioning.hosts.models import Host
from provisioning.measures import inbound
from provisioning.measures.resolutions import FINE

MOST_OF_ADDRESS = 16
MOST = 256


class Strangers:
    """Counts open links by remote address; used only in the event loop."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    def enter(self, address: str) -> bool:
        """Count a link, unless the address or the process is at its limit."""
        if self._open[address] >= MOST_OF_ADDRESS or self._open.total() >= MOST:
            return False
        self._open[address] += 1
        return True

    def leave(self, address: str) -> None:
        """Remove a link from the count."""
        self._open[address] -= 1
        if self._open[address] <= 0:
            del self._open[address]


FIRST_FRAME_WITHIN = 15.0
ACKNOWLEDGE_AFTER = 0.5
CERTIFICATE_AGAIN = 30.0
"""Seconds after which the portal repeats its call for certificate requests to a host that has not answered."""
REFUSED, REPLACED, FAILED = 4401, 4409, 4500
"""Close codes of the link."""

HOST_NAME = "x-novella-host"

logger = logging.getLogger(__name__)
strangers = Strangers()


class AgentConsumer(Consumer):
    """``/ws/agent``; the frames are ``compute_agent.contract.messages``.

    Frames of one host are handled in order. A host has one live link: a new link, in any web process, ends the
    previous one.
    """

    async def connect(self) -> None:
        """Accept the link and wait for the first frame.

        A link without a host's credential in its handshake can only enrol. The number of such links is limited, as the
        web server buffers up to 64 KiB for each of them; above the limit they are refused before they are accepted.
        """
        self._host: Host | None = None
        self._closed = False
        self._link = uuid.uuid4().hex
        self._own_event = self._newest_link = 0
        self._sent: set[str] = set()
        self._sent_calls: set[str] = set()
        self._stored: list[str] = []
        self._samples = inbound.Inbox()
        self._news = asyncio.Event()
        self._commands = self._calls = self._renewal = True
        self._asked_since: datetime | None = None
        self._certificate_asked_at: float | None = None
        self._subscription: Subscription | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._stranger = strangers.enter(self._address)
        if not self._stranger:
            self._closed = True
            await self.close()
            return
        if await in_thread(self._shows_credential):
            self._know()
        await self.accept()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(FIRST_FRAME_WITHIN, lambda: self._start(self._end(REFUSED)))

    async def disconnect(self, code: int) -> None:
        self._leave()
        if self._timer is not None:
            self._timer.cancel()
        self._closed = True
        for task in set(self._tasks):
            task.cancel()
        if self._subscription is None or self._host is None:
            return
        self._subscription.close()
        if self._newest_link <= self._own_event:
            await in_thread(liveness.disconnected, self._host.id)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Handle one frame completely before the next."""
        if self._closed:
            return
        try:
            message = decode_to_portal(text_data if text_data is not None else bytes_data or b"")
            if self._host is None:
                await self._admit(message)
            else:
                await self._handle(self._host.id, message)
        except ContractError as error:
            await self._refuse(f"This is not a frame of the agents' contract: {error}", final=False)
        except (NotAuthenticatedError, InvalidInputError) as error:
            await self._refuse(error.message, final=True)
        except Exception:
            logger.exception("The link of host %s fails.", self._host.name if self._host else "(unknown)")
            await self._end(FAILED)

    @property
    def _address(self) -> str:
        """The remote address of the link."""
        return str((self.scope.get("client") or ("",))[0])

    # --- unauthenticated links -----------------------------------------------------------------------------------

    def _shows_credential(self) -> bool:
        """Whether the handshake has the credential of a host."""
        name, credential = handshake.header(self.scope, HOST_NAME), handshake.bearer(self.scope)
        if not name or not credential:
            return False
        try:
            enrolment.authenticate(name, credential)
        except NotAuthenticatedError:
            return False
        return True

    def _know(self) -> None:
        """Mark the link as authenticated. It may then send full reports, and no longer uses a place of the
        unauthenticated links.
        """
        self._leave()
        admit: Any = self.scope.get("admit")
        if admit is not None:
            admit()

    def _leave(self) -> None:
        if self._stranger:
            self._stranger = False
            strangers.leave(self._address)

    # --- authentication ------------------------------------------------------------------------------------------

    async def _admit(self, message: ToPortal) -> None:
        """Handle the first frame: ``Enrol`` with a join token, or ``Hello`` with the credential in the handshake."""
        if isinstance(message, Enrol):
            host = await in_thread(self._checked, message.host, enrolment.enrol, message)
            await in_thread(liveness.heartbeat, host.id)
        elif isinstance(message, Hello):
            name = handshake.header(self.scope, HOST_NAME)
            shown = handshake.bearer(self.scope)
            host = await in_thread(self._checked, name, liveness.admit, name, shown, message, self._address)
        else:
            text = "A link begins with enrol or hello."
            raise ContractError(text)
        if self._timer is not None:
            self._timer.cancel()
        self._host = host
        self._know()
        await self._send_message(
            Welcome(
                host=host.name,
                host_id=str(host.id),
                heartbeat_interval=float(settings.HEARTBEAT_INTERVAL),
                audit_interval=float(settings.AUDIT_INTERVAL),
                sample_interval=float(FINE.seconds) if settings.MEASURES else 0.0,
            )
        )
        await self._send_message(await in_thread(liveness.ownership, host.id))
        await in_thread(self._follow, host.id, asyncio.get_running_loop())
        if not await in_thread(liveness.is_known, host.id):  # the host was removed before its first frame
            await self._end(REPLACED)
            return
        self._start(self._guard(self._deliver, host.id))

    def _checked(self, name: str, check: Callable[..., Host], *specified: Any) -> Host:
        """Call ``check``, which returns the host of the link, and record the result for operators."""
        try:
            host = check(*specified)
        except (NotAuthenticatedError, InvalidInputError) as error:
            refused.record(name, self._address, error.message)
            raise
        refused.settled(host.name)
        return host

    def _follow(self, host_id: uuid.UUID, loop: asyncio.AbstractEventLoop) -> None:
        """Subscribe to the host's events, then end an older link of the host."""

        def arrived(event: LoggedEvent) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the process is stopping
                loop.call_soon_threadsafe(self._handle_event, event)

        self._subscription = tailer().subscribe([commands.topic(host_id)], arrived)
        log.record(commands.topic(host_id), "link", {"link": self._link})

    def _handle_event(self, event: LoggedEvent) -> None:
        """Handle an event for this host, in the loop's thread."""
        if event.kind == "link":
            if event.payload.get("link") == self._link:
                self._own_event = event.id
            else:
                self._newest_link = max(self._newest_link, event.id)
            forgotten = event.payload.get("link") == "forgotten"  # the host no longer exists
            if forgotten or (self._own_event and self._newest_link > self._own_event):
                self._start(self._end(REPLACED))
            return
        if event.kind == "call":
            self._calls = True
        elif event.kind == "credential":
            self._renewal = True
        else:
            self._commands = True
        self._news.set()

    # --- to the host ---------------------------------------------------------------------------------------------

    async def _deliver(self, host_id: uuid.UUID) -> None:
        """Send every command and call once on this link, in order. Commands and calls that the host does not
        acknowledge are sent again on its next link.
        """
        while True:
            if self._commands:
                self._commands = False
                before = set(self._sent)  # a command may be acknowledged and removed while the rows are read
                for command in await in_thread(versions.commands_for, host_id):
                    if command.id not in before:
                        self._sent.add(command.id)
                        await self._send_message(command)
            if self._calls:
                self._calls = False
                requested = await in_thread(versions.calls_for, host_id)
                for call in requested:
                    if call.id not in self._sent_calls:
                        await self._send_message(call)
                self._sent_calls = {call.id for call in requested}  # a call that was just answered is not sent again
            if self._renewal:
                self._renewal = False
                await self._ask_for_credential(host_id)
            if not (self._commands or self._calls or self._renewal):
                await self._news.wait()
            self._news.clear()

    async def _ask_for_credential(self, host_id: uuid.UUID) -> None:
        """If an operator has requested a new credential, ask the host for it, once for each request of an operator."""
        since = await in_thread(credentials.requested_at, host_id)
        if since is not None and since != self._asked_since:
            self._asked_since = since
            await self._send_message(RenewCredential())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task of this link and keep a reference to it, as the event loop does not."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guard(self, work: Callable[[uuid.UUID], Awaitable[None]], host_id: uuid.UUID) -> None:
        """Run a task of this link; if it fails, the link is closed, and the host connects again."""
        try:
            await work(host_id)
        except Exception:
            logger.exception("The link of host %s fails.", host_id)
            await self._end(FAILED)

    # --- from the host -------------------------------------------------------------------------------------------

    async def _handle(self, host_id: uuid.UUID, message: ToPortal) -> None:
        match message:
            case Events(events=events):
                await in_thread(reports.receive, host_id, events)
                if events:
                    await self._send_message(EventsAck(seq=max(event.seq for event in events)))
            case CommandAck(ids=ids):
                if not self._stored:
                    self._start(self._guard(self._acknowledge, host_id))
                self._stored += ids
            case Heartbeat() | ResourceAudit() | Samples():
                await self._process_state(host_id, message)
            case CallReply(id=call_id, result=result):
                await in_thread(calls.answer, host_id, call_id, result)
            case NewCredential() | CredentialStored() | CertificateRequest():
                await self._renew(host_id, message)
            case Enrol() | Hello():
                text = "A link sends enrol or hello once."
                raise ContractError(text)

    async def _process_state(self, host_id: uuid.UUID, message: Heartbeat | ResourceAudit | Samples) -> None:
        if isinstance(message, Heartbeat):
            await in_thread(liveness.heartbeat, host_id, message.time)
        elif isinstance(message, Samples):
            await self._store_samples(host_id, message)
        else:
            await in_thread(audits.audit, host_id, message, self._address)
            await self._ask_for_certificate(host_id, message.certificates)

    async def _store_samples(self, host_id: uuid.UUID, samples: Samples) -> None:
        """Store the first samples in each interval; later ones are discarded without a query."""
        now = time.time()
        slot = self._samples.due(now)
        if slot is not None:
            await in_thread(inbound.receive, host_id, slot, samples, self._samples, now)

    async def _renew(self, host_id: uuid.UUID, message: NewCredential | CredentialStored | CertificateRequest) -> None:
        if isinstance(message, CertificateRequest):
            await self._sign(host_id, message)
        elif isinstance(message, NewCredential):
            await in_thread(credentials.store_new, host_id, message.credential)
            await self._send_message(CredentialTaken())
        else:
            await in_thread(credentials.activate, host_id)

    async def _ask_for_certificate(self, host_id: uuid.UUID, has: str | None) -> None:
        """Ask for certificate requests if the host lacks certificates that it should have."""
        now = asyncio.get_running_loop().time()
        asked_at = self._certificate_asked_at
        if asked_at is not None and now < asked_at + CERTIFICATE_AGAIN:
            return
        if await in_thread(certificates.due, host_id, has):
            self._certificate_asked_at = now
            await self._send_message(RenewCertificate())

    async def _sign(self, host_id: uuid.UUID, request: CertificateRequest) -> None:
        """Sign a certificate request; a host whose requests are invalid continues without certificates."""
        if self._certificate_asked_at is None:
            return
        try:
            certificate = await in_thread(certificates.issue, host_id, request)
        except InvalidInputError as error:
            logger.warning("Host %s gets no certificates: %s", self._host.name if self._host else "", error.message)
        except InvalidToken:
            logger.error("Hosts get no certificates: no credential key decrypts the key of their authority.")  # noqa: TRY400
        else:
            if certificate is not None:
                await self._send_message(certificate)

    async def _acknowledge(self, host_id: uuid.UUID) -> None:
        """Store acknowledgements after a short delay; a command that finishes within the delay needs no
        acknowledgement.

        Commands whose acknowledgement is lost with the link are sent again; they are idempotent.
        """
        await asyncio.sleep(ACKNOWLEDGE_AFTER)
        ids, self._stored = self._stored, []
        await in_thread(commands.acknowledge, host_id, ids)
        self._sent.difference_update(ids)

    # --- sending -------------------------------------------------------------------------------------------------

    async def _send_message(self, message: Message) -> None:
        if not self._closed:
            await self.send(text_data=encode(message).decode())

    async def _refuse(self, reason: str, *, final: bool) -> None:
        logger.warning("The link of host %s is refused: %s", self._host.name if self._host else "(unknown)", reason)
        await self._send_message(Refused(reason=reason, final=final))
        await self._end(REFUSED)

    async def _end(self, code: int) -> None:
        if not self._closed:
            self._closed = True
            await self.close(code)
