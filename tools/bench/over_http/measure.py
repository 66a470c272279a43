"""The measurements: the requests, how often each is sent, and how many are sent simultaneously."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from tools.bench.cloud import ACTIVE_WITHIN, BenchError
from tools.bench.over_http.connection import Caller, Request, request
from tools.bench.over_http.machine import spent
from tools.bench.over_http.target import Target

SENDERS = 8
POLL = 0.010
"""Seconds between two requests for a server's state."""
AT_ONCE = 20
"""Number of servers that one POST creates."""
BURST = 50
_STATUS = re.compile(rb'"status":\s*"(ACTIVE|ERROR)"')

TOKEN, PASSWORD = "GET /v3/auth/tokens", "POST /v3/auth/tokens, by password"
FLAVORS, IMAGES = "GET /flavors/detail", "GET /v2/images"
PAGE, DETAIL, MANY = "GET /servers?limit=20", "GET /servers/detail?limit=50", "GET /servers/detail?limit=500"
ACCEPTED, ACTIVE, GONE = "POST /servers, answered", "POST /servers → ACTIVE", "DELETE → gone"
WHOLE, THERE = "POST → gone, network new there", "POST → gone, network there"
"""Complete launches: ``WHOLE`` with a network that the host receives only for this server, ``THERE`` with a network
that the listed servers use as well.
"""
DELETED = "DELETE → gone, all at once"
"""Seconds for each server when all listed servers are deleted with one request after the other."""
TOGETHER = "token checks", FLAVORS, IMAGES, PAGE
LAUNCHES, MULTI = f"burst of {BURST} launches", f"one POST of {AT_ONCE} servers"


@dataclass
class Series:
    """The results of one cloud in one row. ``values`` are seconds of single requests, or requests per
    second of rounds.
    """

    values: list[float] = field(default_factory=list)
    count: int = 0
    """Number of requests or servers that have used the processor time in ``used``."""
    used: dict[str, float] = field(default_factory=dict)
    """Part of the cloud → processor seconds."""


@dataclass(frozen=True)
class Counts:
    """The numbers of rounds, requests and servers."""

    rounds: int = 5
    requests: int = 20
    """Requests of a round with one request at a time. With eight at a time, each sender sends this number."""
    launches: int = 4
    """Launches of a round, one at a time."""
    servers: int = 500
    """Servers that exist while servers are listed."""


class Measurement:
    """Measures several clouds in turns, so that other work on the machine affects all of them."""

    def __init__(self, targets: Sequence[Target], counts: Counts, say: Callable[[str], None]) -> None:
        self._targets = targets
        self._counts = counts
        self._say = say
        self._callers = {id(target): [target.caller() for _ in range(SENDERS)] for target in targets}
        self.alone: dict[tuple[str, int], Series] = {}
        """Rows with one request at a time, by name of the row and number of the cloud."""
        self.together: dict[tuple[str, int], Series] = {}
        """Rows with eight requests at a time."""

    def run(self) -> None:
        """Measure everything.  Raises BenchError."""
        try:
            self._tokens()
            self._launches()
            self._many_launches()
            self._say(f"{self._counts.servers} servers to list")
            for at, target in enumerate(self._targets):
                self._fill(at, target)
            self._lists()
            self._launches_there()
            self._delete_all()
        finally:
            self._say("deleting the servers")
            for target in self._targets:
                target.delete_ours(self._callers[id(target)][0])
            for callers in self._callers.values():
                for caller in callers:
                    caller.close()

    def _turns(self, rounds: int) -> Iterator[tuple[int, int, Target, list[Caller]]]:
        """Yield the number of the round, the number of the cloud, the cloud and its callers. Each round begins with
        another cloud.
        """
        for number in range(rounds):
            for step in range(len(self._targets)):
                at = (number + step) % len(self._targets)
                yield number, at, self._targets[at], self._callers[id(self._targets[at])]

    @contextmanager
    def _counted(self, series: Series, target: Target, count: int) -> Iterator[None]:
        """Add the processor time that the cloud uses in the block to a row."""
        before = target.used()
        yield
        for part, seconds in spent(before, target.used()).items():
            series.used[part] = series.used.get(part, 0.0) + seconds
        series.count += count

    # ----- single requests ------------------------------------------------------------------------------------------

    def _tokens(self) -> None:
        self._say("tokens")
        self._ask_alone(TOKEN, lambda target: target.check())
        self._ask_alone(PASSWORD, lambda target: target.sign_in())
        self._ask_together(TOGETHER[0], lambda target: target.check())

    def _lists(self) -> None:
        self._say("lists")
        urls: dict[str, Callable[[Target], str]] = {
            FLAVORS: lambda target: f"{target.endpoints.compute}/flavors/detail",
            IMAGES: lambda target: f"{target.endpoints.image}/v2/images",
            PAGE: lambda target: f"{target.endpoints.compute}/servers?limit=20",
            DETAIL: lambda target: f"{target.endpoints.compute}/servers/detail?limit=50",
            MANY: lambda target: f"{target.endpoints.compute}/servers/detail?limit=500",
        }
        for row, url in urls.items():
            self._ask_alone(row, lambda target, url=url: target.get(url(target)))  # type: ignore[misc]
        for row in TOGETHER[1:]:
            self._ask_together(row, lambda target, url=urls[row]: target.get(url(target)))  # type: ignore[misc]

    def _ask_alone(self, row: str, make: Callable[[Target], Request | None]) -> None:
        for number, at, target, callers in self._turns(self._counts.rounds):
            what, series = make(target), self.alone.setdefault((row, at), Series())
            if what is None:
                continue
            if number == 0:
                callers[0].ask(what)  # the first fills caches
            with self._counted(series, target, self._counts.requests):
                series.values += [_timed(callers[0], what) for _ in range(self._counts.requests)]

    def _ask_together(self, row: str, make: Callable[[Target], Request]) -> None:
        for number, at, target, callers in self._turns(self._counts.rounds):
            what, series = make(target), self.together.setdefault((row, at), Series())
            if number == 0:
                _each(callers, lambda caller, what=what: caller.ask(what))  # type: ignore[misc]
            count = self._counts.requests

            def several(caller: Caller, what: Request = what, count: int = count) -> None:
                for _ in range(count):
                    caller.ask(what)

            with self._counted(series, target, count * SENDERS):
                began = time.perf_counter()
                _each(callers, several)
                series.values.append(count * SENDERS / (time.perf_counter() - began))

    # ----- launches -------------------------------------------------------------------------------------------------

    def _launches(self) -> None:
        self._say("launches, one after the other")
        for number, at, target, callers in self._turns(self._counts.rounds):
            if number == 0:
                server = _launch(callers[0], target.server("first"))  # not counted: it fills caches
                _poll(callers[0], target, server, _is_active)
                _delete(callers[0], target, server)
            for launch in range(self._counts.launches):
                self._launch_once(at, target, callers[0], f"single-{number}-{launch}")

    def _launches_there(self) -> None:
        self._say("launches among them")
        for number, at, target, callers in self._turns(self._counts.rounds):
            for launch in range(self._counts.launches):
                series, began = self.alone.setdefault((THERE, at), Series()), time.perf_counter()
                with self._counted(series, target, 1):
                    server = _launch(callers[0], target.server(f"among-{number}-{launch}"))
                    _poll(callers[0], target, server, _is_active)
                    _delete(callers[0], target, server)
                series.values.append(time.perf_counter() - began)

    def _delete_all(self) -> None:
        self._say("deleting the servers")
        for at, target in enumerate(self._targets):
            series, began = self.alone.setdefault((DELETED, at), Series()), time.perf_counter()
            with self._counted(series, target, self._counts.servers):
                target.delete_ours(self._callers[id(target)][0])
            series.values.append((time.perf_counter() - began) / self._counts.servers)

    def _launch_once(self, at: int, target: Target, caller: Caller, name: str) -> None:
        whole, began = self.alone.setdefault((WHOLE, at), Series()), time.perf_counter()
        with self._counted(whole, target, 1):
            self._launch_and_delete(at, target, caller, name)
        whole.values.append(time.perf_counter() - began)

    def _launch_and_delete(self, at: int, target: Target, caller: Caller, name: str) -> None:
        rows = [self.alone.setdefault((row, at), Series()) for row in (ACCEPTED, ACTIVE, GONE)]
        what = target.server(name)
        with self._counted(rows[1], target, 1):
            began = time.perf_counter()
            with self._counted(rows[0], target, 1):
                server = _launch(caller, what)
                rows[0].values.append(time.perf_counter() - began)
            rows[1].values.append(_poll(caller, target, server, _is_active) - began)
        with self._counted(rows[2], target, 1):
            rows[2].values.append(_delete(caller, target, server))

    def _many_launches(self) -> None:
        self._say(f"{BURST} simultaneous launches, and {AT_ONCE} servers by one POST")
        for number, at, target, callers in self._turns(max(1, min(3, self._counts.rounds))):
            series = self.together.setdefault((LAUNCHES, at), Series())
            with self._counted(series, target, BURST):
                began = time.perf_counter()
                shares = [range(sender, BURST, SENDERS) for sender in range(SENDERS)]
                requests = [[target.server(f"burst-{number}-{each}") for each in share] for share in shares]
                with ThreadPoolExecutor(SENDERS) as pool:
                    made = list(pool.map(_launch_all, callers, requests))
                active = _wait_for_all(callers[0], target)
                series.values.append(BURST / (active - began))
            _confirm(callers[0], target, sum(len(share) for share in made))
            target.delete_ours(callers[0])
            series = self.together.setdefault((MULTI, at), Series())
            with self._counted(series, target, AT_ONCE):
                series.values.append(AT_ONCE / _launch_together(callers[0], target, f"multi-{number}", AT_ONCE))
            _confirm(callers[0], target, AT_ONCE)
            target.delete_ours(callers[0])

    def _fill(self, at: int, target: Target) -> None:
        """Create the listed servers."""
        caller = self._callers[id(target)][0]
        for first in range(0, self._counts.servers, AT_ONCE):
            count = min(AT_ONCE, self._counts.servers - first)
            _launch_together(caller, target, f"listed-{at}-{first}", count)
        _confirm(caller, target, self._counts.servers)


def _timed(caller: Caller, what: Request) -> float:
    began = time.perf_counter()
    caller.ask(what)
    return time.perf_counter() - began


def _each(callers: Sequence[Caller], work: Callable[[Caller], object]) -> None:
    with ThreadPoolExecutor(len(callers)) as pool:
        list(pool.map(work, callers))


def _launch(caller: Caller, what: Request) -> str:
    return str(json.loads(caller.ask(what).body)["server"]["id"])


def _launch_all(caller: Caller, requests: Sequence[Request]) -> list[str]:
    return [_launch(caller, what) for what in requests]


def _launch_together(caller: Caller, target: Target, name: str, count: int) -> float:
    """Request several servers with one call; return the seconds until all are active."""
    what = target.server(name, count)
    began = time.perf_counter()
    caller.ask(what)
    return _wait_for_all(caller, target) - began


def _url(target: Target, server: str) -> str:
    return f"{target.endpoints.compute}/servers/{server}"


def _is_active(status: int, body: bytes) -> bool:
    found = _STATUS.search(body)
    if status >= 400 or (found is not None and found[1] == b"ERROR"):
        raise BenchError(f"a server does not become ACTIVE: {status} {body[:600].decode(errors='replace')}")
    return found is not None


def _is_gone(status: int, body: bytes) -> bool:
    return status == 404


def _is_empty(status: int, body: bytes) -> bool:
    if status >= 400:
        raise BenchError(f"servers are not listed: {status} {body[:600].decode(errors='replace')}")
    return not json.loads(body)["servers"]


def _poll(caller: Caller, target: Target, server: str, reached: Callable[[int, bytes], bool]) -> float:
    return _poll_url(caller, target, _url(target, server), reached)


def _poll_url(caller: Caller, target: Target, url: str, reached: Callable[[int, bytes], bool]) -> float:
    """Send a request every POLL seconds until ``reached`` is true; return the time of that answer. Raises
    BenchError.
    """
    what = target.get(url)
    deadline = time.perf_counter() + ACTIVE_WITHIN
    while (asked := time.perf_counter()) < deadline:
        answer = caller.send(what)
        if reached(answer.status, answer.body):
            return time.perf_counter()
        time.sleep(max(0.0, asked + POLL - time.perf_counter()))
    raise BenchError(f"{target.label}: waited {ACTIVE_WITHIN:.0f} s for {url}")


def _delete(caller: Caller, target: Target, server: str) -> float:
    """Delete a server; return the seconds until it is not found."""
    what = request("DELETE", _url(target, server), {"X-Auth-Token": target.token})
    began = time.perf_counter()
    caller.ask(what)
    return _poll(caller, target, server, _is_gone) - began


def _wait_for_all(caller: Caller, target: Target) -> float:
    """Return the time from which no server of this run is being built, by polling a list of at most one such server."""
    url = f"{target.endpoints.compute}/servers?status=BUILD&name={target.prefix}&limit=1"
    return _poll_url(caller, target, url, _is_empty)


def _confirm(caller: Caller, target: Target, count: int) -> None:
    """Raise BenchError unless ``count`` servers of this run are active."""
    url: str | None = f"{target.endpoints.compute}/servers?status=ACTIVE&name={target.prefix}&limit=500"
    found = 0
    while url:
        page = json.loads(caller.ask(target.get(url)).body)
        found += len(page["servers"])
        url = next((link["href"] for link in page.get("servers_links", []) if link["rel"] == "next"), None)
    if found != count:
        raise BenchError(f"{target.label}: {found} of {count} servers are ACTIVE")
