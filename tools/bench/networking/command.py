"""``bin/bench network``: measures networking and prints a table. A slow result does not cause a failure."""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from tools import postgresql
from tools.bench.cloud import BenchError, Client, Cloud
from tools.bench.in_django import shell
from tools.bench.networking import rules
from tools.bench.networking.rows import Row, judged, spread, sums
from up.programs import CHECKOUT, tool

EFFECT_WITHIN, SHARE_WITHIN = 0.3, 0.04
"""The goals in seconds: for the complete path of a rule, and for the network's part of a launch."""
DATABASES = ("SQLite", "PostgreSQL")
TOLD_WITHIN = 10.0
_FILL = (
    "from uuid import UUID, uuid4; from provisioning.network.services import allocate, create_network, create_subnet;"
    "from provisioning.quotas.services.limits import set_limit; project = UUID({project!r});"
    "[set_limit(project, resource, -1) for resource in ('ports', 'fixed_ips', 'security_group_rules')];"
    "network = create_network(project, 'many'); create_subnet(network, '10.77.0.0/16');"
    "[allocate(uuid4(), project, [{{'network_id': str(network.id)}}], [], '', 'nova') for _ in range({many})]"
)


@dataclass(frozen=True)
class Sizes:
    """Numbers of repetitions; the numbers in ``QUICK`` are only enough to check that everything works."""

    guests: int = 100
    changes: int = 30
    launches: int = 500
    alone: int = 30
    ports: int = 1_000
    lists: int = 15


QUICK = Sizes(guests=3, changes=1, launches=12, alone=3, ports=20, lists=2)


@dataclass
class Results:
    """The rows, and the seconds that launches wait for the network: on the host, and in each database."""

    rows: list[Row] = field(default_factory=list)
    host: list[float] = field(default_factory=list)
    records: dict[str, list[float]] = field(default_factory=dict)

    def shares(self) -> list[Row]:
        """Return rows with the network's part of a launch, if host and database were measured."""
        what = "network's share of a launch, address and host,"
        parts = self.records.items() if self.host else ()
        return [judged(f"{what} {name}", sums(self.host, seconds), SHARE_WITHIN) for name, seconds in parts]


def on_a_host(found: Results, sizes: Sizes) -> None:
    """Measure one host in separate namespaces."""
    own = ["--guests", str(sizes.guests), "--changes", str(sizes.changes)]
    script = 'mount -t tmpfs tmpfs /run && mkdir -p /run/netns && exec "$@"'
    command = [
        "unshare",
        "--net",
        "--mount",
        "--",
        "sh",
        "-c",
        script,
        "sh",
        *tool("tools.bench.networking.host"),
        *own,
    ]
    environment = {"PYTHONPATH": str(CHECKOUT), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        raise BenchError(f"on a host: {done.stderr.strip()[-700:]}")
    figures = json.loads(done.stdout.splitlines()[-1])
    many = f"{sizes.guests} guests"
    found.host = figures["more"]
    found.rows += [
        Row(f"filters of {many} with 20 rules each, as a whole", spread(figures["whole"])),
        Row("one rule of one of them", spread(figures["one"])),
        Row(f"filters of one more guest beside these {sizes.guests}", spread(figures["beside"])),
        Row("the same beside one guest", spread(figures["beside one"])),
        Row("host's network for a launch", spread(figures["more"])),
        Row("the same, the first guest on a network", spread(figures["first"])),
        Row("rule at the host → its effect on packets", spread(figures["effect"])),
    ]


def addresses(found: Results, folder: Path, sizes: Sizes, say: Callable[[str], None]) -> None:
    """Measure the allocation of addresses on both databases."""
    for name in DATABASES:
        say(f"addresses on {name}")
        data, server = folder / name, None
        try:
            if name == "PostgreSQL":
                server = postgresql.Server(folder / "server")
                server.start()
                os.environ["NOVELLA_DATABASE_URL"] = server.url
            shell.migrate(data)
            if server is not None:
                os.environ["NOVELLA_ROLE"] = "web"  # whose threads share a pool of connections
            code = f"from tools.bench.networking import addresses; addresses.main({sizes.launches}, {sizes.alone})"
            figures = shell.answer(shell.run(data, code))
        except postgresql.PostgresqlError as error:
            found.rows.append(Row(f"addresses, {name}", str(error)))
            continue
        finally:
            for variable in ("NOVELLA_DATABASE_URL", "NOVELLA_ROLE"):
                os.environ.pop(variable, None)
            if server is not None:
                server.stop(keep=False)
        (whole,) = figures["whole"]
        many = len(figures["each"])
        found.records[name] = figures["alone"]
        found.rows += [
            Row(f"port and address of a launch, {name}", spread(figures["alone"])),
            Row(
                f"{many} launches' addresses in {many} simultaneous threads, {name}",
                f"{many / whole:.0f} a second; {spread(figures['each'])}",
            ),
        ]


def over_http(found: Results, folder: Path, sizes: Sizes) -> None:
    """Measure a cloud of simulated hosts over HTTP."""
    cloud = Cloud(folder, 1)
    try:
        cloud.up()
        fill = _FILL.format(project=cloud.project("demo"), many=sizes.ports)
        cloud.manage("shell", "--verbosity", "0", "--command", fill)
        client = Client(cloud)
        lists = []
        for _ in range(sizes.lists + 1):
            began = time.perf_counter()
            listed = len(client.call("GET", "/network/v2.0/ports")["ports"])
            lists.append(time.perf_counter() - began)
            if listed < sizes.ports:
                raise BenchError(f"{listed} ports")
        server = client.launch("filtered")
        delays = delivery_seconds(cloud, client, server, sizes.changes)
        found.rows += [
            Row(f"list of {sizes.ports:,} ports, HTTP", spread(lists[1:])),
            Row("POST of a rule → the host has it, HTTP", spread(delays)),
        ]
    finally:
        cloud.clean()


def delivery_seconds(cloud: Cloud, client: Client, server: str, changes: int) -> list[float]:
    """Return the seconds from the request for a rule to the host's report that it is in effect."""
    deadline = time.monotonic() + TOLD_WITHIN
    while client.call("GET", f"/compute/v2.1/servers/{server}")["server"]["status"] != "ACTIVE":
        if time.monotonic() > deadline:
            raise BenchError(client.fault(server))
        time.sleep(0.1)
    (group,) = client.call("GET", "/network/v2.0/security-groups?name=default")["security_groups"]
    found = []
    with closing(sqlite3.connect(f"file:{cloud.portal / 'db.sqlite3'}?mode=ro", uri=True)) as database:

        def notified() -> tuple[str, bool]:
            row = database.execute(
                "SELECT digest, command_id FROM network_delivery WHERE kind = 'security_group' AND subject_id = ?",
                (UUID(group["id"]).hex,),
            ).fetchone()
            return (row[0], row[1] is None) if row else ("", False)

        for number in range(changes):
            until(lambda: notified()[1])
            time.sleep(1)
            before, _ = notified()
            rule = {"security_group_id": group["id"], "direction": "ingress", "protocol": "tcp"}
            rule |= {"port_range_min": 2000 + number, "port_range_max": 2000 + number}
            began = time.perf_counter()
            client.call("POST", "/network/v2.0/security-group-rules", {"security_group_rule": rule})
            until(lambda before=before: notified()[1] and notified()[0] != before)  # type: ignore[misc]
            found.append(time.perf_counter() - began)
    return found


def until(question: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TOLD_WITHIN
    while not question():
        if time.monotonic() > deadline:
            raise BenchError("the host did not receive a rule")
        time.sleep(0.002)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bin/bench network", description=__doc__)
    parts = ("host", "addresses", "http", "rule")
    parser.add_argument(
        "--only", choices=parts, action="append",
        help="a part: a host alone, the records, a cloud over HTTP, or a rule's whole way; may be given several times",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="do little of each: whether it works, no figures to keep")
    options = parser.parse_args(arguments)
    wanted = set(options.only or parts)
    sizes = QUICK if options.quick else Sizes()

    def say(text: str) -> None:
        print(f"… {text}", file=sys.stderr, flush=True)

    found = Results()
    try:
        with tempfile.TemporaryDirectory(prefix="nv-bench-") as folder:
            Path(folder).chmod(0o711)  # the database's account has a folder inside
            measure(found, wanted, sizes, Path(folder), say)
    except BenchError as error:
        print(f"bin/bench: {error}", file=sys.stderr)
        return 1
    finally:
        rows = [*found.rows, *found.shares()]
        widths = [max((len(row[at]) for row in rows), default=0) for at in (0, 1)]
        for row in rows:
            print(f"{row.what:<{widths[0]}}  {row.measured:<{widths[1]}}  {row.goal}".rstrip())
    return 0


def measure(found: Results, wanted: set[str], sizes: Sizes, folder: Path, say: Callable[[str], None]) -> None:
    """Measure the requested parts. Raises BenchError; results until then are kept."""
    root = os.geteuid() == 0
    if "host" in wanted and root:
        say("one host")
        on_a_host(found, sizes)
    if "addresses" in wanted:
        addresses(found, folder, sizes, say)
    if "http" in wanted:
        say("ports and rules over HTTP")
        over_http(found, folder / "http", sizes)
    if "rule" in wanted and root:
        say("a rule's whole way")
        spent = rules.measure(folder / "rule", sizes.changes)
        found.rows.append(judged("POST of a rule → packets pass", spent, EFFECT_WITHIN))
    for part in sorted(wanted & {"host", "rule"}):
        if not root:
            found.rows.append(Row(part, "not measured: it needs root"))
