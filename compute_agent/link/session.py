"""One connection to the portal, from ``Welcome`` until it ends."""

import asyncio
import logging
import time

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from compute_agent.contract.base import Message
from compute_agent.contract.calls import Call
from compute_agent.contract.certificates import Certificate, RenewCertificate
from compute_agent.contract.messages import (
    CallReply,
    Command,
    CommandAck,
    ContractError,
    CredentialStored,
    CredentialTaken,
    Events,
    EventsAck,
    Heartbeat,
    NewCredential,
    Ownership,
    Refused,
    RenewCredential,
    ToAgent,
    Welcome,
    decode_to_agent,
    encode,
)
from compute_agent.host import Host
from compute_agent.link.credential import Renewal
from compute_agent.link.errors import RefusedByPortalError
from compute_agent.virt.errors import HostError

log = logging.getLogger(__name__)

AUDIT_PAUSE = 1.0
"""Seconds between the end of a command and the next audit, so that commands that end together cause one audit."""


AUDIT_AGAIN = 5.0
"""Seconds until a failed audit is retried."""


class Session:
    """Transfers commands, calls and events, in independent tasks."""

    def __init__(
        self, connection: ClientConnection, host: Host, welcome: Welcome, renewal: Renewal, host_ip: str
    ) -> None:
        """Use a connection on which the portal has sent ``Welcome``."""
        self._connection = connection
        self._host = host
        self._welcome = welcome
        self._renewal = renewal
        self._host_ip = host_ip
        self._stored: list[str] = []
        self._to_acknowledge = asyncio.Event()

    async def run(self) -> None:
        """Serve until the connection ends; raises ConnectionClosed or RefusedByPortalError."""
        self._host.outbox.rewind()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._beat())
                tasks.create_task(self._send_audits())
                tasks.create_task(self._send_samples())
                tasks.create_task(self._send_acks())
                tasks.create_task(self._send_events())
                await self._receive(tasks)
        except ExceptionGroup as group:
            for kind in (RefusedByPortalError, ConnectionClosed):
                if (expected := group.subgroup(kind)) is not None:
                    raise expected.exceptions[0] from None
            raise

    async def _send(self, message: Message) -> None:
        await self._connection.send(encode(message), text=True)

    async def _receive(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            frame = await self._connection.recv(decode=False)
            try:
                message = decode_to_agent(frame)
            except ContractError as error:
                log.warning("%s: the portal sent an unsupported message: %s", self._host.name, error)
                continue
            await self._handle(message, tasks)

    async def _handle(self, message: ToAgent, tasks: asyncio.TaskGroup) -> None:
        match message:
            case Command():
                self._host.accept(message)
                self._stored.append(message.id)
                self._to_acknowledge.set()
            case Ownership():
                self._host.resume_owned(message)
            case Call():
                tasks.create_task(self._answer(message))
            case EventsAck():
                self._host.outbox.acknowledged(message.seq)
            case RenewCredential():
                await self._send(NewCredential(credential=self._renewal.offer()))
            case CredentialTaken():
                await self._use_new_credential()
            case RenewCertificate() | Certificate():
                tasks.create_task(self._renew_certificate(message))
            case Refused():
                raise RefusedByPortalError(message.reason, final=message.final)
            case Welcome():
                self._welcome = message

    async def _use_new_credential(self) -> None:
        if self._renewal.activate():
            log.info("%s: has a new credential.", self._host.name)
            await self._send(CredentialStored())

    async def _renew_certificate(self, message: RenewCertificate | Certificate) -> None:
        if isinstance(message, Certificate):
            await self._host.store_certificate(message)
        elif (request := await self._host.request_certificate()) is not None:
            await self._send(request)

    async def _answer(self, call: Call) -> None:
        await self._send(CallReply(id=call.id, result=await self._host.answer(call.body)))

    async def _send_acks(self) -> None:
        while True:
            await self._to_acknowledge.wait()
            self._to_acknowledge.clear()
            ids, self._stored = self._stored, []
            await self._send(CommandAck(ids=ids))

    async def _send_events(self) -> None:
        while True:
            await self._send(Events(events=await self._host.outbox.next_frame()))

    async def _beat(self) -> None:
        while True:
            await self._send(Heartbeat(time=time.time()))
            await asyncio.sleep(self._welcome.heartbeat_interval)

    async def _send_samples(self) -> None:
        """Send samples at a steady pace. A sample that takes too long delays no other message."""
        interval = self._welcome.sample_interval
        if interval <= 0:
            return
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            try:
                await self._send(await self._host.samples())
            except HostError as error:
                log.warning("%s: could not measure its guests: %s %s", self._host.name, error.message, error.detail)
            due = max(due + interval, loop.time())
            await asyncio.sleep(due - loop.time())

    async def _send_audits(self) -> None:
        audits = self._host.audit_wanted
        while True:
            audits.clear()
            pause = self._welcome.audit_interval
            try:
                await self._send(await self._host.audit(self._host_ip))
            except HostError as error:
                log.warning("%s: could not measure the host: %s %s", self._host.name, error.message, error.detail)
                pause = min(pause, AUDIT_AGAIN)
            try:
                async with asyncio.timeout(pause):
                    await audits.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(AUDIT_PAUSE)
