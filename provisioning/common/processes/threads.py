"""Threads for the event loop's database work: a few for each kind of work, so that kinds do not block each other.

Links of agents never wait for HTTP requests, sockets of users, or the rendering of pages.
"""

import asyncio
import functools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from django.db import close_old_connections, connection

P = ParamSpec("P")
R = TypeVar("R")


class Threads:
    """Threads for one kind of work; each starts when it is first needed."""

    def __init__(self, name: str, size: int) -> None:
        """``size``: number of functions that run concurrently."""
        self.name, self.size = name, size
        self._executor: ThreadPoolExecutor | None = None

    async def run(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a blocking function that may use the database in one of the threads, outside a transaction."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self.size, thread_name_prefix=self.name)
        work = functools.partial(_with_connection, functools.partial(function, *args, **kwargs))
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def settle(self) -> None:
        """Wait until the threads have finished all work that was passed to them before this call."""
        if self._executor is None:
            return
        all_of_them = threading.Barrier(self.size + 1)
        for _ in range(self.size):
            self._executor.submit(all_of_them.wait, 60)
        all_of_them.wait(60)


LINKS = Threads("link", 4)
"""Heartbeats, reports and calls of agents."""
SOCKETS = Threads("socket", 4)
"""Requests of the sockets of users and clients."""
RENDERS = Threads("render", 2)
"""Rendering of pages for sockets."""
in_thread = LINKS.run


def _with_connection(function: Callable[[], R]) -> R:
    """Run the function, then close the connection; an SQLite connection stays open for the thread's next function.

    A connection that is still in a transaction is always closed, because the thread's next function would otherwise run
    in that transaction.
    """
    try:
        return function()
    finally:
        if connection.connection is not None and not connection.autocommit:
            connection.close()
        if connection.vendor != "sqlite" or connection.errors_occurred:
            close_old_connections()
