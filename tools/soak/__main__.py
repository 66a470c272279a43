"""bin/soak: runs a separate cloud on simulated hosts, and reports whether memory, files, rows and disk usage grow."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tools.bench.cloud import BenchError, Cloud
from tools.soak import measure
from tools.soak.trend import Floor, Trend, trend
from tools.soak.work import Work

HOSTS = 3
RETENTION = timedelta(seconds=60)
"""The retention of completed records during the run: each sample also runs manage.py purge."""
BY_RULE = {
    "hosts_hostcommand": "finished commands are kept for a day",
    "notifications_notification": "for NOVELLA_NOTIFICATION_RETENTION",
    "events_event": "for NOVELLA_EVENT_RETENTION",
    "django_session": "until a session ends",
    "identity_session": "until a session ends",
    "sqlite_sequence": "",
}
"""Tables that keep growing during a run, because their retention is longer than the run → the rule."""
FLOORS = {
    "memory": Floor(0.05, 4.0),
    "files": Floor(0.05, 6.0),
    "threads": Floor(0.1, 6.0),
    "rows": Floor(0.05, 30.0),
    "disk": Floor(0.1, 8.0),
}
"""First word of a number's name → the rise that still counts as flat: memory and disk in MiB, the others as counts."""
Samples = dict[str, list[tuple[float, float]]]


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bin/soak",
        description="Launch, restart and delete servers, read console logs, open sockets and pages and upload images,"
        " in a cloud of its own on simulated hosts, and print what it takes of the machine. At the end each number is"
        " judged by its slope over the second half. The exit status is 0 only when nothing grows and nothing failed.",
    )
    parser.add_argument("--seconds", type=int, default=3600, metavar="N", help="how long to work (3,600)")
    parser.add_argument("--every", type=float, metavar="N", help="seconds between two samples (a sixtieth of the time)")
    parser.add_argument("--pause", type=float, default=1.0, metavar="N", help="seconds between rounds of each work (1)")
    parser.add_argument("--web-processes", type=int, default=1, metavar="N", help="processes that serve web's port (1)")
    given = parser.parse_args()
    if not 5 <= given.seconds <= 7 * 86_400:
        parser.error("--seconds takes a number from 5 to 604800")
    given.every = given.every or max(given.seconds / 60, 1.0)
    if not 0 < given.every <= given.seconds or given.pause < 0:
        parser.error("--every takes a part of the time, --pause no negative number")
    return given


def look(cloud: Cloud) -> dict[str, float]:
    """Return name → current value: ``memory web``, ``files web``, ``rows compute_instance``, ``disk images`` …"""
    found: dict[str, float] = {}
    for service, pids in measure.processes(cloud.pid).items():
        found[f"memory {service}"] = sum(measure.pss_mib(pid) for pid in pids)
        found[f"files {service}"] = sum(measure.count_of(pid, "fd") for pid in pids)
        found[f"threads {service}"] = sum(measure.count_of(pid, "task") for pid in pids)
        found[f"processes {service}"] = len(pids)
    found |= {f"rows {table}": many for table, many in measure.rows(cloud.data / "portal/db.sqlite3").items()}
    return found | {f"disk {part}": mib for part, mib in measure.disk_mib(cloud.data).items()}


def line(seconds: float, now: Mapping[str, float], work: Work) -> str:
    """Return a sample as one line of text."""
    services = [name.removeprefix("memory ") for name in now if name.startswith("memory ")]
    each = (
        f"{service} {now[f'memory {service}']:.1f} MiB/{now[f'files {service}']:.0f} files"
        f"/{now[f'processes {service}']:.0f} processes"
        for service in services
    )
    rows = sum(many for name, many in now.items() if name.startswith("rows "))
    disk = sum(mib for name, mib in now.items() if name.startswith("disk "))
    done = ", ".join(f"{many} {kind}" for kind, many in sorted(work.done.items()))
    failed = sum(work.failed.values())
    return f"{seconds:6.0f} s  {'  '.join(each)}  rows {rows:.0f}  disk {disk:.1f} MiB  ({done}; {failed} failed)"


def purge(cloud: Cloud) -> None:
    cloud.manage("purge", "--before", f"{datetime.now(UTC) - RETENTION:%Y-%m-%dT%H:%M:%S}")


def judge(samples: Samples) -> dict[str, Trend]:
    """Return name → trend, for the numbers that have limits in ``FLOORS``."""
    return {
        name: trend(values, FLOORS[name.partition(" ")[0]])
        for name, values in samples.items()
        if name.partition(" ")[0] in FLOORS
    }


def report(trends: Mapping[str, Trend]) -> bool:
    """Print the trends, without tables that do not grow. Return whether every number that grows is a table in
    ``BY_RULE``.
    """
    clean = True
    print(f"\n{'second half':<44} {'begins':>10} {'ends':>10}")
    for name, found in trends.items():
        table = name.removeprefix("rows ")
        rule = BY_RULE.get(table) if name.startswith("rows ") else None
        if name.startswith("rows ") and found.flat is not False:
            continue
        grows = found.flat is False and rule is None
        clean = clean and not grows
        print(f"{name:<44} {found.first:>10.1f} {found.last:>10.1f}  {found.verdict if rule is None else rule}")
    print("Tables that are not named are flat." if clean else "Something grows.")
    return clean


def run(cloud: Cloud, given: argparse.Namespace) -> bool:
    cloud.up()
    work, samples, began = Work(cloud, given.pause), Samples(), time.monotonic()
    work.start()
    while (spent := time.monotonic() - began) < given.seconds:
        time.sleep(min(given.every, given.seconds - spent))
        purge(cloud)
        now, moment = look(cloud), time.monotonic() - began
        for name, value in now.items():
            samples.setdefault(name, []).append((moment, value))
        print(line(moment, now, work), flush=True)
    work.stop()
    clean = report(judge(samples))
    for kind, many in sorted(work.failed.items()):
        print(f"{many} of {many + work.done[kind]} rounds of {kind} failed; the last one: {work.reasons[kind]}")
    return clean and not work.failed


def main() -> int:
    given = options()
    with tempfile.TemporaryDirectory(prefix="nv-soak-") as folder:
        cloud = Cloud(
            Path(folder) / "cloud", HOSTS, NOVELLA_WEB_PROCESSES=str(given.web_processes), NOVELLA_EVENT_RETENTION="600"
        )
        try:
            return 0 if run(cloud, given) else 1
        except BenchError as error:
            print(f"bin/soak: {error}", file=sys.stderr)
            return 1
        finally:
            cloud.clean()


if __name__ == "__main__":
    sys.exit(main())
