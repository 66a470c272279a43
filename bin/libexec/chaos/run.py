"""One chaos run: starts a cloud, clients and faults, waits for rest, checks, and deletes everything."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import chaos.books
from chaos import checks, logs, operations, outcomes, story, users
from chaos.books import Books
from chaos.checks import Wrong
from chaos.cloud import Cloud, doctor
from chaos.database import Database
from chaos.faults import FaultRunner, Targets
from chaos.journals import Hypervisors, plain
from chaos.operations import COMPUTE, World
from chaos.plan import PROJECTS, Plan
from chaos.proxy import Proxy

SETTLES_WITHIN = 150.0
"""Seconds until a cloud without faults is at rest: the longest deadlines, one behind the other."""
GONE_WITHIN = 120.0
LOOK_EVERY = 0.5
SECONDS_PER_OPERATION = 1.5
LEAST_SECONDS = 120.0
STORIES = 6
"""Servers whose events are told when something is wrong."""

GUESTS = "guests"
"""The doctor's check of servers without a guest."""
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Log:
    """Writes lines with the seconds since the start to a file and, if asked for, to the terminal."""

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
        """Write a line and show it in any case."""
        if not self._loud:
            print(line, flush=True)
        self(line)


@dataclass
class Run:
    """A run; ``result`` returns what is wrong, empty when nothing is."""

    plan: Plan
    cloud: Cloud
    database: Database
    proxy: Proxy
    log: Log
    wrongs: list[Wrong] = field(default_factory=list)
    hypervisors: Hypervisors = field(init=False)

    def result(self) -> list[Wrong]:
        """Carry out the run; the cloud is stopped at the end in any case."""
        self.hypervisors = Hypervisors(self.cloud.folder / "hosts", self.cloud.hosts)
        self.cloud.log = self.log
        try:
            self._run()
        finally:
            self.database.in_main = lambda work: work()
            self.hypervisors.stop()
            self.cloud.stop()
            self.proxy.stop()
        return self.wrongs

    def _run(self) -> None:
        began = time.monotonic()
        self.cloud.prepare()
        self.proxy.start()
        self.cloud.wait_until_ready()
        self.hypervisors.start()
        self.database.in_main = self.cloud.do
        world = self._stepping(lambda: users.create(self.cloud.port, self.cloud.seeded, f"c{self.plan.seed}", self.log))
        self.log.say(f"The cloud is ready after {time.monotonic() - began:.1f} s; the chaos begins.")
        self._chaos(world)
        self._rest(world)
        for words, count in logs.unexpected(self.cloud.folder / "log").most_common():
            self.log.say(f"In the logs, {count} times: {words}")
        if not self.wrongs:
            self._ask_the_doctor("at rest")
        if not self.wrongs:
            self._delete(world)
        if not self.wrongs:
            self._ask_the_doctor("at the end")

    def _stepping(self, work: Callable[[], World]) -> World:
        """Call ``work`` in a thread while the supervisor goes on."""
        done: list[World] = []
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
        faults = FaultRunner(self.plan, world, Targets(self.cloud, self.proxy, self.log))
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
        self.wrongs += [Wrong(trouble) for trouble in world.troubles]

    @staticmethod
    def _tally(world: World) -> str:
        answers = [outcome.answer for outcome in world.outcomes]
        yes, no = sum(answer.accepted for answer in answers), sum(answer.refused for answer in answers)
        return f"{yes} accepted, {no} refused, {len(answers) - yes - no} without a sure answer"

    # ----- rest -----------------------------------------------------------------------------------------------------

    def _rest(self, world: World) -> None:
        """Wait until nothing is wrong any more, or until that cannot be expected."""
        began = time.monotonic()
        wrongs = self._until_nothing_is_wrong(checks.settled, SETTLES_WITHIN)
        books = self._read()
        wrongs += outcomes.check(books, world)
        wrongs += [
            Wrong(f"{each}: an internal error.", each.server) for each in outcomes.internal_errors(world.outcomes)
        ]
        self.log.say(f"At rest after {time.monotonic() - began:.1f} s: {_shape(books)}.")
        self._tell(wrongs, books)

    def _read(self) -> Books:
        return chaos.books.read(self.database, self.hypervisors)

    def _until_nothing_is_wrong(self, check: Callable[[Books], list[Wrong]], within: float) -> list[Wrong]:
        deadline = time.monotonic() + within
        wrongs = [Wrong("the cloud never came to rest")]
        while time.monotonic() < deadline and not self.cloud.interrupted:
            until = time.monotonic() + LOOK_EVERY
            while time.monotonic() < until:
                self.cloud.step()
            if chaos.books.unsettled(self.database) and deadline - time.monotonic() > 5:
                continue
            found = check(self._read())
            if found and list(map(str, found)) != list(map(str, wrongs)):
                self.log(f"not yet: {found[0]} {f'and {len(found) - 1} more' if len(found) > 1 else ''}")
            wrongs = found
            if not wrongs:
                break
        return wrongs

    def _tell(self, wrongs: Sequence[Wrong], books: Books) -> None:
        """Log what is wrong, with the history of the servers concerned."""
        self.wrongs += wrongs
        for wrong in wrongs:
            self.log.say(f"WRONG: {wrong}")
        told = list(dict.fromkeys(wrong.instance for wrong in wrongs if wrong.instance))[:STORIES]
        for instance in told:
            self.log.say(f"What happened to {instance}:")
            for line in story.story(books, instance):
                self.log.say(f"    {line}")

    # ----- the end --------------------------------------------------------------------------------------------------

    def _delete(self, world: World) -> None:
        """Delete all servers and their images, as their users."""
        began = time.monotonic()
        self._stepping(lambda: _delete_all(world))
        wrongs = self._until_nothing_is_wrong(lambda books: [*checks.empty(books), *checks.settled(books)], GONE_WITHIN)
        self.log.say(f"Everything was deleted after {time.monotonic() - began:.1f} s.")
        self._tell(wrongs, self._read())

    def _ask_the_doctor(self, when: str) -> None:
        found, books = doctor(self.cloud), self._read()
        expected = checks.called_active_and_never_built(books)
        wrongs = [
            Wrong(f"doctor: {sentence}", _instance_in(sentence))
            for check, sentence in found
            if not (check == GUESTS and _instance_in(sentence) in expected)
        ]
        self.log.say(
            f"The doctor finds {len(wrongs)} things wrong {when}, and {len(found) - len(wrongs)} made by hand."
        )
        self._tell(wrongs, books)


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


def _instance_in(sentence: str) -> str:
    """Return the first id in a sentence without hyphens, empty when there is none."""
    found = _ID.search(sentence)
    return plain(found[0]) if found else ""


def _shape(books: Books) -> str:
    """Return how many servers are in which state, in words."""
    states: dict[str, int] = {}
    for row in books.instances:
        states[row["vm_state"]] = states.get(row["vm_state"], 0) + 1
    return ", ".join(f"{count} {state}" for state, count in sorted(states.items())) or "no servers"
