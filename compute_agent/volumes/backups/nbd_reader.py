"""Reads from an NBD export over a unix socket. Only the fixed newstyle handshake and simple reads are supported.

https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md
"""

import socket
import struct
from pathlib import Path

from compute_agent.virt.errors import RetryableHostError

TIMEOUT = 120.0
"""Seconds without an answer after which the export counts as broken."""
_GREETING = b"NBDMAGICIHAVEOPT"
_OPTION, _OPTION_REPLY = struct.Struct(">8sII"), struct.Struct(">QIII")
_REQUEST, _REPLY = struct.Struct(">IHHQQI"), struct.Struct(">IIQ")
_OPTION_REPLY_MAGIC, _REQUEST_MAGIC, _REPLY_MAGIC = 0x3E889045565A9, 0x25609513, 0x67446698
_NO_ZEROES_FLAGS = 3  # fixed newstyle, and no padding
_GO, _ACK, _INFO, _IS_ERROR = 7, 1, 3, 1 << 31
_READ, _DISCONNECT = 0, 2


class NbdReadError(RetryableHostError):
    """The connection to the export failed, or the server does not follow the NBD protocol."""

    code = "volume_read_failed"

    def __init__(self, detail: str) -> None:
        super().__init__("The volume could not be read.", detail=detail)


class NbdReader:
    """One connection; use it as a context manager."""

    def __init__(self, path: Path, export: str) -> None:
        """Connect and select the export. Raises NbdReadError."""
        self.size = 0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(TIMEOUT)
        try:
            self._socket.connect(str(path))
            self._greet(export.encode())
        except OSError as error:
            self._socket.close()
            raise NbdReadError(repr(error)) from error
        except BaseException:
            self._socket.close()
            raise

    def _greet(self, export: bytes) -> None:
        greeting = self._receive(18)
        if greeting[:16] != _GREETING:
            raise NbdReadError("no NBD server")
        self._socket.sendall(struct.pack(">I", _NO_ZEROES_FLAGS))
        request = struct.pack(">I", len(export)) + export + struct.pack(">H", 0)
        self._socket.sendall(_OPTION.pack(b"IHAVEOPT", _GO, len(request)) + request)
        while True:
            magic, _, kind, length = _OPTION_REPLY.unpack(self._receive(_OPTION_REPLY.size))
            reply = self._receive(length)
            if magic != _OPTION_REPLY_MAGIC or kind & _IS_ERROR:
                raise NbdReadError(f"the export was refused: {kind:#x} {reply[:200]!r}")
            if kind == _INFO and reply[:2] == b"\0\0":
                self.size = int.from_bytes(reply[2:10], "big")
            if kind == _ACK:
                return

    def read(self, offset: int, length: int, /) -> bytes:
        """Return exactly ``length`` bytes. Raises NbdReadError."""
        try:
            self._socket.sendall(_REQUEST.pack(_REQUEST_MAGIC, 0, _READ, offset, offset, length))
            magic, error, cookie = _REPLY.unpack(self._receive(_REPLY.size))
            if magic != _REPLY_MAGIC or cookie != offset or error:
                raise NbdReadError(f"read at {offset}: error {error}")
            return self._receive(length)
        except OSError as error:
            raise NbdReadError(repr(error)) from error

    def _receive(self, length: int) -> bytes:
        data = bytearray(length)
        view = memoryview(data)
        while view:
            came = self._socket.recv_into(view)
            if not came:
                raise NbdReadError("the export has ended")
            view = view[came:]
        return bytes(data)

    def __enter__(self) -> "NbdReader":
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._socket.sendall(_REQUEST.pack(_REQUEST_MAGIC, 0, _DISCONNECT, 0, 0, 0))
        except OSError:
            pass
        finally:
            self._socket.close()
