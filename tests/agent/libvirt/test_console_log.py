"""The console log: offsets that only grow, and a size that does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from compute_agent.virt.libvirt import consoles
from compute_agent.virt.libvirt.consoles import BLOCK, read_log, trim_log

KEEP, LIMIT = 4 * BLOCK, 8 * BLOCK


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "console.log"


def write(log: Path, size: int) -> bytes:
    """Append numbered lines, as the guest does."""
    start = log.stat().st_size if log.exists() else 0
    text = b"".join(b"%09d\n" % (start + at) for at in range(0, size, 10))[:size]
    with log.open("ab") as file:
        file.write(text)
    return text


def test_an_absent_log_is_empty(log: Path) -> None:
    chunk = read_log(log, None, 100)
    assert (chunk.data, chunk.start, chunk.end) == (b"", 0, 0)
    assert trim_log(log) == 0


def test_the_tail_and_the_pieces_after_an_offset(log: Path) -> None:
    text = write(log, 1000)
    tail = read_log(log, None, 30)
    assert (tail.data, tail.start, tail.end) == (text[-30:], 970, 1000)
    assert read_log(log, 100, 30).data == text[100:130]
    beyond = read_log(log, 5000, 30)
    assert (beyond.data, beyond.start, beyond.end) == (b"", 1000, 1000)


def test_a_small_log_is_left_whole(log: Path) -> None:
    write(log, LIMIT)
    assert trim_log(log, KEEP, LIMIT) == 0
    assert read_log(log, 0, 10).start == 0


def test_a_long_log_loses_its_beginning_and_no_offset(log: Path) -> None:
    text = write(log, LIMIT + BLOCK + 7)
    given_back = trim_log(log, KEEP, LIMIT)
    assert given_back >= LIMIT - KEEP
    assert log.stat().st_size == len(text)
    assert log.stat().st_blocks * 512 <= KEEP + 2 * BLOCK
    after = read_log(log, 0, 10)
    assert after.start == given_back
    assert after.data == text[given_back : given_back + 10]
    more = write(log, 20)
    assert read_log(log, len(text), 100).data == more
    assert read_log(log, None, 20).end == len(text) + 20


@pytest.mark.slow
def test_a_flood_is_cut_again_and_again(log: Path) -> None:
    for _ in range(5):
        write(log, LIMIT)
        trim_log(log, KEEP, LIMIT)
        assert log.stat().st_blocks * 512 <= LIMIT + BLOCK
    assert log.stat().st_size == 5 * LIMIT


def test_a_file_system_without_holes_keeps_the_offsets(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(write(log, LIMIT * 2))

    def refuse(*_arguments: int) -> int:
        consoles.ctypes.set_errno(consoles.errno.EOPNOTSUPP)
        return -1

    class NoHoles:
        fallocate = staticmethod(refuse)

    monkeypatch.setattr(consoles, "_libc", NoHoles)
    trim_log(log, KEEP, LIMIT)
    assert log.stat().st_size == size
    more = write(log, 10)
    assert read_log(log, size, 100).data == more
