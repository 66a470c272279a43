"""Progress reports of long operations, to a listener that is set for the thread."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple


class Amount(NamedTuple):
    """The progress of a copy, in bytes."""

    done: int
    total: int
    disk_done: int = 0  # the part of local disks, for a live migration
    disk_total: int = 0


_listener: ContextVar[Callable[[], None] | None] = ContextVar("progress_listener", default=None)
_counter: ContextVar[Callable[[Amount], None] | None] = ContextVar("progress_counter", default=None)


@contextmanager
def heard_by(listener: Callable[[], None], counter: Callable[[Amount], None] | None = None) -> Iterator[None]:
    """Call ``listener`` for each progress of this thread while the block runs. If the amount is known, call ``counter``
    with the amount first.
    """
    mark, counting = _listener.set(listener), _counter.set(counter)
    try:
        yield
    finally:
        _listener.reset(mark)
        _counter.reset(counting)


def moved(done: int = 0, total: int = 0, *, disk_done: int = 0, disk_total: int = 0) -> None:
    """Report progress: ``done`` of ``total``, if the total is known."""
    listener, counter = _listener.get(), _counter.get()
    if counter is not None and total:
        counter(Amount(min(done, total), total, disk_done, disk_total))
    if listener is not None:
        listener()


@contextmanager
def counted_from(before: int, total: int) -> Iterator[None]:
    """Report the amounts of one piece as amounts of the whole copy, which has ``total`` bytes and ``before`` of them
    done.
    """
    counter = _counter.get()

    def count(amount: Amount) -> None:
        if counter is not None:
            counter(amount._replace(done=min(before + amount.done, total), total=total))

    counting = _counter.set(None if counter is None else count)
    try:
        yield
    finally:
        _counter.reset(counting)


class Watched:
    """Reports progress whenever a repeatedly checked number has changed."""

    def __init__(self) -> None:
        self._last: object = None

    def look(self, amount: object, total: int = 0) -> bool:
        """Compare ``amount`` with the previous value, and return whether it has changed; None is ignored. ``total``:
        the final value, if ``amount`` counts bytes.
        """
        if amount is None or amount == self._last:
            return False
        if self._last is not None:
            moved(amount if isinstance(amount, int) else 0, total)
        self._last = amount
        return True


def moved_by_program(pid: int) -> object:
    """Return the I/O counters of a program and its children, to compare with earlier ones; None if unavailable."""
    try:
        pids = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
        lines = [line for each in pids for line in Path(f"/proc/{each}/io").read_text().splitlines()]
    except OSError:
        return None
    return tuple(int(line.partition(":")[2]) for line in lines if not line.startswith("sysc"))


def size_on_disk(*paths: Path) -> object:
    """Return sizes and block counts of the files; None if none exists."""
    result = []
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            continue
        result.append((status.st_size, status.st_blocks))
    return tuple(result) or None
