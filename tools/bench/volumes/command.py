"""``bin/bench volumes``: measures Block Storage on real guests and prints a table.

A slow result does not cause a failure.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.bench.cloud import BenchError, Cloud
from tools.bench.networking.rows import Row, judged, spread
from tools.bench.volumes import guest, on_ceph
from tools.bench.volumes.operations import Operator, Spent, Volumes
from up.prepare import GUEST_IMAGE
from up.programs import CHECKOUT, tool

GOALS = {"create": 0.15, "attach": 0.4, "snapshot": 0.3, "grow": 0.6}
"""Operation → maximum seconds from the request to the result."""
SLOWER_AT_MOST, AS_FAST_AT_LEAST, CLONE_WITHIN = 1.5, 0.9, 0.3
WORDS = {
    "create": "empty volume of 1 GiB: request → available",
    "attach": "to a running guest: request → in-use",
    "snapshot": "snapshot of an attached volume: request → available",
    "grow": "grow of an attached volume: request → in-use",
    "ordinary": "launch from the image: request → ACTIVE",
    "from a volume": "launch from a new volume of it: request → ACTIVE",
}
BARE = {
    "create": "qemu-img create",
    "attach": "qemu-storage-daemon, attachDeviceFlags",
    "snapshot": "qemu-img create, blockdev-snapshot",
    "grow": "the same, a new export, the guest's disk put on it, blockResize",
    "ordinary": "qemu-img create, createXML",
    "from a volume": "the same with qemu-storage-daemon",
}
PARTS, CLONES = ("operations", "launches", "throughput"), "clones"


def bare_command(image: Path, times: int, turns: int = 0) -> subprocess.Popen[str]:
    """Start the measurement without Novella, in separate namespaces."""
    command = ["unshare", "--net", "--mount", *tool("tools.bench.volumes.bare"), str(image), str(times)]
    environment = {"PYTHONPATH": str(CHECKOUT), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    return subprocess.Popen(
        [*command, "--turns", str(turns)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def answer(process: subprocess.Popen[str]) -> Spent:
    """Wait for the measurement without Novella, and return its result. Raises BenchError."""
    output, wrong = process.communicate()
    if process.returncode != 0:
        raise BenchError(f"QEMU and libvirt alone: {wrong.strip()[-700:]}")
    found: Spent = json.loads(output.splitlines()[-1])
    return found


def beside(values: Sequence[float], bare: Sequence[float]) -> str:
    """Return as text the seconds, the seconds of the bare commands, and the ratio of both."""
    ours, alone = statistics.median(values), statistics.median(bare)
    return f"{spread(values)}; bare {alone * 1000:.0f} ms, {ours / alone:.1f} times as long"


def operation_rows(spent: Spent, bare: Spent) -> list[Row]:
    found = []
    for what in (each for each in WORDS if each in spent):
        goal = judged(what, spent[what], GOALS[what]).goal if what in GOALS else ""
        found.append(Row(WORDS[what], beside(spent[what], bare[what]), goal))
        found.append(Row(f"  bare: {BARE[what]}", spread(bare[what])))
    return found


def ratio(what: str, measured: float, text: str, *, most: float = 0.0, least: float = 0.0) -> Row:
    """Return a row for a ratio that should be at most ``most``, or at least ``least``."""
    met = measured <= most if most else measured >= least
    limit = f"at most {most}" if most else f"at least {least}"
    return Row(what, f"{measured:.2f} ({text})", f"{limit}: {'met' if met else 'missed'}")


def throughput_rows(ours: guest.Figures, bare: guest.Figures) -> list[Row]:
    """Return the median ratio of the turns for each operation: the two measurements of a turn are affected equally by
    other work on the machine.
    """
    found = []
    for kind in guest.KINDS:
        ratios = [here / there for here, there in zip(ours[kind], bare[kind], strict=True)]
        here, there = statistics.median(ours[kind]), statistics.median(bare[kind])
        text = f"{here:.1f} and {there:.1f} MiB a second; medians of {len(ratios)} turns"
        what = f"{kind} in a guest, of the bare export's"
        found.append(ratio(what, statistics.median(ratios), text, least=AS_FAST_AT_LEAST))
    return found


def clone_rows(ours: Spent, bare: Spent) -> list[Row]:
    found = []
    for name, spent in ours.items():
        what = f"{name.removeprefix('clone ')} GiB on Ceph"
        row = judged(f"clone of an image, {what}: request → available", spent, CLONE_WITHIN)
        found.append(row._replace(measured=beside(spent, bare[name])))
        found.append(Row(f"  bare: rbd clone, rbd resize, {what}", spread(bare[name])))
    return found


def local(rows: list[Row], folder: Path, wanted: set[str], times: int, say: Callable[[str], None]) -> None:
    """Add the results of a one-machine cloud with its own pool. Raises BenchError; results until then are kept."""
    cloud = Cloud(folder, 0)
    try:
        say("bin/up on this machine")
        cloud.up()
        volumes, image = Volumes(cloud), cloud.data / GUEST_IMAGE
        Operator(cloud).until_pool("local")
        silence = 0.0
        if "operations" in wanted:
            say("volumes")
            silence = volumes.life_of_volumes(times, cloud.data)
        if "launches" in wanted:
            say("launches")
            volumes.launches(max(times // 2, 1))
        if wanted & {"operations", "launches"}:
            say("QEMU and libvirt alone")
            rows += operation_rows(volumes.spent, answer(bare_command(image, max(times // 2, 1))))
        if "operations" in wanted:
            rows.append(Row("longest silence of the guest while its disk grew", f"{silence * 1000:.0f} ms"))
        if "launches" in wanted:
            ordinary, other = (statistics.median(volumes.spent[what]) for what in ("ordinary", "from a volume"))
            text = "medians of the launches above"
            rows.append(ratio("launch from a volume, of an ordinary one", other / ordinary, text, most=SLOWER_AT_MOST))
        if "throughput" in wanted:
            turns = max(times * 3 // 4, 1)
            say(f"a guest's disk, and the same without Novella: about {2 * guest.SECONDS * (turns + 2)} s")
            alone = bare_command(image, 0, turns)
            try:
                ours = volumes.throughput(cloud.data, turns)
            finally:
                bare = answer(alone)
            rows += throughput_rows(ours, bare)
        volumes.close()
    finally:
        cloud.clean()


def load() -> float:
    """Return the machine's load average of the last minute."""
    return os.getloadavg()[0]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bin/bench volumes", description=__doc__)
    parser.add_argument("-n", "--times", type=int, default=20, metavar="N", help="times that each thing is done (20)")
    parser.add_argument("--only", choices=(*PARTS, CLONES), action="append", help="a part; may be given several times")
    parser.add_argument("--rbd", action="store_true", help=f"{CLONES} in a Ceph of one node as well")
    options = parser.parse_args(arguments)
    wanted, times = set(options.only or PARTS) | ({CLONES} if options.rbd else set()), max(options.times, 1)

    def say(text: str) -> None:
        print(f"… {text}", file=sys.stderr, flush=True)

    if os.geteuid() != 0:
        print("bin/bench: volumes of real guests are measured as root.", file=sys.stderr)
        return 1
    if CLONES in wanted and (reason := on_ceph.missing()):
        print(f"bin/bench: {reason}", file=sys.stderr)
        return 1
    rows, began_at = list[Row](), load()
    try:
        with tempfile.TemporaryDirectory(prefix="nv-bench-") as folder:
            Path(folder).chmod(0o711)
            if wanted & set(PARTS):
                local(rows, Path(folder) / "local", wanted, times, say)
            if CLONES in wanted:
                rows += clone_rows(*on_ceph.clones(Path(folder) / "rbd", times, say))
    except BenchError as error:
        print(f"bin/bench: {error}", file=sys.stderr)
        return 1
    finally:
        rows.append(Row("load of the machine", f"{began_at:.1f} before, {load():.1f} at the end"))
        widths = [max((len(row[at]) for row in rows), default=0) for at in (0, 1)]
        for row in rows:
            print(f"{row.what:<{widths[0]}}  {row.measured:<{widths[1]}}  {row.goal}".rstrip())
    return 0
