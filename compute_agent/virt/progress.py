"""Says that long work on the host moves bytes, to whoever listens in the thread that does it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple


class Amount(NamedTuple):
    """How far a copy is, in bytes."""

    done: int
    total: int


_listener: ContextVar[Callable[[], None] | None] = ContextVar("progress_listener", default=None)
_counter: ContextVar[Callable[[Amount], None] | None] = ContextVar("progress_counter", default=None)


@contextmanager
def heard_by(listener: Callable[[], None], counter: Callable[[Amount], None] | None = None) -> Iterator[None]:
    """Let ``listener`` hear of what moves in this thread until the end of the block, and ``counter`` before it how much
    that is, where it is known.
    """
    mark, counting = _listener.set(listener), _counter.set(counter)
    try:
        yield
    finally:
        _listener.reset(mark)
        _counter.reset(counting)


def moved(done: int = 0, total: int = 0) -> None:
    """Some bytes have moved: ``done`` of ``total`` now, if there is a total."""
    listener, counter = _listener.get(), _counter.get()
    if counter is not None and total:
        counter(Amount(min(done, total), total))
    if listener is not None:
        listener()


class Watched:
    """Tells that bytes have moved when a number that is looked at again and again has changed."""

    def __init__(self) -> None:
        self._last: object = None

    def look(self, amount: object, total: int = 0) -> None:
        """Compare with the last look; None says nothing.  ``total``: ``amount`` is so many bytes of these."""
        if amount is None or amount == self._last:
            return
        if self._last is not None:
            moved(amount if isinstance(amount, int) else 0, total)
        self._last = amount


def moved_by_program(pid: int) -> object:
    """Return how much a program, those it has become and those it waits for have read and written; None when nobody can
    say.
    """
    try:
        pids = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
        lines = [line for each in pids for line in Path(f"/proc/{each}/io").read_text().splitlines()]
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
