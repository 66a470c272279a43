"""``bin/bench network``: measures networking and prints a table. Being slow is no failure."""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from uuid import UUID

import postgresql
from bench import shell
from bench.cloud import BenchError, Client, Cloud
from up.programs import CHECKOUT, tool

PORTS = 1_000
LISTS, CHANGES = 15, 20
TOLD_WITHIN = 10.0
_FILL = (
    "from uuid import UUID, uuid4; from provisioning.network.services import allocate, create_network, create_subnet;"
    "from provisioning.quotas.services.limits import set_limit; project = UUID({project!r});"
    "[set_limit(project, resource, -1) for resource in ('ports', 'fixed_ips', 'security_group_rules')];"
    "network = create_network(project, 'many'); create_subnet(network, '10.77.0.0/16');"
    "[allocate(uuid4(), project, [{{'network_id': str(network.id)}}], [], '', 'nova') for _ in range({many})]"
)


def spread(values: Sequence[float]) -> str:
    """Return the median and the 95th percentile as text."""
    ordered = sorted(values)
    p95 = ordered[round(0.95 * (len(ordered) - 1))]
    return f"median {statistics.median(ordered) * 1000:.1f} ms, p95 {p95 * 1000:.1f} ms (n={len(ordered)})"


def on_a_host() -> list[tuple[str, str, str]]:
    """Measure one host in namespaces of its own."""
    command = ["unshare", "--net", "--mount", "--", *tool("bench.networking.host")]
    script = 'mount -t tmpfs tmpfs /run && mkdir -p /run/netns && exec "$@"'
    command[4:4] = ["sh", "-c", script, "sh"]
    environment = {"PYTHONPATH": str(CHECKOUT), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        raise BenchError(f"on a host: {done.stderr.strip()[-700:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    return [
        ("filters of 100 guests with 20 rules each, as a whole", spread(found["whole"]), "260 ms by the program nft"),
        ("one rule of one of them", spread(found["one"]), ""),
        ("filters of one more guest beside these 100", spread(found["beside"]), ""),
        ("the same beside one guest", spread(found["beside one"]), ""),
        ("host's network for a launch", spread(found["more"]), "under 40 ms"),
        ("the same, the first guest on a network", spread(found["first"]), "under 40 ms"),
        ("rule at the host → its effect on packets", spread(found["effect"]), "p95 under 300 ms with the next"),
    ]


def addresses(folder: Path, say: Callable[[str], None]) -> list[tuple[str, str, str]]:
    """Measure the allocation of addresses on both databases."""
    rows = []
    for name in ("SQLite", "PostgreSQL"):
        say(f"addresses on {name}")
        data, server = folder / name, None
        try:
            if name == "PostgreSQL":
                server = postgresql.Server(folder / "server")
                server.start()
                os.environ["NOVELLA_DATABASE_URL"] = server.url
            shell.migrate(data)
            code = "from bench.networking import addresses; addresses.main()"
            found = shell.answer(shell.run(data, code))
        except postgresql.PostgresqlError as error:
            rows.append((f"addresses, {name}", str(error), ""))
            continue
        finally:
            os.environ.pop("NOVELLA_DATABASE_URL", None)
            if server is not None:
                server.stop(keep=False)
        (whole,) = found["whole"]
        many = len(found["each"])
        rows += [
            (f"port and address of a launch, {name}", spread(found["alone"]), ""),
            (f"{many} of them, 20 at a time, {name}", f"{many / whole:.0f} a second; {spread(found['each'])}", ""),
        ]
    return rows


def over_http(folder: Path) -> list[tuple[str, str, str]]:
    """Measure a cloud of simulated hosts over HTTP."""
    cloud = Cloud(folder, 1)
    try:
        cloud.up()
        cloud.manage("shell", "--verbosity", "0", "--command", _FILL.format(project=cloud.project("demo"), many=PORTS))
        client = Client(cloud)
        lists = []
        for _ in range(LISTS + 1):
            began = time.perf_counter()
            found = len(client.call("GET", "/network/v2.0/ports")["ports"])
            lists.append(time.perf_counter() - began)
            if found < PORTS:
                raise BenchError(f"{found} ports")
        server = client.launch("filtered")
        told = told_after(cloud, client, server)
        return [
            (f"list of {PORTS:,} ports, HTTP", spread(lists[1:]), ""),
            ("POST of a rule → the host has it, HTTP", spread(told), ""),
        ]
    finally:
        cloud.clean()


def told_after(cloud: Cloud, client: Client, server: str) -> list[float]:
    """Return the seconds from the request for a rule to the host's word that it is in place."""
    deadline = time.monotonic() + TOLD_WITHIN
    while client.call("GET", f"/compute/v2.1/servers/{server}")["server"]["status"] != "ACTIVE":
        if time.monotonic() > deadline:
            raise BenchError(client.fault(server))
        time.sleep(0.1)
    (group,) = client.call("GET", "/network/v2.0/security-groups?name=default")["security_groups"]
    found = []
    with closing(sqlite3.connect(f"file:{cloud.portal / 'db.sqlite3'}?mode=ro", uri=True)) as database:

        def told() -> tuple[str, bool]:
            row = database.execute(
                "SELECT digest, command_id FROM network_delivery WHERE kind = 'security_group' AND subject_id = ?",
                (UUID(group["id"]).hex,),
            ).fetchone()
            return (row[0], row[1] is None) if row else ("", False)

        for number in range(CHANGES):
            until(lambda: told()[1])
            time.sleep(1)
            before, _ = told()
            rule = {"security_group_id": group["id"], "direction": "ingress", "protocol": "tcp"}
            rule |= {"port_range_min": 2000 + number, "port_range_max": 2000 + number}
            began = time.perf_counter()
            client.call("POST", "/network/v2.0/security-group-rules", {"security_group_rule": rule})
            until(lambda before=before: told()[1] and told()[0] != before)  # type: ignore[misc]
            found.append(time.perf_counter() - began)
    return found


def until(question: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TOLD_WITHIN
    while not question():
        if time.monotonic() > deadline:
            raise BenchError("the host was not told of a rule")
        time.sleep(0.002)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bin/bench network", description=__doc__)
    parts = ("host", "addresses", "http")
    parser.add_argument("--only", choices=parts, help="one part: a host alone, the records, or a cloud over HTTP")
    only = parser.parse_args(arguments).only
    wanted = {only} if only else set(parts)

    def say(text: str) -> None:
        print(f"… {text}", file=sys.stderr, flush=True)

    rows: list[tuple[str, str, str]] = []
    try:
        with tempfile.TemporaryDirectory(prefix="nv-bench-") as folder:
            Path(folder).chmod(0o711)  # the database's account has a folder inside
            if "host" in wanted and os.geteuid() == 0:
                say("one host")
                rows += on_a_host()
            elif "host" in wanted:
                rows.append(("one host", "not measured: it needs root", ""))
            if "addresses" in wanted:
                rows += addresses(Path(folder), say)
            if "http" in wanted:
                say("ports and rules over HTTP")
                rows += over_http(Path(folder) / "http")
    except BenchError as error:
        print(f"bin/bench: {error}", file=sys.stderr)
        return 1
    finally:
        widths = [max((len(row[at]) for row in rows), default=0) for at in (0, 1)]
        for what, measured, goal in rows:
            print(f"{what:<{widths[0]}}  {measured:<{widths[1]}}  {goal}".rstrip())
    return 0
