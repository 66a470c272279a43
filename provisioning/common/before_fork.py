"""Runs work in a temporary child process, so that the parent process has no threads or open database connections when
it forks later.
"""

import os
from collections.abc import Callable


def in_child(work: Callable[[], None]) -> str:
    """Run ``work`` in a child process; return the text of its exception, or an empty text.

    The calling process must have a single thread.
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
