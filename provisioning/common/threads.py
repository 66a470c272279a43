"""Database work of the event loop: a few threads for each kind of work, so that none waits behind another.

Agents' links never wait behind HTTP requests, nor behind the sockets of people, nor behind pages that are rendered.
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
        """``size``: how many functions run at the same time."""
        self.name, self.size = name, size
        self._executor: ThreadPoolExecutor | None = None

    async def run(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a blocking function that may use the database in one of the threads, outside any transaction."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self.size, thread_name_prefix=self.name)
        work = functools.partial(_with_connection, functools.partial(function, *args, **kwargs))
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def settle(self) -> None:
        """Wait until what was handed to the threads before has ended."""
        if self._executor is None:
            return
        all_of_them = threading.Barrier(self.size + 1)
        for _ in range(self.size):
            self._executor.submit(all_of_them.wait, 60)
        all_of_them.wait(60)


LINKS = Threads("link", 4)
"""What agents say: heartbeats, reports, orders, questions."""
SOCKETS = Threads("socket", 4)
"""What the sockets of people and their programs ask."""
RENDERS = Threads("render", 2)
"""Pages that are drawn anew for sockets."""
in_thread = LINKS.run


def _with_connection(function: Callable[[], R]) -> R:
    """Run it; afterwards a pooled or network connection goes back, while a thread keeps its SQLite connection.

    One that did not come out of its transaction goes, too: whatever came later in this thread would be part of it.
    """
    try:
        return function()
    finally:
        if connection.connection is not None and not connection.autocommit:
            connection.close()
        if connection.vendor != "sqlite" or connection.errors_occurred:
            close_old_connections()
