"""Consoles of simulated guests: a screen of one colour that changes with each key, and a serial line that
echoes input.
"""

import contextlib
import logging
import os
import shutil
import socket
import struct
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

log = logging.getLogger(__name__)

WIDTH, HEIGHT = 640, 400
COLOURS = (0x2F55D4, 0x187345, 0xE08B00, 0xB92B27, 0x6B3FA0)
"""Red, green and blue, a byte each."""
LONGEST_PATH = 100
"""Bytes of the path of a UNIX socket; the kernel's limit is 107."""
_PIXELS = struct.pack("!BBBBHHHBBBxxx", 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)
_RAW, _RRE = 0, 2
_REST = {0: 19, 3: 9, 4: 7, 5: 5}
"""Type of a client's message → length of the rest of the message in bytes (RFC 6143, section 7.5)."""

Serve = Callable[[socket.socket, str], None]


class FakeConsoles:
    """The consoles of one simulated host: a UNIX socket and a thread for each open console."""

    def __init__(self, state_dir: Path | None) -> None:
        """The sockets are in ``state_dir`` (if None or too long: in a temporary directory)."""
        self._state_dir = state_dir
        self._folder: Path | None = None
        self._own_folder = False
        self._lock = threading.Lock()
        self._open: dict[tuple[str, str], _Console] = {}

    def path(self, uuid: str, protocol: str, name: str) -> Path:
        """Return the listening socket of a console; ``name`` is the guest's."""
        with self._lock:
            key = (uuid, protocol)
            if key not in self._open:
                serve = _screen if protocol == "vnc" else _line
                self._open[key] = _Console(self._place() / f"{uuid}.{protocol}", serve, name)
            return self._open[key].path

    def end(self, uuid: str | None = None) -> None:
        """Close the consoles of one guest (None: of all) with their connections."""
        with self._lock:
            for key in [key for key in self._open if uuid in {None, key[0]}]:
                self._open.pop(key).close()
            if uuid is None and self._folder is not None:
                if self._own_folder:
                    shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None

    def _place(self) -> Path:
        if self._folder is None:
            folder = self._state_dir / "consoles" if self._state_dir else None
            self._own_folder = folder is None or len(os.fsencode(folder)) + 44 > LONGEST_PATH
            if folder is None or self._own_folder:
                self._folder = Path(tempfile.mkdtemp(prefix="novella-fake-"))
            else:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._folder = folder
        return self._folder


class _Console:
    """One listening socket, and a thread for each client."""

    def __init__(self, path: Path, serve: Serve, name: str) -> None:
        self.path = path
        self._serve = serve
        self._name = name
        self._lock = threading.Lock()
        self._clients: set[socket.socket] = set()
        self._closed = False
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(8)
        threading.Thread(target=self._accept, name="fake-console", daemon=True).start()

    def close(self) -> None:
        """Close all sockets; the threads then end."""
        with self._lock:
            self._closed = True
            for each in (self._listener, *self._clients):
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
        self.path.unlink(missing_ok=True)

    def _accept(self) -> None:
        with self._listener:
            while True:
                try:
                    client, _ = self._listener.accept()
                except OSError:
                    return
                with self._lock:
                    if self._closed:
                        client.close()
                        return
                    self._clients.add(client)
                threading.Thread(target=self._look, args=(client,), name="fake-console", daemon=True).start()

    def _look(self, client: socket.socket) -> None:
        try:
            with client:
                self._serve(client, self._name)
        except (OSError, EOFError):
            log.debug("the console of %s was left", self._name)
        finally:
            with self._lock:
                self._clients.discard(client)


def _line(client: socket.socket, name: str) -> None:
    """Send a prompt, then echo the input. A carriage return sends the prompt again."""
    prompt = f"\r\n{name} login: ".encode()
    client.sendall(prompt)
    while data := client.recv(4096):
        client.sendall(data.replace(b"\r", prompt))


def _read(client: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = client.recv(min(count - len(data), 65536))
        if not piece:
            raise EOFError
        data += piece
    return data


def _screen(client: socket.socket, name: str) -> None:
    """Speak the remote framebuffer protocol 3.8 without security (RFC 6143)."""
    client.sendall(b"RFB 003.008\n")
    _read(client, 12)
    client.sendall(b"\x01\x01")
    _read(client, 1)
    client.sendall(b"\0\0\0\0")
    _read(client, 1)
    title = name.encode()
    client.sendall(struct.pack("!HH", WIDTH, HEIGHT) + _PIXELS + struct.pack("!I", len(title)) + title)
    _Screen(client).run()


class _Screen:
    """The state of a client's screen."""

    def __init__(self, client: socket.socket) -> None:
        self._client = client
        self._number = 0
        self._shown = -1
        self._asked = False
        self._encoding = _RAW

    def run(self) -> None:
        """Answer until the client disconnects."""
        while True:
            kind = _read(self._client, 1)[0]
            if kind == 2:
                count = int.from_bytes(_read(self._client, 3)[1:])
                encodings = struct.unpack(f"!{count}i", _read(self._client, 4 * count))
                self._encoding = _RRE if _RRE in encodings else _RAW
            elif kind == 6:
                length = int.from_bytes(_read(self._client, 7)[3:])
                while length > 0:
                    length -= len(_read(self._client, min(length, 65536)))
            elif kind in _REST:
                self._handle(kind, _read(self._client, _REST[kind]))
            else:
                return

    def _handle(self, kind: int, rest: bytes) -> None:
        if kind == 3:
            self._asked = True
            if not rest[0]:
                self._shown = -1
        elif kind == 4 and rest[0]:
            self._number += 1
        if self._asked and self._shown != self._number:
            self._show()

    def _show(self) -> None:
        self._asked, self._shown = False, self._number
        colour = COLOURS[self._number % len(COLOURS)].to_bytes(4, "little")
        head = struct.pack("!BxHHHHHi", 0, 1, 0, 0, WIDTH, HEIGHT, self._encoding)
        body = b"\0\0\0\0" + colour if self._encoding == _RRE else colour * (WIDTH * HEIGHT)
        self._client.sendall(head + body)
