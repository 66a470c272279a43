"""bin/bench moves: what it counts, and its table; its figures are for people."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import threading
from collections import Counter as Counts
from http.client import HTTPException
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import tools.bench.__main__
from tests.support.guest_image import guest_image
from tools.bench.cloud import BenchError, Client, RefusedError
from tools.bench.moves import command, faults
from tools.bench.moves.cloud import LATER, Moved, Mover
from tools.bench.moves.command import FEWEST, PANIC, Bare, Found, prediction, ratio, rows_of
from tools.bench.moves.counter import BEGINS, Counter, Watch
from tools.bench.moves.faults import Outcomes, Rounds
from tools.bench.moves.modes import settings
from tools.bench.moves.outside import ECHO_REPLY, HEADER, LATE, Line, checksum, longest_gap, lost, number_in, request
from up.switch import Switch


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
        faults=Outcomes(Counts({"live, moved": 2, "cold, stayed": 1}), Counts({"pull a cable": 1})),
    )  # fmt: skip
    text = "\n".join(" ".join(row) for row in rows_of(result))
    assert "2 of 18" in text
    assert "1 aborted, 1 completed before" in text
    assert "two guests" in text
    assert "3 moves and evacuations with faults 1 cold, stayed; 2 live, moved" in text
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
        self.restarted = 0

    def panicked(self, server: str) -> bool:
        return self._panicked

    def restart(self, server: str) -> None:
        self.restarted += 1


@pytest.mark.parametrize(("panicked", "wrong"), [(False, "lost"), (True, PANIC)])
def test_a_lost_connection_is_counted_and_opened_again(
    monkeypatch: pytest.MonkeyPatch, panicked: bool, wrong: str
) -> None:
    monkeypatch.setattr("tools.bench.moves.command.time.sleep", lambda _: None)
    result, guest = Found(), Guest(panicked=panicked)
    command._use(cast(Mover, guest), "server", Broken(), result)
    assert (result.answers, result.checks, result.wrong, guest.restarted) == (2, 3, [wrong], int(panicked))


def test_a_guest_that_counts() -> None:
    counter = Counter()

    def wrong(text: str) -> list[str]:
        counter.take(text)
        found, counter.wrong = counter.wrong, []
        return found

    assert wrong(f"boot\r\n{BEGINS} 0\r\n+counted 1\r\n+counted 2\r\n") == []
    assert wrong("+counted 4\r\n+counted 5\r\n") == [], "output of the pause may be lost"
    assert wrong("login: +counted 6\n+counted 6\n") == ["the counter: 6 follows 6"]
    assert wrong("+counted 5\n") == ["the counter: 5 follows 6"], "an older guest"
    assert wrong("+lost 5 4\n+counted 7\n") == ["the guest wrote 5, and read 4"]
    assert wrong("+lost 6 \n+counted 8\n") == ["the guest wrote 6, and read nothing"]
    assert (counter.last, counter.confirmed) == (8, 7)
    assert wrong(f"{BEGINS} 9\n+counted 10\n") == [], "it has died between write and output"
    assert wrong(f"{BEGINS} 8\n+counted 9\n") == ["the guest has booted with 8 after it wrote 10"]


def test_a_reverted_guest_has_its_old_disk() -> None:
    counter = Counter()
    counter.take("+counted 7\n")
    counter.may_return_to(7)
    counter.take(f"+counted 9\n{BEGINS} 9\n+counted 12\n{BEGINS} 9\n+counted 10\n")
    assert counter.wrong == []
    counter.take(f"{BEGINS} 6\n")
    assert counter.wrong == ["the guest has booted with 6 after it wrote 10"]
    counter.may_return_to(None)
    counter.take(f"+counted 20\n{BEGINS} 10\n")
    assert counter.wrong[1:] == ["the guest has booted with 10 after it wrote 20"]


def test_the_consoles_of_all_hosts_are_watched(tmp_path: Path) -> None:
    logs = [tmp_path / f"hosts/host-{number}/instances/moved/console.log" for number in (1, 2)]
    for log in logs:
        log.parent.mkdir(parents=True)
    watch = Watch(tmp_path, "moved")
    logs[0].write_text("+counted 4\n+counted 5\n+count")
    logs[1].write_text("+counted 3\n")
    watch.look()
    assert (watch.counter.last, watch.counter.wrong) == (5, [])
    with logs[0].open("a") as file:
        file.write("ed 6\n")
    watch.look()
    assert (watch.counter.last, watch.counter.wrong) == (6, [])
    with logs[1].open("a") as file:
        file.write("+counted 6\n")
    watch.look()
    assert watch.counter.wrong == ["the counter: 6 follows 6"], "two guests"
    shutil.rmtree(logs[1].parent)
    watch.look()


def test_where_root_disks_are(tmp_path: Path) -> None:
    switch = Switch("nv-nowhere")
    with settings("shared", tmp_path, switch, 2) as result:
        assert (tmp_path / "shared").is_dir()
        assert result == {
            "NOVELLA_AGENT_VOLUME_POOL": f"roots=dir:{tmp_path}/shared",
            "NOVELLA_AGENT_ROOT_DISKS": "roots",
        }
    for mode in ("local", "volume"):
        with settings(mode, tmp_path, switch, 2) as result:
            assert result == {}


def test_requests_are_repeated_until_a_web_process_accepts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.bench.moves.faults.time.sleep", lambda _: None)
    answers: list[Exception | None] = [
        ConnectionRefusedError(),
        HTTPException(),
        RefusedError(503, ""),
        RefusedError(409, LATER),
        None,
    ]
    closed = []

    def call() -> str:
        if answer := answers.pop(0):
            raise answer
        return "done"

    client = cast(Client, SimpleNamespace(close=lambda: closed.append(1)))
    assert faults.patient(call, client, "it") == "done"
    assert len(closed) == 2, "the next request opens a new connection"
    answers += [RefusedError(404, "no"), RefusedError(409, "busy"), RefusedError(409, LATER)]
    for message in ("no", "busy"):
        with pytest.raises(RefusedError, match=message):
            faults.patient(call, client, "it")
    with pytest.raises(RefusedError, match=LATER):
        faults.patient(call, client, "it", 0)


class Operator(Rounds):
    """Rounds with the records of one server, which change with each request."""

    def __init__(self, *states: tuple[str, str | None]) -> None:
        self.states = [*states]
        self.requests: list[str] = []

    def _shown(self, guest: faults.Guest) -> dict[str, Any]:
        status, task = self.states[0]
        if task:
            self.states.pop(0)
        return {"status": status, "OS-EXT-STS:task_state": task, "OS-EXT-SRV-ATTR:host": "host-1"}

    def _act(self, guest: faults.Guest, body: dict[str, Any], within: float = 0) -> None:
        self.requests += body
        self.states.pop(0)


def test_a_server_is_brought_into_use_after_a_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tools.bench.moves.faults.time.sleep", lambda _: None)
    guest = faults.Guest("one", "203.0.113.9", Watch(tmp_path, "one"), confirms=False, outcome="cold")
    operator = Operator(
        ("RESIZE", "resize_migrating"), ("VERIFY_RESIZE", None), ("SHUTOFF", None), ("ERROR", None), ("ERROR", None),
        ("ACTIVE", None),
    )  # fmt: skip
    operator._settle(guest)
    assert operator.requests == ["revertResize", "os-start", "os-resetState", "reboot"]
    assert guest.outcome == "cold, reverted, in ERROR"


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
