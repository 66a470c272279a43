"""One chaos run: starts a cloud, clients and faults, waits until the cloud is at rest, checks it, and deletes
everything.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from django.db import DatabaseError, connections
from django.db.models import Count

from provisioning.compute.models import Instance, Migration
from provisioning.doctor.finding import Finding
from tools.chaos.checks import checks, logs, outcomes, story
from tools.chaos.checks.journals import Hypervisors, Seen
from tools.chaos.checks.wrongs import wrong
from tools.chaos.clients import ec2, moves, networks, operations, users, volumes
from tools.chaos.clients.operations import COMPUTE
from tools.chaos.clients.world import World
from tools.chaos.clouds.cloud import Cloud
from tools.chaos.clouds.database import Database
from tools.chaos.faults.faults import FaultRunner, Targets
from tools.chaos.faults.proxy import Proxy
from tools.chaos.faults.restoring import Restoring
from tools.chaos.packets.breaking import REPAIRED_WITHIN
from tools.chaos.packets.hosts import Hosts
from tools.chaos.packets.traffic import Traffic
from tools.chaos.plan import FAULTS_OF_HOSTS, LOSSES, PROJECTS, Plan

T = TypeVar("T")

SETTLES_WITHIN = 150.0
"""Seconds until a cloud without faults is at rest: the sum of the longest deadlines."""
GONE_WITHIN = 120.0
SMALL_SETTLES_WITHIN = 60.0
"""Seconds for which the client of a small run waits for a server: each of its few operations should begin."""
LOOK_EVERY = 0.5
SECONDS_PER_OPERATION = 1.5
SECONDS_PER_LOSS = 400.0
"""Seconds for each loss of records: stopping and starting the cloud, and the operator's work."""
LEAST_SECONDS = 120.0
LAST_SECONDS = 5.0
"""Seconds before the timeout in which all errors are reported even if operations are still running."""
STORIES = 6
"""The number of servers whose events are reported when there are errors."""


class Log:
    """Writes lines with the seconds since the start to a file and, if ``loud``, to the terminal."""

    def __init__(self, path: Path, *, loud: bool) -> None:
        self._file = path.open("a", buffering=1)
        self._began = time.monotonic()
        self._loud = loud
        self._lock = threading.Lock()

    def __call__(self, line: str) -> None:
        clock = time.strftime("%H:%M:%S")
        with self._lock:
            text = f"{time.monotonic() - self._began:7.2f} {clock} {line}"
            self._file.write(text + "\n")
            if self._loud:
                print(text, flush=True)

    def say(self, line: str) -> None:
        """Write a line to the file and to the terminal."""
        if not self._loud:
            print(line, flush=True)
        self(line)


@dataclass
class Run:
    """A run; ``result`` returns the errors."""

    plan: Plan
    cloud: Cloud
    database: Database
    proxy: Proxy
    log: Log
    wrongs: list[Finding] = field(default_factory=list)
    hypervisors: Hypervisors = field(init=False)

    def result(self) -> list[Finding]:
        """Carry out the run, and return the errors. The cloud is always stopped at the end."""
        self.hypervisors = Hypervisors(self.cloud.folder / "hosts", self.cloud.hosts, self.database.silence)
        self.cloud.log = self.log
        try:
            self._run()
        finally:
            self.database.run_in(lambda work: work())
            self.hypervisors.stop()
            self.cloud.stop()
            self.proxy.stop()
            self.cloud.remove_hosts()
        return self.wrongs

    def _run(self) -> None:
        began = time.monotonic()
        self.cloud.prepare()
        self.proxy.start()
        self.cloud.wait_until_ready()
        self.hypervisors.start()
        self.database.run_in(self.cloud.do)
        world = self._stepping(lambda: users.create(self.cloud.port, self.cloud.seeded, f"c{self.plan.seed}", self.log))
        world.settles_within = SMALL_SETTLES_WITHIN if self.cloud.small else world.settles_within
        if self.cloud.wired is not None:
            self.cloud.wired.remember()
        self.log.say(f"The cloud is ready after {time.monotonic() - began:.1f} s; the chaos begins.")
        self._chaos(world)
        if not self.wrongs:
            self._rest(world)
        for words, count in logs.unexpected(self.cloud.folder / "log").most_common():
            self.log.say(f"In the logs, {count} times: {words}")
        if not self.wrongs and self.cloud.wired is not None:
            self._send(world, self.cloud.wired)
        if not self.wrongs:
            self._delete(world)

    def _stepping(self, work: Callable[[], T]) -> T:
        """Call ``work`` in a thread while the supervisor keeps running."""
        done: list[T] = []
        failed: list[Exception] = []

        def run() -> None:
            try:
                done.append(work())
            except Exception as error:  # noqa: BLE001 - raised again below
                failed.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        while thread.is_alive():
            self.cloud.step()
        if failed:
            raise failed[0]
        return done[0]

    # ----- chaos ----------------------------------------------------------------------------------------------------

    def _chaos(self, world: World) -> None:
        began, stopping = time.monotonic(), threading.Event()
        count = len(self.plan.operations)
        limit = LEAST_SECONDS + SECONDS_PER_OPERATION * count
        limit += SECONDS_PER_LOSS * sum(fault.kind in LOSSES for fault in self.plan.faults)
        restoring = Restoring(self.cloud, self.hypervisors, world, self.log)
        faults = FaultRunner(self.plan, world, Targets(self.cloud, self.proxy, world, self.log), restoring, stopping)
        lanes = operations.start(world, self.plan, stopping)
        faults.start()
        shown = 0
        while any(lane.is_alive() for lane in lanes):
            self.cloud.step()
            if self.cloud.interrupted or time.monotonic() - began > limit:
                stopping.set()
                world.troubles.append(f"the operations did not end within {limit:.0f} s")
                break
            if world.begun // 100 > shown:
                shown = world.begun // 100
                self.log.say(f"{shown * 100} operations, {faults.made} faults, {time.monotonic() - began:.0f} s")
        faults.wait(lambda: any(lane.is_alive() for lane in lanes), self.cloud.step)
        self.proxy.calm()
        self.log.say(
            f"{world.begun} operations and {faults.made} faults in {time.monotonic() - began:.0f} s"
            f" ({self._tally(world)}; frames {self.proxy.done}); waiting for rest."
        )
        self.wrongs += [wrong("", trouble) for trouble in world.troubles]
        self._tell(restoring.wrongs)

    @staticmethod
    def _tally(world: World) -> str:
        answers = [outcome.answer for outcome in world.outcomes]
        yes, no = sum(answer.accepted for answer in answers), sum(answer.refused for answer in answers)
        return f"{yes} accepted, {no} refused, {len(answers) - yes - no} without a sure answer"

    # ----- rest -----------------------------------------------------------------------------------------------------

    def _rest(self, world: World) -> None:
        """Wait until the cloud is at rest without errors, or ``SETTLES_WITHIN`` has passed, and log the errors. Then do
        it again when all moves are confirmed or reverted.
        """
        began = time.monotonic()
        self._stepping(lambda: moves.end_maintenance(world))
        wrongs = self._until_consistent(checks.settled, SETTLES_WITHIN)
        if not wrongs:
            self._stepping(lambda: moves.end_resizes(world))
            wrongs = self._until_consistent(checks.settled, SETTLES_WITHIN)
        wrongs += outcomes.check(world)
        self.log.say(f"At rest after {time.monotonic() - began:.1f} s: {_shape()}; {_moves()}.")
        self._tell(wrongs)

    def _until_consistent(self, check: Callable[[Seen], list[Finding]], within: float) -> list[Finding]:
        deadline = time.monotonic() + within
        wrongs = [wrong("", "The cloud never came to rest.")]
        while time.monotonic() < deadline and not self.cloud.interrupted:
            until = time.monotonic() + LOOK_EVERY
            while time.monotonic() < until:
                self.cloud.step()
            try:
                found = list(checks.under_way())
                if not found or deadline - time.monotonic() < LAST_SECONDS:
                    found = check(self.hypervisors.seen())
            except DatabaseError as error:
                found = [wrong("", f"The database does not answer: {error}")]
            finally:
                connections.close_all()
            if found and list(map(str, found)) != list(map(str, wrongs)):
                self.log(f"not yet: {_line(found[0])} {f'and {len(found) - 1} more' if len(found) > 1 else ''}")
            wrongs = found
            if not wrongs:
                break
        return wrongs

    def _tell(self, wrongs: Sequence[Finding]) -> None:
        """Log errors, with the events of the servers concerned."""
        self.wrongs += wrongs
        for found in wrongs:
            self.log.say(f"WRONG: {_line(found)}")
        concerned = (
            found.subject.removeprefix("instance ") for found in wrongs if found.subject.startswith("instance ")
        )
        for instance in list(dict.fromkeys(concerned))[:STORIES]:
            self.log.say(f"Events of {instance}:")
            for line in story.story(self.hypervisors.seen(), instance):
                self.log.say(f"    {line}")

    def _send(self, world: World, hosts: Hosts) -> None:
        """Send packets between the running guests, and compare the packets that arrive with the records."""
        world.operator.patient = True
        self._stepping(lambda: networks.attach_to_routed_networks(world))
        self._stepping(lambda: networks.associate_floating_ips(world))
        if any(fault.kind in FAULTS_OF_HOSTS for fault in self.plan.faults):
            self._stepping(lambda: time.sleep(REPAIRED_WITHIN))
        self._tell(self._until_consistent(checks.settled, SETTLES_WITHIN))
        began, chance = time.monotonic(), random.Random(f"packets {self.plan.seed}")  # noqa: S311 - to be the same again
        traffic = Traffic(world.operator, hosts, self.hypervisors.seen(), chance, self.log.say)
        wrongs = self._stepping(traffic.wrongs)
        self.log.say(f"The packets took {time.monotonic() - began:.1f} s.")
        if wrongs:
            hosts.describe(self.cloud.folder / "packets")
        self._tell(wrongs)

    # ----- the end --------------------------------------------------------------------------------------------------

    def _delete(self, world: World) -> None:
        """Delete all resources of the users, with the users' own requests."""
        began = time.monotonic()
        self._stepping(lambda: _delete_all(world))
        wrongs = self._until_consistent(checks.empty, GONE_WITHIN)
        deadline = time.monotonic() + GONE_WITHIN
        while not wrongs and time.monotonic() < deadline and self._stepping(lambda: volumes.delete_all(world)):
            wrongs = self._until_consistent(lambda _: list(checks.under_way()), GONE_WITHIN)
        if not wrongs:
            wrongs = self._until_consistent(checks.without_volumes, GONE_WITHIN)
        if not wrongs:
            self._stepping(lambda: networks.delete_all(ec2.delete_interfaces(world)))
            wrongs = self._until_consistent(self._without_networks, GONE_WITHIN)
        self.log.say(f"Everything was deleted after {time.monotonic() - began:.1f} s.")
        self._tell(wrongs)

    def _without_networks(self, seen: Seen) -> list[Finding]:
        found = checks.without_networks(seen)
        if not found and self.cloud.wired is not None:
            found = [wrong(f"host {name}", sentence) for name, sentence in self.cloud.wired.left()]
        return found


def _delete_all(world: World) -> World:
    for number in range(PROJECTS):
        client = world.clients[number]
        listed = client.call("GET", f"{COMPUTE}/servers")
        for server in listed.body["servers"] if listed.accepted else []:
            client.call("POST", f"{COMPUTE}/servers/{server['id']}/action", {"unlock": None})
            client.call("DELETE", f"{COMPUTE}/servers/{server['id']}")
        images = client.call("GET", "/image/v2/images?visibility=private")
        for image in images.body["images"] if images.accepted else []:
            client.call("DELETE", f"/image/v2/images/{image['id']}")
    return world


def _line(found: Finding) -> str:
    return f"{found.check}: {found.subject}: {found.sentence}" if found.subject else found.sentence


def _moves() -> str:
    """Return the number of migrations of each type and status as text."""
    kinds = Migration.objects.values_list("migration_type", "status").annotate(Count("id"))
    found = [f"{count} {kind} {status}" for kind, status, count in kinds.order_by("migration_type", "status")]
    return ", ".join(found) or "no migrations"


def _shape() -> str:
    """Return the number of servers in each state as text."""
    states = Instance.objects.values_list("vm_state").annotate(Count("id")).order_by("vm_state")
    return ", ".join(f"{count} {state}" for state, count in states) or "no servers"
