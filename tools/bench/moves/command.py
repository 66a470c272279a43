"""``bin/bench moves``: measures moves of real guests between hosts, and prints a table.

A slow result does not cause a failure; a lost connection, a lost write, two guests of a server, or leftovers on a host
do.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.bench.cloud import BenchError, Cloud
from tools.bench.moves.cloud import DIRTIES, ECHO, FILLED, FILLS, WAITS, Moved, Mover, copied
from tools.bench.moves.counter import COUNTS, Counter, Watch
from tools.bench.moves.faults import Outcomes, Rounds
from tools.bench.moves.modes import MODES, settings
from tools.bench.moves.outside import LATE, Line, Pings
from tools.bench.networking.rows import Row, judged, spread
from tools.bench.volumes.guest import until
from up.data_folder import DataFolder
from up.prepare import GUEST_IMAGE
from up.programs import CHECKOUT, tool
from up.switch import Switch

HOSTS = 2
PARTS = ("live", "cold", "aborts", "faults")
PAUSE_GOAL, PREDICTED_GOAL, LIVE_GOAL, COLD_GOAL = 0.3, 0.3, 1.3, 1.5
FEWEST = 3
"""Moves of a kind after which its predictions count: they are derived from earlier moves."""
PIECES = 100
"""Pieces of 8 MiB on the disk that is moved cold."""
DIRTY_BLOCKS = 64
"""Blocks of 64 KiB that the guest writes to its memory five times a second."""
ANSWERS_WITHIN = 60.0
PANIC = "the guest's kernel has panicked"
HANGS = ", and the guest no longer counts"


class Bare:
    """The same guest, migrated between two libvirt daemons by libvirt's own calls, in its own namespaces."""

    def __init__(self, image: Path) -> None:
        self._process = subprocess.Popen(
            ["unshare", "--net", "--mount", *tool("tools.bench.moves.bare", str(image))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": str(CHECKOUT), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        )
        self._line()

    def _line(self) -> str:
        assert self._process.stdout is not None  # noqa: S101 - asked for above
        line: str = self._process.stdout.readline().strip()
        if not line:
            raise BenchError(f"libvirt alone: {self._process.communicate()[1].strip()[-700:]}")
        return line

    def migrate(self) -> tuple[float, float]:
        """Return the seconds of one migration, and the seconds of its pause. Raises BenchError."""
        assert self._process.stdin is not None  # noqa: S101 - asked for above
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        spent, pause = map(float, self._line().split())
        return spent, pause

    def close(self) -> None:
        """End the guest and the daemons."""
        self._process.communicate()


@dataclass
class Found:
    """The results of all parts."""

    live: list[Moved] = field(default_factory=list)
    dirty: list[Moved] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)
    bare_pauses: list[float] = field(default_factory=list)
    """Times in which the guest was paused, by the events of libvirt."""
    rest: list[float] = field(default_factory=list)
    """Longest times without a reply while the guest was not migrated."""
    pauses: list[float] = field(default_factory=list)
    dirty_pauses: list[float] = field(default_factory=list)
    pings: list[tuple[int, int]] = field(default_factory=list)
    """Lost and sent pings of each live migration."""
    checks: int = 0
    answers: int = 0
    cold: list[Moved] = field(default_factory=list)
    copies: list[float] = field(default_factory=list)
    aborts: list[bool] = field(default_factory=list)
    """For each request to abort whether the guest stayed."""
    writes: int = 0
    """Numbers of the counter that guests have confirmed."""
    faults: Outcomes = field(default_factory=Outcomes)
    wrong: list[str] = field(default_factory=list)


def part_live(mover: Mover, found: Found, image: Path | None, times: int, aborts: int, dice: random.Random) -> None:
    """Migrate a guest with an open connection live, in turns with the bare calls of libvirt; then abort migrations.
    ``image``: the image of the guest for the bare calls; None: no bare calls.
    """
    server = mover.launch("moved", WAITS + COUNTS)
    address = mover.floating_ip(server)
    watch = Watch(mover.data, server)
    counter = watch.counter
    bare = Bare(image) if times and image is not None else None
    try:
        with watch, Pings(mover.switch.world, address) as pings:
            until(pings.answered, "the guest answers", ANSWERS_WITHIN)
            line = Line(mover.switch.world, (address, ECHO))
            for _ in range(times):
                since = time.monotonic()
                _use(mover, server, line, found, counter)
                found.rest.append(pings.gap(since, time.monotonic()))
                moved = mover.live(server)
                _observed(mover, found, server, pings, line, moved, counter)
                found.live.append(moved)
                found.pauses.append(pings.gap(moved.began, moved.ended + LATE))
                if bare is not None:
                    spent, pause = bare.migrate()
                    found.bare.append(spent)
                    found.bare_pauses.append(pause)
            usual = statistics.median([moved.seconds for moved in found.live] or [3.0])
            for _ in range(aborts):
                found.aborts.append(mover.aborted(server, dice.uniform(0, usual)))
                _use(mover, server, line, found, counter)
                _verify(mover, found, server)
            line.close()
    finally:
        found.writes += counter.confirmed
        found.wrong += counter.wrong
        if bare is not None:
            bare.close()
    mover.delete(server)


def part_dirty(mover: Mover, found: Found, times: int) -> None:
    """Migrate a guest that keeps writing to its memory."""
    server = mover.launch("writing", WAITS + DIRTIES.format(blocks=DIRTY_BLOCKS))
    address = mover.floating_ip(server)
    with Pings(mover.switch.world, address) as pings:
        until(pings.answered, "the guest answers", ANSWERS_WITHIN)
        line = Line(mover.switch.world, (address, ECHO))
        for _ in range(times):
            moved = mover.live(server)
            _observed(mover, found, server, pings, line, moved)
            found.dirty.append(moved)
            found.dirty_pauses.append(pings.gap(moved.began, moved.ended + LATE))
        line.close()
    mover.delete(server)


def part_cold(mover: Mover, found: Found, data: Path, folder: Path, times: int) -> None:
    """Migrate a stopped server with a full disk, in turns with copies of the file, if it is one."""
    server, files = mover.launch("full", FILLS.format(pieces=PIECES), FILLED), mover.mode == "local"
    mover.stop(server)
    if files:
        copied(data, server, folder)  # the file is in the cache for both from now on
    for _ in range(times):
        if files:
            found.copies.append(copied(data, server, folder))
        found.cold.append(mover.cold(server))
        mover.confirm(server, "stopped")
        if rest := mover.leftovers(server):
            found.wrong.append(f"after a cold migration: {rest}")
    mover.delete(server)


def part_faults(mover: Mover, found: Found, cloud: Cloud, extent: Extent, say: Callable[[str], None]) -> None:
    """Move guests while hosts and services fail."""
    rounds = Rounds(cloud, mover, random.Random(extent.seed), say)  # noqa: S311
    found.faults = rounds.outcomes
    try:
        rounds.run(extent.faults)
    finally:
        found.writes += found.faults.confirmed
        found.wrong += found.faults.wrong


def _use(mover: Mover, server: str, line: Line, found: Found, counter: Counter | None = None) -> None:
    """Use the connection for some seconds; if it is lost, count that, and connect again. A guest whose kernel has
    panicked, or that no longer counts, is restarted. Raises OSError.
    """
    for _ in range(3):
        try:
            line.check()
        except BenchError as error:
            panicked, hangs = mover.panicked(server), counter is not None and not _counts(counter)
            found.wrong.append(PANIC if panicked else f"{error}{HANGS if hangs else ''}")
            line.close()
            if panicked or hangs:
                mover.restart(server)
            line.connect()
        else:
            found.answers += 1
        found.checks += 1
        time.sleep(1)


def _counts(counter: Counter) -> bool:
    """Whether a guest continues to count."""
    before = counter.last
    with contextlib.suppress(BenchError):
        until(lambda: counter.last > before, "the guest counts", ANSWERS_WITHIN)
    return counter.last > before


def _observed(
    mover: Mover, found: Found, server: str, pings: Pings, line: Line, moved: Moved, counter: Counter | None = None
) -> None:
    """Use the connection until late replies have arrived, and count."""
    until(pings.answered, "the guest answers after its migration", ANSWERS_WITHIN)
    _use(mover, server, line, found, counter)
    found.pings.append(pings.lost(moved.began, moved.ended + LATE / 2))
    _verify(mover, found, server)


def _verify(mover: Mover, found: Found, server: str) -> None:
    if rest := mover.leftovers(server):
        found.wrong.append(f"after a live migration or its abort: {rest}")
    if (number := mover.guests(server)) != 1:
        found.wrong.append(f"after a live migration or its abort: {number} guests")


# ----- rows -----------------------------------------------------------------------------------------------------------


def ratio(what: str, ours: Sequence[float], bare: Sequence[float], most: float) -> Row:
    """Return a row for the median of the ratios of turns, which should be at most ``most``."""
    found = statistics.median(one / other for one, other in zip(ours, bare, strict=True))
    text = f"{found:.2f} ({statistics.median(ours):.1f} s and {statistics.median(bare):.1f} s; n={len(ours)})"
    return Row(what, text, f"at most {most}: {'met' if found <= most else 'missed'}")


def prediction(what: str, moves: Sequence[Moved]) -> Row:
    """Return a row for the predictions that are derived from earlier moves."""
    late = moves[FEWEST:]
    if not late:
        return Row(what, f"not measured: needs more than {FEWEST} moves")
    wrong = statistics.median(abs(move.predicted / move.seconds - 1) for move in late)
    predicted, real = (statistics.median(getattr(move, name) for move in late) for name in ("predicted", "seconds"))
    text = f"{100 * wrong:.0f} % wrong ({predicted:.0f} s instead of {real:.1f} s; n={len(late)})"
    return Row(what, text, f"within {100 * PREDICTED_GOAL:.0f} %: {'met' if wrong <= PREDICTED_GOAL else 'missed'}")


def _live_rows(found: Found) -> list[Row]:
    """Return the lines of live migrations."""
    rows = []
    if found.live:
        rows.append(judged("live migration: longest time without a reply", found.pauses, PAUSE_GOAL))
        rows.append(Row("  the same guest where it stays", spread(found.rest)))
        if found.bare_pauses:
            rows.append(Row("  the guest paused by libvirt's calls alone", spread(found.bare_pauses)))
    if found.dirty:
        rows.append(judged("live migration while it writes to its memory: the same", found.dirty_pauses, PAUSE_GOAL))
    if found.pings:
        lost, sent = (sum(each) for each in zip(*found.pings, strict=True))
        rows.append(Row("pings lost, one every 10 ms", f"{lost} of {sent} in {len(found.pings)} migrations"))
        rows.append(Row("answers over one TCP connection per guest", f"{found.answers} of {found.checks}"))
    if found.live:
        rows.append(Row("live migration: request → ACTIVE", spread([moved.seconds for moved in found.live])))
        rows.append(prediction("  predicted by a drain's plan", found.live))
    if found.bare:
        bare = "  of libvirt's calls alone"
        rows.append(ratio(bare, [moved.seconds for moved in found.live], found.bare, LIVE_GOAL))
    return rows


def rows_of(found: Found) -> list[Row]:
    """Return the lines of all parts that were measured."""
    rows = _live_rows(found)
    if found.cold:
        seconds = [moved.seconds for moved in found.cold]
        rows.append(Row(f"cold migration, disk with {8 * PIECES} MiB: request → VERIFY_RESIZE", spread(seconds)))
        rows.append(prediction("  predicted by a drain's plan", found.cold))
        if found.copies:
            rows.append(ratio("  of copying the file", seconds, found.copies, COLD_GOAL))
    if found.aborts:
        stayed = sum(found.aborts)
        text = f"{stayed} aborted, {len(found.aborts) - stayed} completed before"
        rows.append(Row(f"{len(found.aborts)} aborts at random moments", text))
    if found.faults.moves:
        rows.append(Row(f"{found.faults.moves} moves and evacuations with faults", _numbers(found.faults.counts)))
        rows.append(Row("  faults", _numbers(found.faults.faults)))
    if found.writes:
        rows.append(Row("numbers that the guest wrote to its disk, and read again", str(found.writes)))
    rows.append(
        Row(
            "lost connections, lost writes, second guests, leftovers",
            str(len(found.wrong)),
            f"0: {'missed' if found.wrong else 'met'}",
        )
    )
    rows += [Row("", each) for each in found.wrong]
    return rows


def _numbers(counts: Mapping[str, int]) -> str:
    return "; ".join(f"{number} {what}" for what, number in sorted(counts.items()))


@dataclass(frozen=True)
class Extent:
    """The parts, the numbers of moves, aborts and moves with faults, the seed of their moments, and where root disks
    are.
    """

    parts: frozenset[str]
    times: int
    aborts: int
    faults: int
    seed: int
    mode: str = "local"
    alone: bool = False
    """Whether the same commands without Novella are omitted."""


def measure(found: Found, folder: Path, extent: Extent, say: Callable[[str], None]) -> None:
    """Measure in a cloud of its own, which is removed. Raises BenchError and OSError; results until then are kept."""
    switch = Switch(DataFolder(folder / "data", CHECKOUT / "var").netns)
    with settings(extent.mode, folder, switch, HOSTS) as pool:
        cloud = Cloud(folder / "data", 0, CHECKOUT, **pool)
        cloud.hosts = HOSTS
        try:
            say(f"bin/up --hosts {HOSTS}")
            cloud.up()
            _parts(found, cloud, folder, extent, say)
        finally:
            cloud.clean()


def _parts(found: Found, cloud: Cloud, folder: Path, extent: Extent, say: Callable[[str], None]) -> None:
    """Measure the parts in a cloud. Raises BenchError and OSError."""
    wanted, times, mover = extent.parts, extent.times, Mover(cloud, extent.mode)
    with contextlib.closing(mover):
        image = None if extent.alone or extent.mode != "local" else cloud.data / GUEST_IMAGE
        mover.allow()
        if wanted & {"live", "aborts"}:
            say("live migrations")
            live, aborts = (times if "live" in wanted else 0), (extent.aborts if "aborts" in wanted else 0)
            part_live(mover, found, image, live, aborts, random.Random(extent.seed))  # noqa: S311
        if "live" in wanted:
            say("live migrations of a guest that writes")
            part_dirty(mover, found, times)
        if "cold" in wanted:
            say("cold migrations")
            part_cold(mover, found, cloud.data, folder, times)
        if "faults" in wanted and extent.faults:
            say("moves with faults")
            part_faults(mover, found, cloud, extent, say)
    say("the doctor")
    found.wrong += [f"doctor: {line}" for line in doctor(cloud)]


def doctor(cloud: Cloud) -> list[str]:
    """Return the findings of the doctor."""
    found: list[str] = json.loads(cloud.manage("shell", "--verbosity", "0", "--command", _DOCTOR).splitlines()[-1])
    return found


_DOCTOR = (
    "import json; from provisioning.doctor.examinations.runs import run;"
    "rows = [row for row in run('command').findings if row['severity'] != 'note'];"
    "print(json.dumps([f\"{row['check']}: {row['subject']}: {row['sentence']}\" for row in rows]))"
)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bin/bench moves", description=__doc__)
    parser.add_argument("-n", "--times", type=int, default=6, metavar="N", help="moves of each kind (6)")
    parser.add_argument("--aborts", type=int, default=6, metavar="N", help="live migrations that are aborted (6)")
    parser.add_argument("--faults", type=int, default=0, metavar="N", help="moves and evacuations with faults (0)")
    parser.add_argument("--mode", choices=MODES, default="local", help="where root disks are (local)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the moments of aborts and faults (random)")
    parser.add_argument("--only", choices=PARTS, action="append", help="a part; may be given several times")
    parser.add_argument(
        "--alone", action="store_true", help="without live migrations outside of Novella for comparison"
    )
    options = parser.parse_args(arguments)

    def say(text: str) -> None:
        print(f"… {text}", file=sys.stderr, flush=True)

    if os.geteuid() != 0:
        print("bin/bench: moves of real guests are measured as root.", file=sys.stderr)
        return 1
    seed = options.seed or random.SystemRandom().randrange(1, 1 << 30)
    extent = Extent(
        frozenset(options.only or PARTS),
        max(options.times, 1),
        max(options.aborts, 0),
        max(options.faults, 0),
        seed,
        options.mode,
        options.alone,
    )
    found, began_at, ended = Found(), os.getloadavg()[0], False
    try:
        with tempfile.TemporaryDirectory(prefix="nv-bench-") as folder:
            Path(folder).chmod(0o711)
            measure(found, Path(folder), extent, say)
            ended = True
    except (BenchError, OSError) as error:
        print(f"bin/bench: {error}", file=sys.stderr)
    finally:
        rows = rows_of(found)
        rows.append(
            Row("load of the machine", f"{began_at:.1f} before, {os.getloadavg()[0]:.1f} at the end; seed {seed}")
        )
        widths = [max((len(row[at]) for row in rows), default=0) for at in (0, 1)]
        for row in rows:
            print(f"{row.what:<{widths[0]}}  {row.measured:<{widths[1]}}  {row.goal}".rstrip())
    return 0 if ended and not found.wrong else 1
