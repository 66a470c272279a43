"""Carries out the faults of a plan while the clients work."""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from tools.chaos.clients import moves
from tools.chaos.clients.world import World
from tools.chaos.clouds.cloud import Cloud
from tools.chaos.clouds.database import Database, Row
from tools.chaos.faults.proxy import Proxy
from tools.chaos.faults.restoring import Restoring
from tools.chaos.packets import breaking
from tools.chaos.packets.hosts import Hosts
from tools.chaos.plan import LOSE_PRIMARY, LOSSES, PUT_BACK, Fault, Plan

AT_ONCE = 2
"""Maximum number of simultaneous faults."""
ALONE = (PUT_BACK, LOSE_PRIMARY)
"""Faults during which no other fault happens."""
TOPICS = ("scheduler",)
"""Queues whose messages are deleted, copied and delayed: the reaper repeats the work of lost messages in these queues.
"""


@dataclass(frozen=True)
class Targets:
    """The cloud and the proxy, in which faults happen, the operator who answers them, and the log."""

    cloud: Cloud
    proxy: Proxy
    world: World
    note: Callable[[str], None]


class FaultRunner:
    """Threads that carry out the faults of a plan; each fault starts when its operation has begun."""

    def __init__(
        self, plan: Plan, world: World, targets: Targets, restoring: Restoring, stopping: threading.Event
    ) -> None:
        """Queue the faults; they are carried out after ``start``.

        ``stopping`` is set if a loss of records fails, or if errors are found after it.
        """
        self._plan, self._world, self._targets, self._restoring = plan, world, targets, restoring
        self._stopping = stopping
        self._waiting: queue.SimpleQueue[Fault] = queue.SimpleQueue()
        for fault in plan.faults:
            self._waiting.put(fault)
        self._turn = threading.Lock()
        self._changed = threading.Condition()
        self._going = 0
        self._threads: list[threading.Thread] = []
        self.made = 0

    def start(self) -> None:
        for number in range(AT_ONCE):
            thread = threading.Thread(target=self._run, name=f"fault {number}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def wait(self, working: Callable[[], bool], step: Callable[[], None]) -> None:
        """Call ``step`` until every fault has ended. When ``working`` returns False, faults that are still queued are
        cancelled.
        """
        while any(thread.is_alive() for thread in self._threads):
            step()
            if not working():
                self._leave_out()

    def _leave_out(self) -> None:
        """Cancel the queued faults. Losses of records stay in the queue, because they are the purpose of a run."""
        kept = []
        with contextlib.suppress(queue.Empty):
            while True:
                kept += [fault for fault in (self._waiting.get_nowait(),) if fault.kind in LOSSES]
        for fault in kept * (not self._stopping.is_set()):
            self._waiting.put(fault)

    def _run(self) -> None:
        while True:
            with self._turn:
                try:
                    fault = self._waiting.get_nowait()
                except queue.Empty:
                    return
                while self._world.begun < fault.at:
                    over = self._waiting.empty() and self._world.begun >= len(self._plan.operations)
                    if over or self._stopping.is_set():
                        return
                    time.sleep(0.02)
                if fault.kind in ALONE:
                    with self._changed:
                        self._changed.wait_for(lambda: not self._going)
                    self._lose(fault)
                    continue
                with self._changed:
                    self._going += 1
            try:
                self._make(fault)
            finally:
                with self._changed:
                    self._going -= 1
                    self._changed.notify_all()

    def _lose(self, fault: Fault) -> None:
        """Lose records. If that fails, or errors are found afterwards, the clients are stopped."""
        before = len(self._world.troubles)
        self._make(fault)
        if self._restoring.wrongs or len(self._world.troubles) > before:
            self._stopping.set()
        self._world.gate.open()

    def _make(self, fault: Fault) -> None:
        began = time.monotonic()
        try:
            make = self._restoring.make if fault.kind in LOSSES else partial(MAKE[fault.kind], self._targets)
            how = make(fault)
        except Exception as error:  # noqa: BLE001 - the database may be down when its rows are to be changed
            how = f"not done: {type(error).__name__}: {str(error).strip()[:200]}"
            if fault.kind in LOSSES:
                self._world.troubles.append(f"{fault}: {how}")
        self.made += 1
        self._targets.note(f"fault {fault.number} {fault}: {how} [{time.monotonic() - began:.1f} s]")


def _pick(names: list[str], fault: Fault) -> str:
    if not names:
        raise LookupError("there is none")
    return names[fault.target % len(names)]


# ----- processes ------------------------------------------------------------------------------------------------------


def _with_several(targets: Targets) -> list[str]:
    """Return the programs with several processes: if one process is killed or stopped, the other processes continue."""
    return [*targets.cloud.names("worker"), *targets.cloud.names("web")]


def _kill_process(targets: Targets, fault: Fault) -> str:
    name = _pick(_with_several(targets), fault)
    return f"process {targets.cloud.one_process(name, fault.target >> 4, signal.SIGKILL)} of {name}"


def _stop_process(targets: Targets, fault: Fault) -> str:
    name = _pick(_with_several(targets), fault)
    pid = targets.cloud.one_process(name, fault.target >> 4, signal.SIGSTOP)
    time.sleep(fault.seconds)
    targets.cloud.go_on(name)
    return f"process {pid} of {name}"


def _kill(kind: str) -> Callable[[Targets, Fault], str]:
    def make(targets: Targets, fault: Fault) -> str:
        name = _pick(targets.cloud.names(kind), fault)
        targets.cloud.kill(name)
        return name

    return make


def _stop(kind: str) -> Callable[[Targets, Fault], str]:
    def make(targets: Targets, fault: Fault) -> str:
        name = _pick(targets.cloud.names(kind), fault)
        targets.cloud.stop_program(name)
        time.sleep(fault.seconds)
        targets.cloud.go_on(name)
        return name

    return make


def _kill_everything(targets: Targets, fault: Fault) -> str:
    targets.cloud.kill_everything()
    return "every process"


# ----- the database ---------------------------------------------------------------------------------------------------


def _lock(targets: Targets, fault: Fault) -> str:
    targets.cloud.database.lock(fault.seconds)
    return "writes were blocked"


def _away(targets: Targets, fault: Fault) -> str:
    return targets.cloud.database.away(fault.seconds, fault.target)


Run = Callable[..., list[Row]]
"""A function that runs an SQL statement with parameters."""


def _on_queue(mangle: Callable[[Run, list[int], Fault, Database], None]) -> Callable[[Targets, Fault], str]:
    """Return a fault that stops the workers until messages have queued up, changes the messages that no worker has
    claimed, and resumes the workers.
    """

    def make(targets: Targets, fault: Fault) -> str:
        groups = targets.cloud.names("worker")
        for name in groups:
            targets.cloud.stop_program(name)
        found: list[int] = []
        database = targets.cloud.database
        try:
            time.sleep(fault.seconds)

            def work(run: Run) -> None:
                topics = ", ".join(f"'{topic}'" for topic in TOPICS)
                rows = run(
                    f"SELECT q.id FROM django_q_ormq q LEFT JOIN jobs_jobrun j ON j.message_id = q.id"  # noqa: S608
                    f" WHERE q.key IN ({topics}) AND (j.message_id IS NULL OR j.worker = '') ORDER BY q.id"
                )
                found.extend(row["id"] for row in rows)
                mangle(run, found, fault, database)

            database.change(work)
        finally:
            for name in groups:
                targets.cloud.go_on(name)
        return f"{len(found)} messages"

    return make


def _delete(run: Run, numbers: list[int], fault: Fault, database: Database) -> None:
    for number in numbers:
        run("DELETE FROM django_q_ormq WHERE id = ?", number)
        run("DELETE FROM jobs_jobrun WHERE message_id = ?", number)


def _copy(run: Run, numbers: list[int], fault: Fault, database: Database) -> None:
    free = database.moment(datetime(2000, 1, 1, tzinfo=UTC))
    for number in numbers * 2:
        run(
            "INSERT INTO django_q_ormq (key, payload, lock) SELECT key, payload, ? FROM django_q_ormq WHERE id = ?",
            free,
            number,
        )


def _delay(run: Run, numbers: list[int], fault: Fault, database: Database) -> None:
    until = database.moment(datetime.now(UTC) + timedelta(seconds=3 + fault.target % 10))
    for number in numbers:
        run("UPDATE django_q_ormq SET lock = ? WHERE id = ?", until, number)


def _lose_wakes(targets: Targets, fault: Fault) -> str:
    targets.cloud.database.lose_wakes(fault.seconds)
    return "wake-ups were lost"


def _wake(targets: Targets, fault: Fault) -> str:
    for _ in range(10):
        targets.cloud.database.wake(5)
        time.sleep(fault.seconds / 10)
    return "all processes were woken"


# ----- links ----------------------------------------------------------------------------------------------------------


def _cut(targets: Targets, fault: Fault) -> str:
    host = _pick(targets.proxy.hosts(), fault)
    targets.proxy.cut(host)
    return host


def _cut_all(targets: Targets, fault: Fault) -> str:
    targets.proxy.cut()
    return "all hosts"


def _stall(targets: Targets, fault: Fault) -> str:
    host = _pick(targets.proxy.hosts(), fault)
    targets.proxy.stall(host, fault.seconds)
    return host


def _swallow(targets: Targets, fault: Fault) -> str:
    host, way = _pick(targets.proxy.hosts(), fault), ("up", "down", "both")[(fault.target >> 4) % 3]
    targets.proxy.swallow(host, way)
    time.sleep(fault.seconds)
    targets.proxy.cut(host)
    return f"{way} at {host}"


def _mangle(what: str) -> Callable[[Targets, Fault], str]:
    def make(targets: Targets, fault: Fault) -> str:
        before = sum(targets.proxy.done.values())
        targets.proxy.mangle(what, fault.seconds)
        time.sleep(fault.seconds)
        return f"{sum(targets.proxy.done.values()) - before} frames"

    return make


# ----- moves and hosts ------------------------------------------------------------------------------------------------


def _cut_migrations(targets: Targets, fault: Fault) -> str:
    targets.proxy.cut_moves(fault.seconds)
    time.sleep(fault.seconds)
    return "connections between agents were cut"


def _stall_migrations(targets: Targets, fault: Fault) -> str:
    targets.proxy.stall_moves(fault.seconds)
    time.sleep(fault.seconds)
    return "connections between agents stood still"


def _power_off(targets: Targets, fault: Fault) -> str:
    """Power off the hosts of an agent; an operator evacuates their servers; then the hosts come back with the guests
    that they had.
    """
    agents = targets.cloud.agents()
    name = _pick([*agents], fault)
    hosts = agents[name]
    targets.cloud.power_off(name)
    try:
        moves.fence(targets.world, hosts)
        time.sleep(fault.seconds / 2)
        how = moves.evacuate_all(targets.world, hosts)
        time.sleep(fault.seconds / 2)
    finally:
        moves.unfence(targets.world, hosts)
        targets.cloud.power_on(name)
    return f"{', '.join(hosts)}: {how}"


# ----- the hosts' networks --------------------------------------------------------------------------------------------


def _on_hosts(work: Callable[[Hosts, int, float], str]) -> Callable[[Targets, Fault], str]:
    def make(targets: Targets, fault: Fault) -> str:
        if targets.cloud.wired is None:
            raise LookupError("the hosts have no networks")
        return work(targets.cloud.wired, fault.target, fault.seconds)

    return make


MAKE: dict[str, Callable[[Targets, Fault], str]] = {
    "kill a worker process": _kill_process,
    "kill a worker group": _kill("worker"),
    "kill the web": _kill("web"),
    "kill an agent": _kill("agent"),
    "kill everything": _kill_everything,
    "stop a worker process": _stop_process,
    "stop a worker group": _stop("worker"),
    "stop the web": _stop("web"),
    "stop an agent": _stop("agent"),
    "lock the database": _lock,
    "disconnect the database": _away,
    "delete queue messages": _on_queue(_delete),
    "copy queue messages": _on_queue(_copy),
    "delay queue messages": _on_queue(_delay),
    "cut a link": _cut,
    "cut all links": _cut_all,
    "stall a link": _stall,
    "swallow frames, then cut": _swallow,
    "double frames": _mangle("double"),
    "delay frames": _mangle("delay"),
    "reorder commands": _mangle("reorder"),
    "lose wake-ups": _lose_wakes,
    "wake for nothing": _wake,
    "power off hosts": _power_off,
    "cut migrations": _cut_migrations,
    "stall migrations": _stall_migrations,
    "pull a cable": _on_hosts(breaking.pull_a_cable),
    "kill a DHCP server": _on_hosts(breaking.kill_a_server),
    "delete a bridge": _on_hosts(breaking.delete_a_bridge),
    "delete a filter": _on_hosts(breaking.delete_a_filter),
}
