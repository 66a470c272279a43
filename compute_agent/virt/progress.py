"""Says that long work on the host moves bytes, to whoever listens in the thread that does it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

_listener: ContextVar[Callable[[], None] | None] = ContextVar("progress_listener", default=None)


@contextmanager
def heard_by(listener: Callable[[], None]) -> Iterator[None]:
    """Let ``listener`` hear of what moves in this thread until the end of the block."""
    mark = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(mark)


def moved() -> None:
    """Some bytes have moved."""
    listener = _listener.get()
    if listener is not None:
        listener()


class Watched:
    """Tells that bytes have moved when a number that is looked at again and again has changed."""

    def __init__(self) -> None:
        self._last: object = None

    def look(self, amount: object) -> None:
        """Compare with the last look; None says nothing."""
        if amount is None or amount == self._last:
            return
        if self._last is not None:
            moved()
        self._last = amount


def moved_by_program(pid: int) -> object:
    """Return how much a program and those it has become have read and written; None when nobody can say."""
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except OSError:
        return None
    return tuple(int(line.partition(":")[2]) for line in lines if not line.startswith("sysc"))


def size_on_disk(*paths: Path) -> object:
    """Return how long the files are, and how many blocks they have; None when none is there."""
    found = []
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            continue
        found.append((status.st_size, status.st_blocks))
    return tuple(found) or None
