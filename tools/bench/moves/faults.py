"""Moves of several guests with faults at random moments: afterwards each server has one guest, on the host of its
record, which has lost nothing that it had written.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import signal
import time
from collections import Counter as Counts
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from tools.bench.cloud import BenchError, Client, Cloud, RefusedError
from tools.bench.moves.cloud import CLEAN_WITHIN, ECHO, LATER, WAITS, Mover
from tools.bench.moves.counter import COUNTS, Watch
from tools.bench.moves.modes import KEEP_THEIR_DISK
from tools.bench.moves.outside import Line
from tools.bench.volumes.guest import until
from up.processes import children, command_line
from up.switch import processes_in

GUESTS = 3
"""Guests that are moved at the same time."""
SETTLES_WITHIN = 600.0
"""Seconds; more than NOVELLA_LIVE_MIGRATION_TIMEOUT, after which a migration whose host was off ends."""
ANSWERS_WITHIN = 120.0
STRIKES_WITHIN = 5.0
"""Seconds from the requests for moves to the fault."""
LONGEST = 8.0
"""Seconds that a cable is pulled or an agent stopped."""
SERVERS = "/compute/v2.1/servers"
SERVICES = "/compute/v2.1/os-services"


def patient(call: Callable[[], Any], client: Client, what: str, within: float = CLEAN_WITHIN) -> Any:
    """Repeat a call until a web process answers it. Raises BenchError: it is refused, or never answered."""
    deadline = time.monotonic() + within
    while True:
        try:
            return call()
        except RefusedError as error:
            final = error.status < 409 or (error.status == 409 and LATER not in str(error))
            if final or time.monotonic() > deadline:
                raise
        except (OSError, http.client.HTTPException) as error:
            client.close()  # the next request opens another connection
            if time.monotonic() > deadline:
                raise BenchError(f"{what}: {error}") from error
        time.sleep(0.5)


@dataclass
class Guest:
    """One server and its results."""

    server: str
    address: str
    watch: Watch
    confirms: bool = True
    outcome: str = ""


@dataclass
class Outcomes:
    """The results of all rounds."""

    counts: Counts[str] = field(default_factory=Counts)
    """Outcome of moves → number of moves."""
    faults: Counts[str] = field(default_factory=Counts)
    confirmed: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def moves(self) -> int:
        return sum(self.counts.values())


class Faults:
    """The faults of hosts and services of one cloud."""

    def __init__(self, cloud: Cloud, mover: Mover) -> None:
        self._cloud, self._mover, self._switch = cloud, mover, mover.switch
        self.kinds: dict[str, Callable[[int, float], None]] = {
            "no fault": lambda _host, _seconds: None,
            "kill an agent": lambda host, _: self._signal(f"--host host-{host} ", signal.SIGKILL),
            "stop an agent": self._stop_agent,
            "kill libvirt": self._kill_libvirt,
            "pull a cable": self._pull,
            "kill the workers": lambda _host, _seconds: self._signal("qworker", signal.SIGKILL),
            "kill the web": lambda _host, _seconds: self._signal("manage.py web", signal.SIGKILL),
        }

    def _signal(self, words: str, number: int) -> None:
        """Send a signal to a service with its processes, as soon as it runs."""

        def sent() -> bool:
            for pid in children(self._cloud.pid):
                if words in command_line(pid) + " ":
                    (os.killpg if "manage.py" in words or words == "qworker" else os.kill)(pid, number)
                    return True
            return False

        until(sent, f"{words} runs", SETTLES_WITHIN)

    def _stop_agent(self, host: int, seconds: float) -> None:
        self._signal(f"--host host-{host} ", signal.SIGSTOP)
        time.sleep(seconds)
        self._signal(f"--host host-{host} ", signal.SIGCONT)

    def _kill_libvirt(self, host: int, _: float) -> None:
        for pid in processes_in([self._switch.guests(host), self._switch.machine(host)]):
            if "libvirtd" in command_line(pid).partition(" ")[0]:
                os.kill(pid, signal.SIGKILL)

    def _pull(self, host: int, seconds: float) -> None:
        self._switch.cable(host, plugged=False)
        time.sleep(seconds)
        self._switch.cable(host)

    @contextlib.contextmanager
    def without_power(self, host: int) -> Iterator[None]:
        """Power a host off until the end of the block: bin/up starts its agent again after that."""
        os.kill(self._cloud.pid, signal.SIGSTOP)
        try:
            self._switch.power_off(host)
            yield
        finally:
            os.kill(self._cloud.pid, signal.SIGCONT)


class Rounds:
    """Rounds of moves: guests move, a fault happens during the moves, and each server is awaited in use again."""

    def __init__(self, cloud: Cloud, mover: Mover, dice: random.Random, say: Callable[[str], None]) -> None:
        self._cloud, self._mover, self._dice, self._say = cloud, mover, dice, say
        self._faults = Faults(cloud, mover)
        self.outcomes = Outcomes()

    def run(self, moves: int) -> None:
        """Move guests until there were so many moves. Raises BenchError."""
        with ExitStack() as stack:
            guests = []
            for number in range(GUESTS):
                server = self._mover.launch(f"moved-{number}", WAITS + COUNTS)
                watch = stack.enter_context(Watch(self._cloud.data, server))
                guests.append(Guest(server, self._mover.floating_ip(server), watch))
            kinds = [*self._faults.kinds, *([] if self._mover.mode == "volume" else ["power off"] * 2)]
            try:
                while self.outcomes.moves < moves:
                    self._round(guests, self._dice.choice(kinds))
            finally:
                self.outcomes.confirmed = sum(guest.watch.counter.confirmed for guest in guests)
        for guest in guests:
            self._delete(guest)

    def _round(self, guests: list[Guest], fault: str) -> None:
        hosts = sorted(self._services())
        began, host = time.monotonic(), self._dice.randrange(len(hosts)) + 1
        before = {guest.server: self._mover.host(guest.server) for guest in guests}
        for guest in guests:
            guest.confirms = self._dice.random() < 0.7
            guest.outcome = self._begin(guest, self._dice.choice(("live", "cold")))
        time.sleep(self._dice.uniform(0, STRIKES_WITHIN))
        if fault == "power off":
            self._power_off(guests, host)
        else:
            self._faults.kinds[fault](host, self._dice.uniform(1, LONGEST))
        for guest in guests:
            self._settle(guest)
        for guest in guests:
            moved = self._host(guest) != before[guest.server]
            self.outcomes.counts[f"{guest.outcome}, {'moved' if moved else 'stayed'}"] += 1
            self._verify(guest, fault)
            guest.watch.counter.may_return_to(None)
        self.outcomes.faults[fault] += 1
        ends = ", ".join(f"{guest.outcome} → {self._host(guest)}" for guest in guests)
        self._say(f"{self.outcomes.moves} moves; {fault} (host-{host}): {ends} [{time.monotonic() - began:.0f} s]")

    # ----- requests ---------------------------------------------------------------------------------------------------

    def _call(self, method: str, path: str, body: Any = None, within: float = CLEAN_WITHIN) -> Any:
        admin = self._mover.admin
        return patient(lambda: admin.call(method, path, body), admin, f"{method} {path}", within)

    def _act(self, guest: Guest, body: dict[str, Any], within: float = CLEAN_WITHIN) -> None:
        self._call("POST", f"{SERVERS}/{guest.server}/action", body, within)

    def _shown(self, guest: Guest) -> dict[str, Any]:
        found: dict[str, Any] = self._call("GET", f"{SERVERS}/{guest.server}")["server"]
        return found

    def _host(self, guest: Guest) -> str:
        return str(self._shown(guest)["OS-EXT-SRV-ATTR:host"])

    def _services(self) -> dict[str, dict[str, Any]]:
        rows = self._call("GET", f"{SERVICES}?binary=nova-compute")["services"]
        return {row["host"]: row for row in rows}

    def _begin(self, guest: Guest, kind: str) -> str:
        """Begin a move; return its kind. A guest that cannot be migrated live is migrated cold."""
        if kind == "live":
            with contextlib.suppress(RefusedError):
                self._act(guest, {"os-migrateLive": {"host": None, "block_migration": "auto"}})
                return kind
        guest.watch.counter.may_return_to(guest.watch.counter.last)
        try:
            self._act(guest, {"migrate": None})
        except RefusedError as error:
            self._say(str(error))
            return "refused"
        return "cold"

    def _power_off(self, guests: list[Guest], host: int) -> None:
        """Power a host off; an operator evacuates its servers before it is back."""
        name = f"host-{host}"
        with self._faults.without_power(host):
            self._force(name, down=True)
            for guest in guests:
                self._evacuate(guest, name)
        self._force(name, down=False)
        until(lambda: self._services()[name]["state"] == "up", f"{name} is back", SETTLES_WITHIN)

    def _force(self, name: str, *, down: bool) -> None:
        self._call("PUT", f"{SERVICES}/{self._services()[name]['id']}", {"forced_down": down})

    def _evacuate(self, guest: Guest, name: str) -> None:
        """Evacuate a server that is on a host, when its other task has ended; wait for the end. A server that waits for
        its confirmation, or whose move still knows both hosts, stays.
        """
        deadline = time.monotonic() + CLEAN_WITHIN
        while (row := self._shown(guest))["OS-EXT-SRV-ATTR:host"] == name and time.monotonic() < deadline:
            if row["OS-EXT-STS:task_state"] is None and row["status"] in {"ACTIVE", "SHUTOFF", "ERROR"}:
                with contextlib.suppress(RefusedError):
                    if self._mover.mode not in KEEP_THEIR_DISK:
                        guest.watch.counter.may_return_to(0)
                    self._mover.admin.call("POST", f"{SERVERS}/{guest.server}/action", {"evacuate": {}})
                    guest.outcome += ", evacuated"
                    break
            time.sleep(0.5)

    # ----- the end of a round -----------------------------------------------------------------------------------------

    def _settle(self, guest: Guest) -> None:
        """Wait until a server is in use, as its owner and an operator bring it there."""
        deadline = time.monotonic() + SETTLES_WITHIN
        while True:
            row = self._shown(guest)
            if row["OS-EXT-STS:task_state"] is None:
                if row["status"] == "ACTIVE":
                    return
                with contextlib.suppress(RefusedError):
                    self._next(guest, row)
            if time.monotonic() > deadline:
                task = row["OS-EXT-STS:task_state"]
                raise BenchError(f"{guest.server} stays {row['status']} {task}: {row.get('fault', {})}")
            time.sleep(0.5)

    def _next(self, guest: Guest, row: dict[str, Any]) -> None:
        """Confirm, revert, start or reset a server, as its state requires."""
        if row["status"] == "VERIFY_RESIZE":
            self._act(guest, {"confirmResize" if guest.confirms else "revertResize": None}, 0)
            if not guest.confirms and "reverted" not in guest.outcome:
                guest.outcome += ", reverted"
        elif row["status"] == "SHUTOFF":
            self._act(guest, {"os-start": None}, 0)
        elif row["status"] == "ERROR":
            guest.outcome += ", in ERROR"
            self._act(guest, {"os-resetState": {"state": "active"}}, 0)
            self._act(guest, {"reboot": {"type": "HARD"}}, 0)

    def _verify(self, guest: Guest, fault: str) -> None:
        """Look for lost writes, second and missing guests, and leftovers."""
        wrong, counter = self.outcomes.wrong, guest.watch.counter
        seen = counter.confirmed

        def counts() -> bool:
            self._settle(guest)  # the portal may learn later that the guest is off
            return counter.confirmed > seen

        try:
            until(counts, f"{guest.server} counts", ANSWERS_WITHIN)
            line = Line(self._mover.switch.world, (guest.address, ECHO))
            line.check()
            line.close()
        except (BenchError, OSError) as error:
            panicked = self._mover.panicked(guest.server)
            wrong.append(f"{fault}: {guest.outcome}: {'the guest panicked' if panicked else error}")
            self._act(guest, {"reboot": {"type": "HARD"}})
            self._settle(guest)
        if rest := self._mover.leftovers(guest.server):
            wrong.append(f"{fault}: {guest.outcome}: {rest}")
        if (number := self._mover.guests(guest.server)) != 1:
            wrong.append(f"{fault}: {guest.outcome}: {number} guests")
        wrong += [f"{fault}: {guest.outcome}: {each}" for each in counter.wrong]
        counter.wrong.clear()

    def _delete(self, guest: Guest) -> None:
        self._call("DELETE", f"{SERVERS}/{guest.server}")

        def gone() -> bool:
            try:
                self._shown(guest)
            except RefusedError as error:
                return error.status == 404
            return False

        until(gone, f"{guest.server} is deleted", SETTLES_WITHIN)
