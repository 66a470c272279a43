"""bin/bench: measures how fast a one-machine cloud launches servers, and prints a table.

A slow result does not cause a failure.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import tools.bench.faces.tokens
import tools.bench.in_django.servers
from tools.bench import live
from tools.bench.cloud import BenchError, Client, Cloud
from tools.bench.in_django import scheduler, shell
from tools.bench.live import Servers, ms, spread
from up.prepare import GUEST_IMAGE
from up.programs import CHECKOUT, tool

SIMULATED_HOSTS = 3
IDLE_FOR = 5.0
"""Seconds of rest before memory is measured."""
SENDERS = 8
MEASURED = 2_000
"""Servers of which `bin/bench measures` prints the costs of their measures."""


@dataclass(frozen=True)
class Row:
    """One line of the printed table."""

    what: str
    measured: str
    goal: str


def one_after_the_other(cloud: Cloud, count: int, *, keep: bool = True) -> list[float]:
    """Return the seconds from the 202 response to ACTIVE of each launch; the launches are sent one at a time.

    Without ``keep`` each server is deleted before the next launch, so that its boot does not slow down the next one.
    """
    client = Client(cloud)
    servers = Servers(cloud.port, client.token)
    spent = []
    for number in range(count):
        server = client.launch(f"single-{number}")
        accepted = time.time()
        spent.append(live.active(client, servers, server) - accepted)
        if not keep:
            client.delete_all()
    servers.close()
    client.delete_all()
    return spent


def all_at_once(cloud: Cloud, count: int) -> float:
    """Return the seconds until ``count`` launches, sent eight at a time, are all active."""
    clients = [Client(cloud) for _ in range(SENDERS)]
    servers = Servers(cloud.port, clients[0].token)

    def send(sender: int) -> list[str]:
        return [clients[sender].launch(f"many-{number}") for number in range(sender, count, SENDERS)]

    began = time.time()
    with ThreadPoolExecutor(SENDERS) as pool:
        launched = [server for sent in pool.map(send, range(SENDERS)) for server in sent]
    spent = max(live.active(clients[0], servers, server) for server in launched) - began
    servers.close()
    clients[0].delete_all()
    return spent


def simulated(folder: Path, launches: int, say: Callable[[str], None]) -> list[Row]:
    """Measure the control plane alone, with hosts whose work takes no time."""
    cloud = Cloud(folder, SIMULATED_HOSTS)
    try:
        say("bin/up on simulated hosts, twice")
        first = cloud.up()
        cloud.down()
        second = cloud.up()
        time.sleep(IDLE_FOR)
        memory = cloud.control_plane_kib()
        cloud.allow("instances", "cores", "ram", "fixed_ips")
        say("tokens")
        tokens = tools.bench.faces.tokens.measure(cloud, 100)
        say("launches, one after the other")
        single = one_after_the_other(cloud, launches)
        say("50 launches, 8 at a time")
        many = all_at_once(cloud, 50)
        say("events in the browser")
        pushed = live.push_delays(cloud, launches)
        idle = sum(kib for name, kib in memory.items() if name != "compute_agent") // 1024
        parts = ", ".join(f"{name} {kib // 1024}" for name, kib in memory.items())
        return [
            Row("bin/up, empty folder", f"{first:.1f} s", ""),
            Row("bin/up, second time", f"{second:.1f} s", "under 8 s"),
            Row("idle control plane, PSS", f"{idle} MiB without the agent ({parts})", "under 260 MiB"),
            Row("accepted → ACTIVE, fake driver", spread(single), "median under 150 ms"),
            Row("50 launches, 8 at a time", f"{50 / many:.1f} a second ({many:.1f} s)", "12 a second"),
            Row("state committed → in the browser", spread(pushed), "p95 under 50 ms"),
            *token_rows(tokens),
        ]
    finally:
        cloud.clean()


def token_rows(tokens: tools.bench.faces.tokens.Tokens) -> list[Row]:
    at_once = f"{tools.bench.faces.tokens.SENDERS} at a time"
    ordered = sorted(tokens.checked)
    micro = f"median {ordered[len(ordered) // 2] * 1e6:.0f} µs, p95 {ordered[len(ordered) * 95 // 100] * 1e6:.0f} µs"
    return [
        Row("token by password, HTTP", f"{spread(tokens.issued)}; {tokens.issued_a_second:.0f} a second {at_once}", ""),
        Row(
            "token looked into, HTTP",
            f"{spread(tokens.looked_into)}; {tokens.looked_into_a_second:.0f} a second {at_once}",
            "",
        ),
        Row(
            "token checked, in the process",
            f"{micro}; {len(ordered) / sum(ordered):.0f} a second (n={len(ordered)})",
            "well under 1 ms",
        ),
    ]


def list_rows(lists: tools.bench.in_django.servers.Lists) -> list[Row]:
    return [
        Row("1,000 servers in detail, in the process", spread(lists.detail), "under 150 ms"),
        Row("page of 100 of 1,000 servers", spread(lists.few), ""),
        Row("page of 100 of 10,000 servers", spread(lists.many), "as of 1,000"),
        *(
            Row(f"{what}, unchanged (If-None-Match)", f"{statistics.median(ratios):.2f} of what the list costs", "0.25")
            for what, ratios in (("1,000 servers in detail", lists.same), ("page of 100 servers", lists.same_few))
        ),
    ]


def real(folder: Path, launches: int, say: Callable[[str], None]) -> list[Row]:
    """Measure real guests, and the same work with QEMU and libvirt alone."""
    cloud = Cloud(folder, simulate=0)
    try:
        say("bin/up on this machine")
        first = cloud.up()
        say("real launches, one after the other")
        ours = one_after_the_other(cloud, launches, keep=False)
        say("QEMU and libvirt alone")
        bare = bare_cost(cloud.data / GUEST_IMAGE, launches)
        added = statistics.median(ours) - statistics.median(bare)
        return [
            Row("bin/up, empty folder, real guests", f"{first:.1f} s", ""),
            Row("accepted → ACTIVE, libvirt", spread(ours), ""),
            Row("qemu-img create + createXML alone", spread(bare), ""),
            Row("overhead of Novella (medians)", ms(added), "under 500 ms"),
        ]
    finally:
        cloud.clean()


def bare_cost(image: Path, launches: int) -> list[float]:
    command = ["unshare", "--net", "--mount", *tool("tools.bench.bare")]
    done = subprocess.run(
        [*command, str(image), str(launches)],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(CHECKOUT), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        check=False,
    )
    if done.returncode != 0:
        raise BenchError(f"QEMU and libvirt alone: {done.stderr.strip()[-500:]}")
    return [float(seconds) for seconds in json.loads(done.stdout.splitlines()[-1])]


def show(rows: list[Row]) -> None:
    widths = [max(len(cell) for cell in column) for column in zip(*[(r.what, r.measured) for r in rows], strict=True)]
    for row in rows:
        print(f"{row.what:<{widths[0]}}  {row.measured:<{widths[1]}}  {row.goal}".rstrip())


def _in_the_browser() -> Iterator[Row]:
    from tools.bench.faces import browser  # noqa: PLC0415 - loads Playwright

    with tempfile.TemporaryDirectory(prefix="nv-bench-") as folder:
        yield from (Row(*line) for line in browser.measure(Path(folder) / "cloud", _say))


def _shown(rows: list[Row], measured: Callable[[], Iterable[Row]]) -> int:
    """Add the measured rows and show all; after an error show those before it. Return the exit status."""
    try:
        rows += measured()
    except BenchError as error:
        show(rows)
        print(f"bin/bench: {error}", file=sys.stderr)
        return 1
    show(rows)
    return 0


def _say(text: str) -> None:
    print(f"… {text}", file=sys.stderr, flush=True)


def main() -> int:
    if sys.argv[1:2] == ["http"]:
        from tools.bench.over_http import command  # noqa: PLC0415 - loads the OpenStack client

        return command.main(sys.argv[2:])
    if sys.argv[1:2] == ["network"]:
        from tools.bench.networking import command as network  # noqa: PLC0415

        return network.main(sys.argv[2:])
    if sys.argv[1:2] == ["volumes"]:
        from tools.bench.volumes import command as volumes  # noqa: PLC0415

        return volumes.main(sys.argv[2:])
    if sys.argv[1:2] == ["moves"]:
        from tools.bench.moves import command as moves  # noqa: PLC0415

        return moves.main(sys.argv[2:])
    if sys.argv[1:2] == ["ec2"]:
        from tools.bench.faces import ec2  # noqa: PLC0415

        return ec2.main(sys.argv[2:])
    if sys.argv[1:2] in (["measures"], ["dashboard"]):
        call = f"measures.main({MEASURED})" if sys.argv[1] == "measures" else "dashboard.main()"
        with tempfile.TemporaryDirectory(prefix="nv-bench-") as folder:
            shell.migrate(Path(folder))
            lines = shell.call(Path(folder), call)["lines"]
        rows = [Row(*line, *[""] * (3 - len(line))) for line in lines]
        return _shown(rows, _in_the_browser if sys.argv[1] == "dashboard" else list)
    more = "bin/bench http --help: the same over HTTP for any cloud, with one and with eight simultaneous requests."
    parser = argparse.ArgumentParser(prog="bin/bench", description=__doc__, epilog=more)
    parser.add_argument("--launches", type=int, default=30, metavar="N", help="single launches to measure (30)")
    parser.add_argument("--real-launches", type=int, default=8, metavar="N", help="the same with QEMU; 0: none (8)")
    options = parser.parse_args()

    def measured() -> Iterator[Row]:
        with tempfile.TemporaryDirectory(prefix="nv-bench-") as folder:
            yield from simulated(Path(folder) / "simulated", options.launches, _say)
            _say("lists of servers")
            yield from list_rows(tools.bench.in_django.servers.measure(Path(folder) / "lists"))
            _say("decisions of the scheduler")
            yield from (Row(*line) for line in scheduler.lines(scheduler.measure(Path(folder) / "scheduler")))
            if options.real_launches:
                yield from real(Path(folder) / "real", options.real_launches, _say)

    return _shown([], measured)


if __name__ == "__main__":
    sys.exit(main())
