"""TCP connections that carry something all the time, so that nobody can cut, reset or reorder them unseen."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from tests.support.one_machine import PATIENCE, wait_for

PAUSE = 0.01
"""Seconds between two numbers."""
NUMBER = struct.Struct("!Q")


class Stream:
    """Numbers that go to an echo, one after the other, and come back in order."""

    def __init__(self, link: socket.socket) -> None:
        """``link`` is connected to the echo."""
        link.settimeout(PATIENCE)
        self._link, self._over = link, threading.Event()
        self._sent = self._back = 0
        pool = ThreadPoolExecutor(2)
        self._ends = [pool.submit(work) for work in (self._send, self._receive)]
        pool.shutdown(wait=False)

    def moves(self) -> None:
        """Wait until something that is sent from now on has come back."""
        sent = self._sent
        wait_for("the stream moves", lambda: self._back > sent or self._over_with_an_error())

    def stop(self) -> None:
        """Send no more."""
        self._over.set()

    def end(self) -> None:
        """Send no more, and see to it that all has come back."""
        self.stop()
        for each in self._ends:
            each.result()
        assert self._back == self._sent

    def _over_with_an_error(self) -> bool:
        for each in self._ends:
            if each.done():
                each.result()
        return False

    def _send(self) -> None:
        while not self._over.wait(PAUSE):
            self._link.sendall(NUMBER.pack(self._sent))
            self._sent += 1
        self._link.shutdown(socket.SHUT_WR)

    def _receive(self) -> None:
        with self._link.makefile("rb") as file:
            while piece := file.read(NUMBER.size):
                assert piece == NUMBER.pack(self._back)
                self._back += 1


@contextmanager
def streaming(link: socket.socket) -> Iterator[Stream]:
    """Let a stream run over the connection for as long as the block lasts, and be whole in the end."""
    with link:
        stream = Stream(link)
        try:
            yield stream
        finally:
            stream.stop()
        stream.end()


def echo(link: socket.socket) -> None:
    """Send what the connection brings back to where it comes from, in a thread, until it ends."""

    def serve() -> None:
        with link:
            while piece := link.recv(1 << 16):
                link.sendall(piece)

    threading.Thread(target=serve, daemon=True).start()
