"""Handlers of calls: console log, diagnostics, open consoles. The portal waits for the answers; nothing is stored."""

import asyncio
import codecs
import logging
from collections.abc import AsyncIterator

from compute_agent.contract import console_pieces
from compute_agent.contract.calls import (
    CallBody,
    CallError,
    CallResult,
    ConsoleOpened,
    ConsoleOutput,
    ConsoleOutputCall,
    DiagnosticsCall,
    FileSystems,
    FileSystemsCall,
    FollowConsoleCall,
    OpenConsoleCall,
    OpenTunnelCall,
    TunnelOpened,
)
from compute_agent.contract.console_pieces import ConsolePiece, pack
from compute_agent.contract.guest_disks import InspectDiskCall
from compute_agent.contract.migration import ControlMigrationCall, MigrationControlled
from compute_agent.contract.volume import (
    GuestVolumes,
    GuestVolumesCall,
    PoolContentsCall,
    UnmanagedDisks,
    UnmanagedDisksCall,
)
from compute_agent.engine.threads import in_thread
from compute_agent.servers.services import HostServices
from compute_agent.virt.driver import ConsoleChunk
from compute_agent.virt.errors import (
    ConsoleBusyError,
    GuestRefusedError,
    GuestUnreachableError,
    HostError,
    InstanceNotFoundError,
    UnsupportedError,
)

log = logging.getLogger(__name__)

LOOK_AGAIN = 0.15
"""Seconds between two checks of a followed console log, so that a guest with much output does not overload
a browser.
"""
MAX_BYTES = 262_144
GUEST_ANSWERS_WITHIN = 5.0
"""Seconds within which a guest agent must answer a call."""
FOLLOWED_BYTES = 65_536
"""Limit of the bytes sent per check; the rest is sent by later checks."""


ANSWERED = (UnsupportedError, ConsoleBusyError, GuestRefusedError, GuestUnreachableError)
"""Errors that are answered with their own code, because the host did not cause them."""


class CallHandler:
    """Answers calls without ever blocking the event loop."""

    def __init__(self, services: HostServices) -> None:
        """Use the services of one host."""
        self._services = services

    async def answer(self, body: CallBody) -> CallResult:
        """Return the answer; a ``CallError`` if the call fails. Never raises an exception, except when it
        is cancelled.
        """
        try:
            match body:
                case ConsoleOutputCall():
                    return await self._console(body)
                case DiagnosticsCall() | FileSystemsCall() | InspectDiskCall() | ControlMigrationCall():
                    return await self._observe(body)
                case FollowConsoleCall():
                    return await self._follow(body)
                case OpenConsoleCall():
                    return await self._open(body)
                case OpenTunnelCall():
                    return await self._forward(body)
                case PoolContentsCall() | UnmanagedDisksCall() | GuestVolumesCall():
                    return await self._volumes(body)
        except InstanceNotFoundError as error:
            return CallError(code="not_found", message=error.message)
        except HostError as error:
            expected = isinstance(error, ANSWERED)
            level = logging.DEBUG if expected and not error.detail else logging.INFO if expected else logging.WARNING
            log.log(level, "Could not answer %s: %s %s", type(body).__name__, error.message, error.detail)
            return CallError(code=error.code if expected else "failed", message=error.message)
        except Exception:
            log.exception("Could not answer %s.", type(body).__name__)
            return CallError(code="failed", message="The host could not answer.")

    async def _observe(
        self, call: DiagnosticsCall | FileSystemsCall | InspectDiskCall | ControlMigrationCall
    ) -> CallResult:
        driver, threads = self._services.driver, self._services.threads
        if isinstance(call, ControlMigrationCall):
            await in_thread(threads.calls, lambda: driver.control_migration(call.instance_id, call.action))
            return MigrationControlled()
        if isinstance(call, DiagnosticsCall):
            return await in_thread(threads.calls, lambda: driver.diagnostics(call.instance_id))
        if isinstance(call, InspectDiskCall):
            return await in_thread(
                threads.calls, lambda: driver.inspect_disk(call.instance_id, call.serial, GUEST_ANSWERS_WITHIN)
            )
        file_systems = await in_thread(
            threads.calls, lambda: driver.file_systems(call.instance_id, GUEST_ANSWERS_WITHIN)
        )
        return FileSystems(file_systems=file_systems)

    async def _volumes(self, call: PoolContentsCall | UnmanagedDisksCall | GuestVolumesCall) -> CallResult:
        threads, volumes = self._services.threads, self._services.volumes
        if isinstance(call, GuestVolumesCall):
            return GuestVolumes(guests=await in_thread(threads.calls, self._services.driver.volumes))
        if volumes is None:
            raise UnsupportedError("This host has no pool of volumes.")

        def ask() -> CallResult:
            if isinstance(call, PoolContentsCall):
                return volumes.contents(call.pool_id)
            return UnmanagedDisks(disks=volumes.unmanaged(call.pool_id))

        pool = threads.of(call.pool_id) if volumes.remote(call.pool_id) else threads.calls
        return await in_thread(pool, ask)

    async def _open(self, call: OpenConsoleCall) -> CallResult:
        driver, consoles = self._services.driver, self._services.consoles
        if consoles is None:
            raise UnsupportedError("This host cannot open a console.")
        path = await in_thread(
            self._services.threads.calls, lambda: driver.console_socket(call.instance_id, call.protocol)
        )
        await consoles.open(call.tunnel, path, alone=call.protocol == "serial", share=call.share)
        return ConsoleOpened()

    async def _forward(self, call: OpenTunnelCall) -> CallResult:
        network, consoles = self._services.network, self._services.consoles
        if consoles is None:
            raise UnsupportedError("This host cannot open a tunnel.")
        target = await in_thread(
            self._services.threads.calls,
            lambda: network.guest_socket(call.instance_id, call.port_id, call.address, call.port),
        )
        await consoles.forward(call.tunnel, target, share=call.share)
        return TunnelOpened()

    async def _console(self, call: ConsoleOutputCall) -> CallResult:
        chunk = await self._read(call.instance_id, None, max(4, min(call.max_bytes, MAX_BYTES)))
        return ConsoleOutput(text=last_lines(chunk.data, call.lines))

    async def _follow(self, call: FollowConsoleCall) -> CallResult:
        consoles = self._services.consoles
        if consoles is None:
            raise UnsupportedError("This host cannot send a console log.")
        first = await self._read(call.instance_id, None, console_pieces.MOST_BYTES)
        consoles.follow(call.tunnel, self._frames(call.instance_id, first), call.share)
        return ConsoleOpened()

    async def _frames(self, instance_id: str, chunk: ConsoleChunk) -> AsyncIterator[bytes]:
        """Yield the existing output, even if it is empty, then the guest's new output. Raises HostError."""
        yield pack(ConsolePiece(chunk.start, chunk.data))
        while True:
            await asyncio.sleep(LOOK_AGAIN)
            at = chunk.end
            chunk = await self._read(instance_id, at, FOLLOWED_BYTES)
            if chunk.end < at:  # another log: the guest was created again
                chunk = await self._read(instance_id, None, console_pieces.MOST_BYTES)
            if chunk.data:
                yield pack(ConsolePiece(chunk.start, chunk.data))

    async def _read(self, instance_id: str, offset: int | None, size: int) -> ConsoleChunk:
        driver = self._services.driver
        return await in_thread(self._services.threads.calls, lambda: driver.console_output(instance_id, offset, size))


def last_lines(data: bytes, lines: int | None) -> str:
    """Return the last ``lines`` lines of the data (None: all), without an incomplete character at the end.

    As in Nova, the text after the last line feed counts as a line, even if it is empty.
    """
    if lines is not None:
        data = b"\n".join(data.split(b"\n")[-lines:]) if lines > 0 else b""
    return codecs.getincrementaldecoder("utf-8")(errors="replace").decode(data)
