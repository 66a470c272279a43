"""Questions the portal asks and waits for: console log, diagnostics, an open console.  They store nothing."""

import asyncio
import codecs
import logging
import time

from compute_agent.contract.messages import (
    CallBody,
    CallError,
    CallResult,
    ConsoleOpened,
    ConsoleOutput,
    ConsoleOutputCall,
    DiagnosticsCall,
    OpenConsoleCall,
)
from compute_agent.engine.threads import in_thread
from compute_agent.servers.services import HostServices
from compute_agent.virt.driver import ConsoleChunk
from compute_agent.virt.errors import ConsoleBusyError, HostError, InstanceNotFoundError, UnsupportedError

log = logging.getLogger(__name__)

MAX_WAITING = 64
"""Questions that may wait for console output at the same time."""
MAX_WAIT = 30.0
LOOK_AGAIN = 0.15
"""Seconds between two looks at a console log that somebody waits for."""
MAX_BYTES = 262_144

_BUSY = CallError(code="failed", message="The host answers too many questions at once; ask again later.")


class CallHandler:
    """Answers calls without ever blocking the event loop."""

    def __init__(self, services: HostServices) -> None:
        """Ask the services of one host."""
        self._services = services
        self._waiting = 0

    async def answer(self, body: CallBody) -> CallResult:
        """Return the answer, a ``CallError`` when there is none; never raises but to be cancelled."""
        try:
            match body:
                case ConsoleOutputCall():
                    return await self._console(body)
                case DiagnosticsCall():
                    return await self._diagnostics(body)
                case OpenConsoleCall():
                    return await self._open(body)
        except InstanceNotFoundError as error:
            return CallError(code="not_found", message=error.message)
        except (UnsupportedError, ConsoleBusyError) as error:
            return CallError(code=error.code, message=error.message)
        except HostError as error:
            log.warning("Could not answer %s: %s %s", type(body).__name__, error.message, error.detail)
            return CallError(code="failed", message=error.message)
        except Exception:
            log.exception("Could not answer %s.", type(body).__name__)
            return CallError(code="failed", message="The host could not answer.")

    async def _diagnostics(self, call: DiagnosticsCall) -> CallResult:
        driver = self._services.driver
        return await in_thread(self._services.threads.calls, lambda: driver.diagnostics(call.instance_id))

    async def _open(self, call: OpenConsoleCall) -> CallResult:
        driver, consoles = self._services.driver, self._services.consoles
        if consoles is None:
            raise UnsupportedError("This host cannot open a console.")
        path = await in_thread(
            self._services.threads.calls, lambda: driver.console_socket(call.instance_id, call.protocol)
        )
        await consoles.open(call.tunnel, path, alone=call.protocol == "serial")
        return ConsoleOpened()

    async def _console(self, call: ConsoleOutputCall) -> CallResult:
        if call.offset is None:
            return last_lines(await self._read(call), call.lines)
        chunk = await self._read(call)
        if not _text_bytes(chunk.data) and call.wait > 0:
            if self._waiting >= MAX_WAITING:
                return _BUSY
            self._waiting += 1
            try:
                chunk = await self._wait_for_more(call)
            finally:
                self._waiting -= 1
        size = _text_bytes(chunk.data)
        return ConsoleOutput(
            text=chunk.data[:size].decode(errors="replace"), offset=chunk.start + size, start=chunk.start
        )

    async def _wait_for_more(self, call: ConsoleOutputCall) -> ConsoleChunk:
        until = time.monotonic() + min(call.wait, MAX_WAIT)
        while True:
            await asyncio.sleep(max(0.0, min(LOOK_AGAIN, until - time.monotonic())))
            chunk = await self._read(call)
            if _text_bytes(chunk.data) or time.monotonic() >= until:
                return chunk

    async def _read(self, call: ConsoleOutputCall) -> ConsoleChunk:
        size = max(4, min(call.max_bytes, MAX_BYTES))
        driver = self._services.driver
        return await in_thread(
            self._services.threads.calls, lambda: driver.console_output(call.instance_id, call.offset, size)
        )


def last_lines(chunk: ConsoleChunk, lines: int | None) -> ConsoleOutput:
    """Return the last ``lines`` lines of the chunk (None: all), with the offsets they lie at."""
    data, start = chunk.data, chunk.start
    if lines is not None:
        kept = b"".join(data.splitlines(keepends=True)[-lines:]) if lines > 0 else b""
        start += len(data) - len(kept)
        data = kept
    size = _text_bytes(data)
    return ConsoleOutput(text=data[:size].decode(errors="replace"), offset=start + size, start=start)


def _text_bytes(data: bytes) -> int:
    """Return how many bytes can be decoded now: all but the beginning of a character whose end has not been written
    yet.
    """
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    decoder.decode(data)
    return len(data) - len(decoder.getstate()[0])
