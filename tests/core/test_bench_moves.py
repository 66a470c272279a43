"""bin/bench moves: what it counts, and its table; its figures are for people."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
from types import SimpleNamespace
from typing import cast

import pytest

import tools.bench.__main__
from tests.support.guest_image import guest_image
from tools.bench.cloud import BenchError
from tools.bench.moves import command
from tools.bench.moves.cloud import Moved, Mover
from tools.bench.moves.command import FEWEST, PANIC, Bare, Found, prediction, ratio, rows_of
from tools.bench.moves.counter import BEGINS, Counter
from tools.bench.moves.outside import ECHO_REPLY, HEADER, LATE, Line, checksum, longest_gap, lost, number_in, request


def test_a_ping_and_its_reply() -> None:
    sent = request(77, 5)
    assert checksum(sent) == 0, "the sum with the checksum, RFC 1071"
    reply = b"\x45" + bytes(19) + HEADER.pack(ECHO_REPLY, 0, 0, 77, 5)
    assert number_in(reply, 77) == 5
    assert [number_in(packet, 77) for packet in (b"", reply[:24], b"\x45" + bytes(19) + sent)] == [None] * 3
    assert number_in(reply, 78) is None


def test_the_longest_gap_counts_its_neighbours() -> None:
    replies = [0.0, 1.0, 1.1, 1.9, 2.0, 9.0]
    assert longest_gap(replies, 1.0, 2.0) == pytest.approx(7.0), "the reply after the interval ends the gap"
    assert longest_gap(replies, 1.05, 1.95) == pytest.approx(0.8)
    assert longest_gap([0.0, 0.1], 5.0, 8.0) == pytest.approx(3.0), "nobody answers"
    assert longest_gap([0.0, 10.0], 5.0, 8.0) == pytest.approx(10.0)


def test_late_replies_are_lost() -> None:
    sent = {1: 0.0, 2: 1.0, 3: 2.0, 4: 3.0, 5: 9.0}
    replies = {1: 0.1, 2: 1.0 + LATE, 4: 3.1}
    assert lost(sent, replies, 0.5, 4.0) == (2, 3)


def test_a_connection_that_ends_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            link, _ = server.accept()
            with link:
                link.sendall(link.recv(100))

        thread = threading.Thread(target=serve)
        thread.start()
        monkeypatch.setattr("tools.bench.moves.outside.namespace.inside", lambda _: contextlib.nullcontext())
        line = Line("nowhere", server.getsockname())
        line.check()
        thread.join()
        with pytest.raises(BenchError):
            line.check()
        line.close()


def test_ratios_are_those_of_turns() -> None:
    row = ratio("what", [1.0, 20.0, 3.0], [1.0, 10.0, 3.0], 1.3)
    assert row.measured.startswith("1.00 ")
    assert row.goal.endswith(": met")
    assert ratio("what", [2.0], [1.0], 1.3).goal.endswith(": missed")


def test_the_first_moves_predict_nothing() -> None:
    first = [Moved(0, 10, 100)] * FEWEST
    assert "not measured" in prediction("what", first).measured
    assert prediction("what", [*first, Moved(0, 10, 12)]).goal.endswith(": met")
    assert prediction("what", [*first, Moved(0, 10, 20)]).goal.endswith(": missed")


def test_the_table_has_what_was_measured() -> None:
    assert [row.goal for row in rows_of(Found())] == ["0: met"]
    moves = [Moved(0, 2, 2)] * 4
    result = Found(
        live=moves, dirty=moves, bare=[2.0] * 4, bare_pauses=[0.2] * 4, rest=[0.1], pauses=[0.2],
        dirty_pauses=[0.4], pings=[(1, 9)] * 2,
        cold=moves, copies=[1.0] * 4, aborts=[True, False], wrong=["two guests"],
    )  # fmt: skip
    text = "\n".join(" ".join(row) for row in rows_of(result))
    assert "2 of 18" in text
    assert "1 aborted, 1 completed before" in text
    assert "two guests" in text
    result.bare = result.bare_pauses = []
    assert len(rows_of(result)) == text.count("\n") - 1, "no comparison"


class Broken(Line):
    """A connection that is lost once."""

    def __init__(self) -> None:
        self.connected = True

    def check(self) -> None:
        if self.connected:
            self.connected = False
            raise BenchError("lost")

    def connect(self) -> None:
        pass

    def close(self) -> None:
        pass


class Guest:
    """The mover's side of a guest."""

    def __init__(self, *, panicked: bool) -> None:
        self._panicked = panicked
        self.rebuilt = 0

    def panicked(self, server: str) -> bool:
        return self._panicked

    def rebuild(self, server: str) -> None:
        self.rebuilt += 1


@pytest.mark.parametrize(("panicked", "wrong"), [(False, "lost"), (True, PANIC)])
def test_a_lost_connection_is_counted_and_opened_again(
    monkeypatch: pytest.MonkeyPatch, panicked: bool, wrong: str
) -> None:
    monkeypatch.setattr("tools.bench.moves.command.time.sleep", lambda _: None)
    result, guest = Found(), Guest(panicked=panicked)
    command._use(cast(Mover, guest), "server", Broken(), result)
    assert (result.answers, result.checks, result.wrong, guest.rebuilt) == (2, 3, [wrong], int(panicked))


def test_a_guest_that_counts() -> None:
    counter = Counter()
    assert counter.read(f"boot\r\n{BEGINS}\r\n+counted 1\r\n+counted 2\r\n") == []
    assert counter.read("+counted 4\r\n+counted 5\r\n") == [], "output of the pause may be lost"
    assert counter.read("login: +counted 6\n+counted 6\n") != []
    assert counter.read("+counted 5\n") != [], "an older guest"
    assert counter.read("+lost 5 4\n+counted 6\n") == ["the guest wrote 5, and read 4"]
    assert counter.read("+lost 6 \n+counted 7\n") == ["the guest wrote 6, and read nothing"]
    assert (counter.last, counter.confirmed) == (7, 8)
    assert counter.read("+counted 8\r\n+counted 1") == [], "half a number"
    counter.booted()
    assert counter.read(f"+counted 9\n{BEGINS}\n+counted 1\n") == []


def test_it_explains_itself(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["bin/bench", "moves", "--help"])
    with pytest.raises(SystemExit):
        tools.bench.__main__.main()
    assert "--aborts" in capsys.readouterr().out


@pytest.mark.deep
@pytest.mark.slow
@pytest.mark.libvirt
def test_a_guest_is_migrated_without_novella() -> None:
    """The whole of it needs a cloud of its own: ``bin/bench moves -n 1``."""
    if os.geteuid() != 0:
        pytest.skip("needs root: namespaces")
    bare = Bare(guest_image().path)
    try:
        for _ in range(2):  # there and back
            spent, _ = bare.migrate()
            assert spent > 0
    finally:
        bare.close()


def test_a_migration_waits_for_the_end_of_an_earlier_one() -> None:
    answers: list[BenchError | None] = [BenchError("409 Try again later."), None, BenchError("403")]
    mover = Mover.__new__(Mover)
    mover.admin = SimpleNamespace(call=lambda *_: None if (answer := answers.pop(0)) is None else fail(answer))  # type: ignore[assignment]
    mover.begin_live("a server")
    assert len(answers) == 1
    with pytest.raises(BenchError, match="403"):
        mover.begin_live("a server")


def fail(error: BenchError) -> None:
    raise error
