"""Runs work in a temporary child process before forks, so that it leaves no threads or open database connections."""

import os
from collections.abc import Callable


def in_child(work: Callable[[], None]) -> str:
    """Run ``work`` in a child process and return the text of its exception, or an empty text.

    Only for processes with a single thread.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        text = ""
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - the parent handles the error
            text = str(error) or type(error).__name__
        os.write(writing, text.encode()[:4000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        text = file.read().decode(errors="replace")
    os.waitpid(child, 0)
    return text
