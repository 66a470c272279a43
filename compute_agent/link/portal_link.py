"""Keeps a host connected to the portal: enrols it once, then sends ``Hello``, and reconnects."""

import asyncio
import logging
import random
import time
from urllib.parse import urlsplit

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from compute_agent.contract.messages import (
    MAX_FRAME,
    ContractError,
    Enrol,
    Hello,
    Refused,
    Welcome,
    decode_to_agent,
    encode,
)
from compute_agent.engine.threads import Threads
from compute_agent.host import Host
from compute_agent.link.credential import FILE_NAME, Credential, JoinToken, Renewal, load_or_make, store
from compute_agent.link.dial import SocketOpener, dial_in_thread, link_url
from compute_agent.link.errors import RefusedByPortalError, StartError
from compute_agent.link.session import Session
from compute_agent.settings import AgentSettings, agent_version
from compute_agent.virt.errors import HostError

log = logging.getLogger(__name__)

PAUSE = 0.2
PAUSE_MAX = 5.0
PAUSE_MAX_NEAR = 1.0
"""Limit of the pause if the portal is on this machine. Retries are cheap then, and portal and agent often start
together.
"""
PAUSE_FINAL = 30.0
"""Seconds before a retry after a refusal that only an operator can change."""
STEADY = 5.0
"""Seconds after which a connection counts as stable. After a stable connection, the first pause is short again."""
ANSWER_TIMEOUT = 15.0
PING_EVERY, PONG_WITHIN, CLOSED_WITHIN = 5.0, 10.0, 2.0
"""Seconds between two checks of a connection, until the answer, and until it is closed. If the network silently drops
packets, the host connects again before it counts as down (``NOVELLA_HOST_DOWN_AFTER``).
"""
LOG_AGAIN = 60.0
"""Seconds until the same problem is logged again."""


class PortalLink:
    """The link of one host."""

    def __init__(self, settings: AgentSettings, host: Host, threads: Threads, opener: SocketOpener) -> None:
        """Load or create the credential. Raises StartError if this host can neither enrol nor send ``Hello``."""
        self._settings = settings
        self._host = host
        self._threads = threads
        self._opener = opener
        self._token = JoinToken.of(settings)
        fresh = not (settings.state_dir / FILE_NAME).exists()
        if fresh and self._token.read() is None:
            raise StartError(f"The new host {settings.host!r} has no join token: pass one with --join-token-file.")
        self._credential: Credential = load_or_make(settings.state_dir, settings.host)
        self._enrol_next = not self._credential.enrolled and self._token.read() is not None
        near = urlsplit(settings.portal_url).hostname in {"127.0.0.1", "::1", "localhost"}
        self._pause_max = PAUSE_MAX_NEAR if near else PAUSE_MAX
        self._refusals = 0
        self._logged: tuple[str, float] = ("", 0.0)

    async def run(self) -> None:
        """Stay connected until cancelled."""
        pause = PAUSE
        while True:
            began = time.monotonic()
            try:
                await self._connect_once()
            except RefusedByPortalError as error:
                self._log_trouble(f"the portal refuses this host: {error}")
                pause = max(pause, self._pause_after_refusal(final=error.final))
            except (OSError, TimeoutError, WebSocketException, ContractError, HostError, StartError) as error:
                self._log_trouble(f"not connected to {self._settings.portal_url}: {_reason(error)}")
            except Exception:
                log.exception("%s: the link broke.", self._settings.host)
            if time.monotonic() - began > STEADY:
                pause = PAUSE
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 (spreads the hosts, hides nothing)
            pause = min(2 * pause, self._pause_max)

    def _pause_after_refusal(self, *, final: bool) -> float:
        """Switch between ``Enrol`` and ``Hello``, if both are possible. Return the seconds until the next attempt.

        Both can be wrong. An agent that died between the portal's acceptance and storing the acceptance sends ``Enrol``
        although the portal knows the host. A reinstalled portal does not know the host, and accepts only ``Enrol`` with
        a new token.
        """
        self._refusals += 1
        if self._enrol_next or self._has_token():
            self._enrol_next = not self._enrol_next
            if self._refusals % 2:
                return PAUSE
        return PAUSE_FINAL if final else PAUSE

    def _has_token(self) -> bool:
        try:
            return self._token.read() is not None
        except StartError as error:
            self._log_trouble(str(error))
            return False

    async def _connect_once(self) -> None:
        settings = self._settings
        enrolling = self._enrol_next
        sock = await dial_in_thread(self._threads.calls, settings.portal_url, self._opener)
        host_ip = settings.underlay_address or str(sock.getsockname()[0])
        headers = {} if enrolling else self._headers()
        try:
            async with connect(
                link_url(settings.portal_url),
                sock=sock,
                additional_headers=headers,
                compression=None,
                proxy=None,
                max_size=MAX_FRAME,
                ping_interval=PING_EVERY,
                ping_timeout=PONG_WITHIN,
                close_timeout=CLOSED_WITHIN,
            ) as connection:
                await connection.send(encode(await self._first_frame(enrolling=enrolling)), text=True)
                async with asyncio.timeout(ANSWER_TIMEOUT):
                    answer = decode_to_agent(await connection.recv(decode=False))
                welcome = self._admitted(answer)
                renewal = Renewal(settings.state_dir, self._credential)
                await Session(connection, self._host, welcome, renewal, host_ip).run()
        except InvalidStatus as error:
            raise RefusedByPortalError(f"it answers the handshake with HTTP {error.response.status_code}") from error
        finally:
            sock.close()

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._credential.secret}", "X-Novella-Host": self._settings.host}

    async def _first_frame(self, *, enrolling: bool) -> Enrol | Hello:
        name, release, machine = self._settings.host, agent_version(), self._settings.machine_id
        if enrolling:
            token = self._token.read() or ""
            return Enrol(
                join_token=token,
                host=name,
                credential=self._credential.secret,
                agent_version=release,
                machine=machine,
            )
        guests = await self._host.guests()
        documents, volumes = await self._host.documents(), self._host.known_volumes()
        return Hello(
            host=name,
            agent_version=release,
            guests=guests,
            time=time.time(),
            machine=machine,
            documents=documents,
            volumes=volumes,
        )

    def _admitted(self, answer: object) -> Welcome:
        if isinstance(answer, Refused):
            raise RefusedByPortalError(answer.reason, final=answer.final)
        if not isinstance(answer, Welcome):
            raise ContractError(f"the portal began with {type(answer).__name__}, not with Welcome")
        self._refusals = 0
        self._enrol_next = False
        if not self._credential.enrolled:
            self._credential.enrolled = True
            store(self._settings.state_dir, self._credential)
        self._logged = ("", 0.0)
        log.info("%s: connected to %s.", self._settings.host, self._settings.portal_url)
        return answer

    def _log_trouble(self, trouble: str) -> None:
        """Log a problem when it is new, and then once a minute while it continues."""
        now = time.monotonic()
        logged, at = self._logged
        if trouble != logged or now - at >= LOG_AGAIN:
            log.warning("%s: %s; trying again.", self._settings.host, trouble)
            self._logged = (trouble, now)


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "it does not answer in time"
    if isinstance(error, ConnectionClosed):
        return "it closed the connection" if error.rcvd is not None else "the connection broke"
    return str(error) or type(error).__name__
