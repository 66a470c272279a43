"""A small client of QMP, the protocol of QEMU's daemons: one command at a time over a unix socket.

``qemu.qmp`` is not used because it needs an event loop, and the drivers work in threads.
"""

import contextlib
import json
import socket
from pathlib import Path
from typing import Any

from compute_agent.virt.errors import RetryableHostError

TIMEOUT = 60.0
"""Timeout of a command in seconds. A job takes longer, but the commands that start and query it do not."""


class DaemonError(RetryableHostError):
    """A storage daemon refuses a command, or does not answer."""

    code = "storage_daemon_failed"

    def __init__(self, detail: str, kind: str = "") -> None:
        super().__init__("The volume's storage daemon could not complete the operation.", detail=detail)
        self.kind = kind
        """QMP's class of the error; empty if the daemon does not answer."""


class Qmp:
    """One connection; use it as a context manager."""

    def __init__(self, path: Path, timeout: float = TIMEOUT) -> None:
        """Connect and negotiate capabilities. Raises DaemonError."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout)
        try:
            self._socket.connect(str(path))
            self._file = self._socket.makefile("rwb")
            self._read()
            self.execute("qmp_capabilities")
        except OSError as error:
            self._socket.close()
            raise DaemonError(f"QMP: {error}") from error
        except DaemonError:
            self.close()  # a daemon serves one client at a time
            raise

    def execute(self, command: str, /, **arguments: object) -> Any:
        """Execute a command and return its result. Raises DaemonError."""
        request = {"execute": command, "arguments": {key.replace("_", "-"): each for key, each in arguments.items()}}
        try:
            self._file.write(json.dumps(request).encode() + b"\n")
            self._file.flush()
            while True:
                answer = self._read()
                if "error" in answer:
                    raise DaemonError(f"{command}: {answer['error']['desc']}", answer["error"]["class"])
                if "return" in answer:
                    return answer["return"]
        except (OSError, ValueError) as error:
            raise DaemonError(f"{command}: {error}") from error

    def _read(self) -> dict[str, Any]:
        line = self._file.readline()
        if not line:
            raise DaemonError("it has ended")
        result: dict[str, Any] = json.loads(line)
        return result

    def close(self) -> None:
        """Close the connection, so that another client can connect: a daemon serves one client at a time."""
        with contextlib.suppress(OSError):  # flushing unsent data fails
            self._file.close()
        self._socket.close()

    def __enter__(self) -> "Qmp":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
