"""bin/chaos: random operations on a simulated cloud while parts of it fail; then checks that nothing was lost."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import django

import tools.chaos.clouds.database
from tools.chaos.clouds.cloud import Cloud
from tools.chaos.packets.hosts import lacks
from up.health import free_port

MOST_OPERATIONS = 100_000
MOST_HOSTS = 100
DEFAULT_OPERATIONS = 1_000
DEFAULT_HOSTS = 6
HOSTS_WITH_NETWORKS, MOST_WITH_NETWORKS = 2, 10


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bin/chaos",
        description="Launch, change and delete servers at random on simulated hosts of a cloud of its own, while"
        " processes are killed and stopped, the database is disconnected and messages get lost. Then check that"
        " nothing was lost. The exit status is 0 only when nothing is wrong.",
    )
    parser.add_argument(
        "--operations", type=int, default=DEFAULT_OPERATIONS, metavar="N", help="requests to make (1,000)"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="decides operations and faults (1)")
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite", help="(sqlite)")
    parser.add_argument(
        "--hosts",
        type=int,
        metavar="H",
        help="simulated hosts (6, with packets 2), besides two on which builds fail",
    )
    parser.add_argument(
        "--packets",
        action="store_true",
        help="give the hosts real networks, and send packets between their guests (needs root)",
    )
    parser.add_argument(
        "--small",
        action="store_true",
        help="one client, web process and worker group, and no hosts on which builds fail",
    )
    parser.add_argument("--restore", action="store_true", help="put a copy of the database back once")
    parser.add_argument(
        "--failover", action="store_true", help="lose the primary of PostgreSQL once, with what its standby did not get"
    )
    parser.add_argument("--volumes", action="store_true", help="ask more of volumes")
    parser.add_argument("--ec2", action="store_true", help="ask more by the EC2 API")
    parser.add_argument("--moves", action="store_true", help="move servers more often")
    parser.add_argument("--keep", action="store_true", help="keep the folder also when nothing is wrong")
    parser.add_argument("--loud", action="store_true", help="show every operation and every fault")
    parser.add_argument("--plan", action="store_true", help="only show what would be done")
    given = parser.parse_args()
    if not 1 <= given.operations <= MOST_OPERATIONS:
        parser.error(f"--operations takes a number from 1 to {MOST_OPERATIONS}")
    if given.hosts is None:
        given.hosts = HOSTS_WITH_NETWORKS if given.packets else DEFAULT_HOSTS
    most = MOST_WITH_NETWORKS if given.packets else MOST_HOSTS
    if not 1 <= given.hosts <= most:
        parser.error(f"--hosts takes a number from 1 to {most}")
    if given.failover and given.database != "postgresql":
        parser.error("--failover takes --database postgresql")
    if given.packets and not given.plan and (lacking := lacks()):
        parser.error(lacking)
    return given


def main() -> int:
    given = options()
    folder = Path(tempfile.mkdtemp(prefix="nv-chaos-"))
    os.environ["SQLITE_TMPDIR"] = str(folder)  # a killed process may leave temporary files
    beside = Path(tempfile.mkdtemp(prefix="nv-chaos-pg-")) if given.database == "postgresql" else folder
    database = tools.chaos.clouds.database.make(given.database, folder / "cloud", beside, standby=given.failover)
    ports = (free_port(), free_port())
    cloud = Cloud(folder / "cloud", database, given.hosts, ports, packets=given.packets, small=given.small)
    cloud.claim()
    django.setup()
    whole = import_module("tools.chaos.whole")  # the plan reads the cloud's actions, which need Django
    clean: bool = whole.show(given) if given.plan else whole.run(given, cloud, folder)
    if clean and not given.keep:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(beside, ignore_errors=True)
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
