"""A complete chaos run, from its plan to its result."""

from __future__ import annotations

import argparse
import time
import traceback
from pathlib import Path

from tools.chaos.clients.client import UnreachableError
from tools.chaos.clients.users import UsersError
from tools.chaos.clouds.cloud import Cloud, CloudError
from tools.chaos.faults.proxy import Proxy
from tools.chaos.packets.hosts import PacketsError
from tools.chaos.plan import COPY, FALL_BEHIND, LANES, LOSE_PRIMARY, PUT_BACK, Plan, make
from tools.chaos.run import Log, Run
from tools.postgresql import PostgresqlError
from up.prepare import PreparationError

SWITCHES = ("packets", "small", "volumes", "ec2", "moves", "restore", "failover")


def _plan(given: argparse.Namespace) -> Plan:
    losses = (COPY, PUT_BACK) * given.restore + (FALL_BEHIND, LOSE_PRIMARY) * given.failover
    more = {name: getattr(given, name) for name in ("packets", "volumes", "ec2", "moves")}
    return make(given.seed, given.operations, losses=losses, clients=1 if given.small else LANES, **more)


def show(given: argparse.Namespace) -> bool:
    """Print the plan."""
    plan = _plan(given)
    faults = list(plan.faults)
    for operation in plan.operations:
        while faults and faults[0].at <= operation.number:
            fault = faults.pop(0)
            print(f"      fault {fault.number}: {fault}")
        print(f"{operation.number:5d} lane {operation.lane}: {operation}")
    return True


def run(given: argparse.Namespace, cloud: Cloud, folder: Path) -> bool:
    """Carry out the plan, and return whether there were no errors."""
    plan, database = _plan(given), cloud.database
    log = Log(folder / "chaos.log", loud=given.loud)
    proxy = Proxy(cloud.proxy_port, cloud.port, plan.seed)
    began, wrongs, trouble = time.monotonic(), [], ""
    log.say(f"Seed {plan.seed}: {given.operations} operations, {len(plan.faults)} faults, {database.name}, {folder}")
    try:
        database.start()
        wrongs = Run(plan, cloud, database, proxy, log).result()
    except (CloudError, PostgresqlError, UsersError, PreparationError, UnreachableError, PacketsError) as error:
        trouble = str(error)
    except KeyboardInterrupt:
        trouble = "interrupted"
    except Exception as error:  # noqa: BLE001 - the seed is reported after any exception
        trouble = f"the run itself failed: {type(error).__name__}: {error}"
        log(traceback.format_exc())
    clean = not wrongs and not trouble
    database.stop(keep=given.keep or not clean)
    spent = f"{time.monotonic() - began:.0f} s"
    if clean:
        log.say(f"Clean: seed {plan.seed} on {database.name} in {spent}.")
        return True
    reason = trouble or f"{len(wrongs)} things are wrong"
    again = f"bin/chaos --operations {given.operations} --seed {plan.seed} --database {database.name}"
    again += "".join([f" --hosts {given.hosts}", *(f" --{name}" for name in SWITCHES if getattr(given, name))])
    log.say(f"Not clean after {spent}: {reason}.\nSeed {plan.seed}; again: {again}\nKept: {folder}")
    return False
