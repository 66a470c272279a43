"""Tables whose rows take milliseconds each: one test goes through all of them, and reports all that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def check_each(rows: Iterable[T], check: Callable[[T], None], name: Callable[[T], object] = repr) -> None:
    """Call ``check`` for each row, and fail with the name and the reason of each row that fails."""
    failed, count = [], 0
    for count, row in enumerate(rows, 1):  # noqa: B007 - counted for the case that there is none
        try:
            check(row)
        except Exception as error:  # noqa: BLE001 - the other rows are to be checked as well
            failed.append(f"{name(row)}: {type(error).__name__}: {error}")
    assert count, "the table is empty"
    assert not failed, f"{len(failed)} of {count}:\n" + "\n".join(failed)
