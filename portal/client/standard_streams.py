"""A connection on standard input and output, for ssh's ``ProxyCommand``.

``python -m portal.client.standard_streams`` reads its link from the environment, because ``novella ssh`` has already
authenticated.
"""

import asyncio
import os
import sys
import threading

from portal.client.errors import ClientError
from portal.client.links import ENVIRONMENT, Link
from portal.client.tunnel import PIECE, carry

INPUT, OUTPUT = 0, 1


class StandardStreams:
    """Standard input and output of any kind: pipes, a terminal, a socket, a file."""

    def __init__(self) -> None:
        self._read: asyncio.Queue[bytes] = asyncio.Queue(maxsize=1)
        self._loop = asyncio.get_running_loop()
        # A thread that waits for input must not delay the exit of the program.
        threading.Thread(target=self._read_all, daemon=True).start()

    async def read(self) -> bytes:
        return await self._read.get()

    async def write(self, data: bytes) -> None:
        await asyncio.to_thread(_write_all, data)

    async def end(self) -> None:
        """Close standard output, so that its reader sees the end."""
        empty = os.open(os.devnull, os.O_WRONLY)
        os.dup2(empty, OUTPUT)
        os.close(empty)

    def _read_all(self) -> None:
        data = b"-"
        while data:
            try:
                data = os.read(INPUT, PIECE)
            except OSError:
                data = b""
            try:
                asyncio.run_coroutine_threadsafe(self._read.put(data), self._loop).result()
            except RuntimeError:  # the program is exiting
                return


def _write_all(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(OUTPUT, view) :]


async def carry_standard_streams(link: Link) -> None:
    """Send standard input to the server, and write the server's data to standard output. Raises ClientError."""
    await carry(link, StandardStreams())


def main() -> int:
    """Forward the standard streams over the link in the environment; return the exit code."""
    try:
        asyncio.run(carry_standard_streams(Link.load(os.environ[ENVIRONMENT])))
    except ClientError as error:
        sys.stderr.write(f"novella: {error.message}\n")
        return error.code
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
