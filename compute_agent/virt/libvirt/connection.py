"""A connection to libvirt with automatic reconnection, and libvirt's event loop in its own thread."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import libvirt

from compute_agent.virt.errors import (
    HostError,
    HypervisorUnavailableError,
    InstanceNotFoundError,
    RetryableHostError,
)
from compute_agent.virt.libvirt import interrupted_backups, interrupted_starts, own_daemon
from compute_agent.virt.libvirt.own_daemon import OwnDaemon

log = logging.getLogger(__name__)

KEEPALIVE_INTERVAL = 5
KEEPALIVE_COUNT = 3
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 10.0

EMBED, DAEMON = "embed:", "daemon:"
"""Prefixes of URIs with the root of an embedded driver, and of a daemon that the agent starts."""

T = TypeVar("T")

LifecycleListener = Callable[[str, int, int], None]
"""Called in the event thread with the domain's uuid, libvirt's lifecycle event and its detail."""

_NO_ANSWER = frozenset(
    {libvirt.VIR_ERR_NO_CONNECT, libvirt.VIR_ERR_INVALID_CONN, libvirt.VIR_ERR_RPC, libvirt.VIR_ERR_AUTH_FAILED}
)
_loop_lock = threading.Lock()
_loop_started = False


def start_event_loop() -> None:
    """Start libvirt's event loop once for the process; required before the first connection is opened."""
    global _loop_started
    with _loop_lock:
        if _loop_started:
            return
        libvirt.virEventRegisterDefaultImpl()
        libvirt.registerErrorHandler(_quiet, None)
        threading.Thread(target=_run_events, name="libvirt-events", daemon=True).start()
        _loop_started = True


def _run_events() -> None:
    while True:
        libvirt.virEventRunDefaultImpl()


def _quiet(_context: object, error: object) -> None:
    log.debug("libvirt: %s", error)


@contextmanager
def translated(action: str) -> Iterator[None]:
    """Convert libvirt's errors into HostErrors. ``action`` completes "The hypervisor could not ..."."""
    try:
        yield
    except libvirt.libvirtError as error:
        raise host_error(error, action) from error


def if_defined(question: Callable[[], T]) -> T | None:
    """Call ``question`` about a domain from an earlier list; None if the domain no longer exists."""
    try:
        return question()
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return None
        raise


def host_error(error: libvirt.libvirtError, action: str) -> HostError:
    """Convert an error of libvirt. Its text contains paths, so it becomes the operator's ``detail``."""
    code, detail = error.get_error_code(), str(error)
    if code == libvirt.VIR_ERR_NO_DOMAIN:
        return InstanceNotFoundError("There is no such guest on this host.", detail=detail)
    if code in _NO_ANSWER or error.get_error_domain() == libvirt.VIR_FROM_RPC:
        return HypervisorUnavailableError("The host's hypervisor does not answer.", detail=detail)
    if code == libvirt.VIR_ERR_NO_MEMORY:
        return RetryableHostError("The host has no memory left.", detail=detail)
    return RetryableHostError(f"The hypervisor could not {action}.", detail=detail)


class Connection:
    """A connection to libvirt with one URI. ``embed:/PATH`` runs libvirt's QEMU driver in this process, with PATH as
    its root; ``daemon:/PATH`` starts a daemon with the same root.
    """

    def __init__(
        self, uri: str, on_lifecycle: LifecycleListener, on_reopened: Callable[[], None], conf: str = ""
    ) -> None:
        """``conf`` is the ``qemu.conf`` of the embedded driver and of a daemon of the agent.

        ``on_reopened`` is called after a lost connection was reopened: events may have been missed.
        """
        self._uri = uri
        self._conf = conf
        self._on_lifecycle = on_lifecycle
        self._on_reopened = on_reopened
        self._lock = threading.Lock()
        self._connection: Any = None
        self._closed = threading.Event()
        self._daemon = OwnDaemon(Path(uri.removeprefix(DAEMON))) if uri.startswith(DAEMON) else None

    @property
    def own(self) -> bool:
        """Whether guests are only those of this agent's libvirt, with the settings of the agent."""
        return self.embedded or self._daemon is not None

    @property
    def embedded(self) -> bool:
        """Whether the driver runs in this process."""
        return self._uri.startswith(EMBED)

    def open(self) -> None:
        """Connect if not connected. Raises HypervisorUnavailableError."""
        start_event_loop()
        self._closed.clear()
        with self._lock:
            if self._connection is None:
                self._connection = self._connect()

    def get(self) -> Any:
        """Return the connection, reopened if it was lost. Raises HypervisorUnavailableError."""
        connection = self._connection
        if connection is None:
            if self._closed.is_set():
                raise HypervisorUnavailableError("The host's hypervisor is not connected.")
            self.open()
            connection = self._connection
        return connection

    def close(self) -> None:
        """Disconnect; guests keep running."""
        self._closed.set()
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except libvirt.libvirtError as error:
                log.info("closing the hypervisor: %s", error)
        if self._daemon is not None:
            self._daemon.stop()

    def _connect(self) -> Any:
        try:
            connection = libvirt.open(self._prepared_uri())
            if not self.embedded:
                connection.registerCloseCallback(self._lost, None)
                connection.setKeepAlive(KEEPALIVE_INTERVAL, KEEPALIVE_COUNT)
            connection.domainEventRegisterAny(None, libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, self._lifecycle, None)
        except libvirt.libvirtError as error:
            raise HypervisorUnavailableError("The host's hypervisor does not answer.", detail=str(error)) from error
        return connection

    def _prepared_uri(self) -> str:
        if not self.own:
            return self._uri
        root = Path(self._uri.removeprefix(EMBED).removeprefix(DAEMON))
        conf = root / "etc" / "qemu.conf"
        conf.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not conf.exists() or conf.read_text() != self._conf:
            conf.write_text(self._conf)
        if self._daemon is None or not self._daemon.runs:
            interrupted_starts.forget(root)
            interrupted_backups.forget(root)
        if self._daemon is not None:
            self._daemon.start()
            return own_daemon.uri(root)
        return f"qemu:///embed?root={quote(str(root))}"

    def _lifecycle(self, _connection: Any, domain: Any, event: int, detail: int, _opaque: object) -> None:
        try:
            self._on_lifecycle(domain.UUIDString(), event, detail)
        except Exception:
            log.exception("a lifecycle event was not handled")

    def _lost(self, _connection: Any, reason: int, _opaque: object) -> None:
        if self._closed.is_set():
            return
        log.warning("the connection to the hypervisor is lost (reason %s)", reason)
        self._connection = None
        threading.Thread(target=self._reopen, name="libvirt-reopen", daemon=True).start()

    def _reopen(self) -> None:
        pause = FIRST_PAUSE
        while not self._closed.wait(pause):
            try:
                self.open()
            except HypervisorUnavailableError as error:
                log.info("the hypervisor still does not answer: %s", error.detail)
                pause = min(pause * 2, LONGEST_PAUSE)
                continue
            log.info("the hypervisor answers again")
            self._on_reopened()
            return
