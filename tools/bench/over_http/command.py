"""bin/bench http: measures a cloud over HTTP, with one and with eight requests at a time, and prints a table with
goals.

Without an option it starts new clouds with simulated hosts, one for each database. With --cloud or --auth-url it
measures any cloud that speaks the OpenStack APIs, as a user whose quota is sufficient for the servers; this user should
have a separate project. The servers that it creates have unique names and are deleted at the end.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tools import postgresql
from tools.bench.cloud import BenchError
from tools.bench.over_http import machine, own, table
from tools.bench.over_http.measure import Counts, Measurement
from tools.bench.over_http.target import Target, choose, region, region_of, target
from up.processes import descendants
from up.programs import CHECKOUT

Say = Callable[[str], None]


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line; exits with a message if it is invalid."""
    kind = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="bin/bench http", description=__doc__, formatter_class=kind)
    add = parser.add_argument
    add(
        "--servers", type=_count, default=500, metavar="N", help="servers that are there while servers are listed (500)"
    )
    add("--launches", type=_count, default=20, metavar="N", help="launches one at a time (20)")
    add("--requests", type=_count, default=100, metavar="N", help="requests of each other row (100)")
    add("--databases", type=_databases, metavar="LIST", help="of clouds of its own: sqlite,postgresql")
    add("--against", type=Path, metavar="CHECKOUT", help="another checkout of Novella to compare with")
    add("--cloud", metavar="NAME", help="measure this cloud of clouds.yaml; envvars: that of the OS_ variables")
    add("--auth-url", metavar="URL", help="measure the cloud of this identity service")
    add("--user", metavar="NAME")
    add("--password", metavar="TEXT", help="(default: OS_PASSWORD, which other users of this machine do not see)")
    add("--project", metavar="NAME")
    add("--image", default="", metavar="NAME", help="the image to launch there, by name or id (the smallest)")
    add("--flavor", default="", metavar="NAME", help="(the smallest)")
    add("--network", default="", metavar="NAME", help="(the only one)")
    add("--pids", type=_pids, metavar="LIST", help="its processes on this machine, those below them with them")
    given = parser.parse_args(arguments)
    foreign = bool(given.cloud or given.auth_url)
    if foreign and (given.databases or given.against):
        parser.error("--databases and --against are for clouds of its own")
    if given.cloud and given.auth_url:
        parser.error("--cloud or --auth-url, not both")
    if given.auth_url and not (given.user and given.project and _password(given)):
        parser.error("--auth-url needs --user, --password and --project")
    if not foreign and (given.image or given.flavor or given.network or given.pids):
        parser.error("--image, --flavor, --network and --pids go with --cloud or --auth-url")
    if given.against and not os.access(given.against / "bin/up", os.X_OK):
        parser.error(f"there is no bin/up in {given.against}")
    return given


def _count(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1 to 10,000")
    return int(text)


def _databases(text: str) -> list[str]:
    found = text.split(",")
    if not set(found) <= set(own.DATABASES) or len(set(found)) != len(found):
        raise argparse.ArgumentTypeError(f"{text} is not a list of {' and '.join(own.DATABASES)}")
    return found


def _pids(text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is not a list of process numbers") from None


def _password(given: argparse.Namespace) -> str:
    return given.password or os.environ.get("OS_PASSWORD", "")


def counts(given: argparse.Namespace) -> Counts:
    """Divide the requested numbers into rounds, in which the clouds take turns."""
    rounds = min(5, given.launches, given.requests)
    return Counts(rounds, -(-given.requests // rounds), -(-given.launches // rounds), given.servers)


def clouds(given: argparse.Namespace, folder: Path, say: Say) -> list[own.OwnCloud]:
    """Return the clouds to start: for each database a cloud of the other checkout, if one is specified, and a cloud of
    this checkout.
    """
    databases = given.databases or list(own.DATABASES)
    if not given.databases:
        try:
            postgresql.programs()
        except postgresql.PostgresqlError as error:
            databases = ["sqlite"]
            say(f"SQLite alone: {error}")
    checkouts = {"": CHECKOUT} if given.against is None else {"before, ": given.against.resolve(), "after, ": CHECKOUT}
    planned = [(when, checkout, database) for database in databases for when, checkout in checkouts.items()]
    return [
        own.OwnCloud(f"{when}{database}", folder / f"{at}", database, checkout)
        for at, (when, checkout, database) in enumerate(planned)
    ]


def measure_own(given: argparse.Namespace, say: Say) -> table.Comparison:
    with tempfile.TemporaryDirectory(prefix="nv-bench-") as folder:
        Path(folder).chmod(0o755)  # the database server's user passes through it
        planned = clouds(given, Path(folder), say)
        try:
            for cloud in planned:
                say(f"bin/up: {cloud.label}, and its memory at rest")
                cloud.make()
            say("bin/up again, all of them")
            targets = [cloud.start() for cloud in planned]
            ratios = []
            if given.against is not None:
                ratios = [table.Ratio("times better", at, at + 1) for at in range(0, len(planned), 2)]
            return _measured(targets, given, say, ratios)
        finally:
            for cloud in planned:
                cloud.clean()


def measure_other(given: argparse.Namespace, say: Say) -> table.Comparison:
    if given.cloud:
        place, label = region(given.cloud), given.cloud
    else:
        place, label = region_of(given.auth_url, given.user, _password(given), given.project), given.auth_url
    found = target(label, place)
    found.launch = choose(found, given.image, given.flavor, given.network)
    if given.pids:

        def used() -> machine.Used:
            return machine.used({"all": [each for pid in given.pids for each in (pid, *descendants(pid))]})

        found.used = used
    return _measured([found], given, say, [])


def _measured(
    targets: Sequence[Target], given: argparse.Namespace, say: Say, ratios: Sequence[table.Ratio]
) -> table.Comparison:
    measurement = Measurement(targets, counts(given), say)
    measurement.run()
    labels = [each.label for each in targets]
    memory = [each.memory_kib for each in targets]
    return table.Comparison(labels, measurement.alone, measurement.together, memory, ratios)


def main(arguments: Sequence[str]) -> int:
    given = options(arguments)

    def say(text: str) -> None:
        print(f"… {text}", file=sys.stderr, flush=True)

    before, load = machine.speed(), os.getloadavg()[0]
    try:
        found = (measure_other if given.cloud or given.auth_url else measure_own)(given, say)
    except (BenchError, postgresql.PostgresqlError) as error:
        print(f"bin/bench http: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    speeds = f"{before:.1f} million steps a second before, {machine.speed():.1f} after"
    print(f"{machine.model()}; a plain Python loop: {speeds}; load before: {load:.1f}")
    print(f"Servers while they are listed: {given.servers}")
    print("\n".join(table.lines(found)))
    return 0
