"""Wake-ups between processes: hints that something was committed, without content.

On SQLite, on a single machine, a listener is a unix datagram socket ``RUN_DIR/wake/<pid>-<random>.<channel>``, and a
wake-up is sent to all listeners of a channel. On PostgreSQL it is LISTEN/NOTIFY, which reaches all machines. Listeners
also poll every second, in case a wake-up is lost.
"""

import contextlib
import errno
import itertools
import os
import secrets
import select
import socket
import threading
from collections.abc import Callable, Generator
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from django.conf import settings
from django.db import connection, transaction

from provisioning.common.database.repeated import Repeated

EVENTS = "events"
QUEUE = "queue"
_NOTIFY = Repeated("SELECT pg_notify(%s, '')")
_GONE = {errno.ECONNREFUSED, errno.ENOENT}


class Listener(Protocol):
    """A listener for the wake-ups of a channel."""

    def wait(self, timeout: float) -> bool:
        """Wait for a wake-up. Return True at the first one, which consumes all pending wake-ups, or False after
        ``timeout`` seconds.
        """

    def close(self) -> None:
        """Stop listening."""


def announce(channel: str) -> None:
    """Wake the listeners of the channel when the current transaction commits; a rollback wakes none."""
    if connection.vendor == "postgresql":
        sent = _sent(channel)
        if all(each[1] is not sent for each in connection.run_on_commit):
            with connection.cursor() as cursor:
                cursor.execute(_NOTIFY, [_pg_channel(channel)])
            transaction.on_commit(sent)
        return
    announced = next(_numbers)
    transaction.on_commit(lambda: _poke_once(channel, announced))


@cache
def _sent(channel: str) -> Callable[[], None]:
    """Return a function that marks the transactions which have notified the channel: it waits for their commit, and
    Django removes it when the savepoint with the notification is rolled back.
    """
    return lambda: None


def listener(channel: str) -> Listener:
    """Start to listen; no later wake-up of the channel is missed. Can raise a database error on PostgreSQL."""
    if connection.vendor == "postgresql":
        return _Notifications(channel)
    return _Datagrams(channel)


def _poke_once(channel: str, announced: int) -> None:
    """Wake the channel, unless this thread has woken it after ``announced``: a transaction may announce a channel
    several times.
    """
    if vars(_poked).get(channel, -1) < announced:
        vars(_poked)[channel] = next(_numbers)
        poke(channel)


def poke(channel: str) -> None:
    """Send a datagram to every listener of the channel on this machine, and remove the sockets of dead listeners."""
    folder = _folder()
    try:
        names = [name for name in os.listdir(folder) if name.endswith(f".{channel}")]  # noqa: PTH208 - hot path
    except FileNotFoundError:
        return
    if not names:
        return
    with short_path(folder) as short, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)  # noqa: FBT003
        for name in names:
            try:
                sender.sendto(b"1", f"{short}/{name}")
            except OSError as error:  # a listener with a full buffer will read anyway
                if error.errno in _GONE:
                    Path(folder, name).unlink(missing_ok=True)


_numbers = itertools.count()
_poked = threading.local()  # channel -> number of this thread's last wake-up


def _folder() -> Path:
    return Path(settings.RUN_DIR, "wake")


@contextlib.contextmanager
def short_path(folder: Path) -> Generator[str]:
    """Return a path for the folder that fits into a socket address (107 bytes), however deep the data folder is."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


class _Datagrams:
    """A listener with a unix datagram socket."""

    def __init__(self, channel: str) -> None:
        folder = _folder()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path = folder / f"{os.getpid()}-{secrets.token_hex(4)}.{channel}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)  # noqa: FBT003
        with short_path(folder) as short:
            self._socket.bind(f"{short}/{self._path.name}")

    def wait(self, timeout: float) -> bool:
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        if not poll.poll(timeout * 1000):
            return False
        with contextlib.suppress(BlockingIOError):
            while True:
                self._socket.recv(16)
        return True

    def close(self) -> None:
        self._socket.close()
        self._path.unlink(missing_ok=True)


def _pg_channel(channel: str) -> str:
    return f"novella_{channel}"


class _Notifications:
    """A listener with its own PostgreSQL connection, outside any pool."""

    def __init__(self, channel: str) -> None:
        database: Any = connection  # ``Database`` is psycopg, which a cloud on SQLite does not load
        self._connection = database.Database.connect(**database.get_connection_params(), autocommit=True)
        self._connection.execute(f"LISTEN {_pg_channel(channel)}")

    def wait(self, timeout: float) -> bool:
        return bool(list(self._connection.notifies(timeout=timeout, stop_after=1)))

    def close(self) -> None:
        self._connection.close()
