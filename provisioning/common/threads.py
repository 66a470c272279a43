"""Database work of the event loop: a few threads of their own, so that links never wait behind HTTP requests."""

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from django.db import close_old_connections, connection

P = ParamSpec("P")
R = TypeVar("R")

THREADS = 4


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="database")


async def in_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a blocking function that may use the database in one of the threads, outside any transaction."""
    work = functools.partial(_with_connection, functools.partial(function, *args, **kwargs))
    return await asyncio.get_running_loop().run_in_executor(_pool(), work)


def _with_connection(function: Callable[[], R]) -> R:
    """Run it; afterwards a pooled or network connection goes back, while a thread keeps its SQLite connection."""
    try:
        return function()
    finally:
        if connection.vendor != "sqlite" or connection.errors_occurred:
            close_old_connections()
