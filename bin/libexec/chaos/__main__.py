"""bin/chaos: random operations on a simulated cloud while parts of it fail; then checks that nothing was lost."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

import chaos.database
import chaos.plan
from bench.cloud import free_port
from chaos.client import UnreachableError
from chaos.cloud import Cloud, CloudError
from chaos.database import DatabaseError
from chaos.proxy import Proxy
from chaos.run import Log, Run
from chaos.users import UsersError
from up.prepare import PreparationError

MOST_OPERATIONS = 100_000
MOST_HOSTS = 100
DEFAULT_OPERATIONS = 1_000
DEFAULT_HOSTS = 6


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bin/chaos",
        description="Launch, change and delete servers at random on simulated hosts of a cloud of its own, while"
        " processes are killed and stopped, the database goes away and messages get lost. Then check that"
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
        default=DEFAULT_HOSTS,
        metavar="H",
        help="simulated hosts (6), besides two on which builds fail",
    )
    parser.add_argument("--keep", action="store_true", help="keep the folder also when nothing is wrong")
    parser.add_argument("--loud", action="store_true", help="show every operation and every fault")
    parser.add_argument("--plan", action="store_true", help="only show what would be done")
    given = parser.parse_args()
    if not 1 <= given.operations <= MOST_OPERATIONS:
        parser.error(f"--operations takes a number from 1 to {MOST_OPERATIONS}")
    if not 1 <= given.hosts <= MOST_HOSTS:
        parser.error(f"--hosts takes a number from 1 to {MOST_HOSTS}")
    return given


def show(plan: chaos.plan.Plan) -> None:
    faults = list(plan.faults)
    for operation in plan.operations:
        while faults and faults[0].at <= operation.number:
            fault = faults.pop(0)
            print(f"      fault {fault.number}: {fault}")
        print(f"{operation.number:5d} lane {operation.lane}: {operation}")


def run(given: argparse.Namespace, plan: chaos.plan.Plan) -> int:
    folder = Path(tempfile.mkdtemp(prefix="nv-chaos-"))
    beside = Path(tempfile.mkdtemp(prefix="nv-chaos-pg-")) if given.database == "postgresql" else folder
    data = folder / "cloud"
    database = chaos.database.make(given.database, data, beside)
    log = Log(folder / "chaos.log", loud=given.loud)
    port, proxy_port = free_port(), free_port()
    proxy = Proxy(proxy_port, port, plan.seed)
    cloud = Cloud(data, database, given.hosts, port, proxy_port)
    began, wrongs, trouble = time.monotonic(), [], ""
    log.say(f"Seed {plan.seed}: {given.operations} operations, {len(plan.faults)} faults, {database.name}, {folder}")
    try:
        database.start()
        wrongs = Run(plan, cloud, database, proxy, log).result()
    except (CloudError, DatabaseError, UsersError, PreparationError, UnreachableError) as error:
        trouble = str(error)
    except KeyboardInterrupt:
        trouble = "interrupted"
    except Exception as error:  # noqa: BLE001 - whatever it is, the seed is said
        trouble = f"the run itself failed: {type(error).__name__}: {error}"
        log(traceback.format_exc())
    clean = not wrongs and not trouble
    database.stop(keep=given.keep or not clean)
    spent = f"{time.monotonic() - began:.0f} s"
    if clean:
        log.say(f"Clean: seed {plan.seed} on {database.name} in {spent}.")
        if not given.keep:
            shutil.rmtree(folder, ignore_errors=True)
        return 0
    reason = trouble or f"{len(wrongs)} things are wrong"
    again = (
        f"bin/chaos --operations {given.operations} --seed {plan.seed} --database {database.name} --hosts {given.hosts}"
    )
    log.say(f"Not clean after {spent}: {reason}.\nSeed {plan.seed}; again: {again}\nKept: {folder}")
    return 1


def main() -> int:
    given = options()
    plan = chaos.plan.make(given.seed, given.operations)
    if given.plan:
        show(plan)
        return 0
    return run(given, plan)


if __name__ == "__main__":
    sys.exit(main())
