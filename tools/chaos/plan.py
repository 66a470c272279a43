"""The plan of a chaos run: operations and faults, determined only by the seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from provisioning.compute.states import VmState
from tools.chaos.calls import CALLS, STATES

LANES = 8
"""Number of clients that work at the same time; each launches its own servers."""
PROJECTS = 4
MOST_LIVE = 4
"""Maximum number of launches of one lane whose servers exist at the same time."""
FAULT_EVERY = 13
"""Average number of operations between two faults."""
FIRST_FAULT = 5

POLICIES = ("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity")


@dataclass(frozen=True)
class Operation:
    """A call of the public API, or several simultaneous calls.

    ``target`` is the number of the launch that created the server; ``index`` selects one of the launch's servers.
    """

    number: int
    lane: int
    kind: str
    target: int | None = None
    index: int = 0
    times: int = 1
    settled: bool = True
    """Whether to wait for a while until the server has no running task."""
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def project(self) -> int:
        """Return the number of the client's project."""
        return self.lane % PROJECTS

    def __str__(self) -> str:
        of = "" if self.target is None else f" of launch {self.target}[{self.index}]"
        more = " ".join(f"{name}={value}" for name, value in self.details.items())
        return f"{self.kind}{of}{f' x{self.times}' if self.times > 1 else ''} {more}".rstrip()


@dataclass(frozen=True)
class Fault:
    """A fault that begins with operation ``at``; ``target`` selects one of the processes, hosts or links that exist
    then.
    """

    number: int
    at: int
    kind: str
    target: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.kind} (pick {self.target}, {self.seconds:.1f} s)"


@dataclass(frozen=True)
class Plan:
    """All operations and faults of a run."""

    seed: int
    operations: tuple[Operation, ...]
    faults: tuple[Fault, ...]

    def lane(self, number: int) -> list[Operation]:
        """Return the operations of one client, in order."""
        return [operation for operation in self.operations if operation.lane == number]


FAULTS: Mapping[str, tuple[float, float]] = {
    "kill a worker process": (0, 0),
    "kill a worker group": (0, 0),
    "kill the web": (0, 0),
    "kill an agent": (0, 0),
    "kill everything": (0, 0),
    "stop a worker process": (1, 4),
    "stop a worker group": (1, 6),
    "stop the web": (0.5, 3),
    "stop an agent": (1, 9),
    "lock the database": (1, 3),
    "disconnect the database": (6, 8),
    "delete queue messages": (0.5, 1.5),
    "copy queue messages": (0.5, 1.5),
    "delay queue messages": (0.5, 1.5),
    "cut a link": (0, 0),
    "cut all links": (0, 0),
    "stall a link": (1, 8),
    "swallow frames, then cut": (0.5, 3),
    "double frames": (3, 8),
    "delay frames": (3, 8),
    "reorder commands": (3, 8),
    "lose wake-ups": (2, 6),
    "wake for nothing": (1, 2),
    "power off hosts": (5, 12),
    "cut migrations": (3, 8),
    "stall migrations": (2, 8),
}
"""Kinds of faults, with the shortest and longest duration of each in seconds."""
FAULTS_OF_HOSTS: Mapping[str, tuple[float, float]] = {
    "pull a cable": (1, 6),
    "kill a DHCP server": (0, 0),
    "delete a bridge": (0, 0),
    "delete a filter": (0, 0),
}
"""Faults of the hosts' networks, in runs that send packets."""
COPY, PUT_BACK = "copy the database", "put the copy back"
FALL_BEHIND, LOSE_PRIMARY = "hold the standby back", "lose the primary"
LOSSES: Mapping[str, tuple[int, int]] = {
    COPY: (30, 40),
    PUT_BACK: (60, 70),
    FALL_BEHIND: (75, 80),
    LOSE_PRIMARY: (90, 97),
}
"""Kinds of faults that lose records, with the range, in percent of the operations, in which each begins."""
COMMON = (
    "kill a worker process",
    "kill a worker group",
    "kill an agent",
    "cut a link",
    "swallow frames, then cut",
    "delete queue messages",
    "copy queue messages",
)
"""Kinds of faults that are twice as frequent as the others."""


def make(
    seed: int,
    operations: int,
    *,
    packets: bool = False,
    volumes: bool = False,
    ec2: bool = False,
    moves: bool = False,
    clients: int = LANES,
    losses: Sequence[str] = (),
) -> Plan:
    """Return the plan of a seed.

    With ``packets`` there are more operations on networks, with ``volumes`` more on volumes, with ``ec2`` more requests
    of the EC2 API, with ``moves`` more moves between hosts. ``losses`` are the kinds of ``LOSSES`` that happen, once
    each.
    """
    chance = random.Random(f"operations {seed}")  # noqa: S311 - to be the same again
    often = (*OF_NETWORKS,) * packets + (*OF_VOLUMES,) * volumes + OF_EC2 * ec2
    others = {kind: weight * (OFTEN if kind in often else 1) for kind, weight in OTHERS.items()}
    launches = _LAUNCHES | {"ec2": _LAUNCHES["ec2"] * (OFTEN if ec2 else 1)}
    asked: set[str] = set()
    factor = OFTEN if moves else 1
    lanes = [_Lane(number, chance, others, launches, asked, factor) for number in range(clients)]
    steps = tuple(lanes[chance.randrange(clients)].next(number) for number in range(1, operations + 1))
    faults = random.Random(f"faults {seed}")  # noqa: S311
    kinds = {**FAULTS, **FAULTS_OF_HOSTS} if packets else FAULTS
    every = [*_faults(faults, operations, kinds), *_losses(seed, operations, losses)]
    return Plan(seed, steps, tuple(sorted(every, key=lambda fault: fault.at)))


def _losses(seed: int, operations: int, kinds: Sequence[str]) -> Iterator[Fault]:
    chance = random.Random(f"losses {seed}")  # noqa: S311
    for number, (kind, between) in enumerate(LOSSES.items(), 1):
        at, target = max(1, operations * chance.randint(*between) // 100), chance.randrange(1 << 16)
        if kind in kinds:
            yield Fault(-number, at, kind, target, 0.0)


def _faults(chance: random.Random, operations: int, lasting: Mapping[str, tuple[float, float]]) -> tuple[Fault, ...]:
    count = max(1, operations // FAULT_EVERY)
    moments = sorted(chance.randint(min(FIRST_FAULT, operations), operations) for _ in range(count))
    kinds: list[str] = []
    while len(kinds) < count:
        deck = [*lasting, *COMMON]
        chance.shuffle(deck)
        kinds += deck
    return tuple(
        Fault(number, at, kind, chance.randrange(1 << 16), round(chance.uniform(*lasting[kind]), 2))
        for number, (at, kind) in enumerate(zip(moments, kinds, strict=False), 1)
    )


# ----- operations -----------------------------------------------------------------------------------------------------

OTHERS = {
    "attach_interface": 3,
    "detach_interface": 3,
    "metadata": 2,
    "rename": 1,
    "show": 1,
    "console": 1,
    "diagnostics": 1,
    "floating_ip": 4,
    "port_forwarding": 2,
    "rule": 4,
    "regroup": 3,
    "own_network": 3,
    "drop_network": 2,
    "router": 2,
    "volume": 4,
    "attach_volume": 6,
    "detach_volume": 3,
    "swap_volume": 1,
    "extend_volume": 2,
    "snapshot_volume": 2,
    "revert_volume": 1,
    "backup_volume": 2,
    "delete_volume": 2,
    "migrate_volume": 2,
    "ec2_start": 2,
    "ec2_stop": 2,
    "ec2_reboot": 1,
    "ec2_tags": 1,
    "ec2_show": 1,
    "ec2_address": 2,
    "ec2_volume": 1,
    "ec2_attach": 2,
    "ec2_detach": 1,
    "ec2_interface": 2,
    "abort_migration": 1,
    "complete_migration": 1,
    "drain": 1,
    "change_drain": 1,
}
"""Operations that do not depend on the state of a server, with weights: calls with their own paths, calls of the EC2
API, operations on networks and volumes, operations on moves in progress, and operations on hosts.
"""
OF_NETWORKS = ("floating_ip", "port_forwarding", "rule", "regroup", "own_network", "drop_network", "router")
OF_VOLUMES = (
    "volume", "attach_volume", "detach_volume", "swap_volume", "extend_volume", "snapshot_volume", "revert_volume",
    "backup_volume", "delete_volume", "migrate_volume",
)  # fmt: skip
OF_EC2 = tuple(kind for kind in OTHERS if kind.startswith("ec2_"))
OF_MOVES = (
    "migrate", "os-migrateLive", "evacuate", "resize", "confirmResize", "revertResize", "abort_migration",
    "complete_migration", "drain", "change_drain",
)  # fmt: skip
OFTEN = 5
"""The factor for the weights of operations that are requested more often."""
CUTS = (0.0, 0.02, 0.1, 0.4)
"""Seconds after which an EC2 client disconnects without reading the answer."""
WAITING = 12
"""The factor for the weights of kinds that were not chosen so far, so that a long run contains every kind. With the
option for more moves, it applies only to kinds of moves.
"""
_BAD = (
    "no such flavor",
    "no such image",
    "no such network",
    "no flavor",
    "more than most",
    "no count",
    "name too long",
    "no such key",
    "no such group",
)
_LAUNCHES = {
    "plain": 52,
    "several": 12,
    "at least": 8,
    "grouped": 10,
    "bad": 12,
    "over quota": 4,
    "too large": 3,
    "repeated": 8,
    "from volume": 8,
    "ec2": 14,
}


_BY_EC2: Mapping[tuple[str, str], str] = {
    ("ec2_stop", VmState.ACTIVE): VmState.STOPPED,
    ("ec2_start", VmState.STOPPED): VmState.ACTIVE,
    ("ec2_start", VmState.SUSPENDED): VmState.ACTIVE,
    ("ec2_start", VmState.PAUSED): VmState.ACTIVE,
}
"""(operation, state) → the server's state after the operation."""
_BY_MOVE: Mapping[tuple[str, str], str] = {
    ("migrate", VmState.ACTIVE): VmState.RESIZED,
    ("migrate", VmState.STOPPED): VmState.RESIZED,
}
"""(operation, state) → the state of a server that waits for the confirmation of its move."""


@dataclass
class _Server:
    launch: int
    count: int
    state: str = VmState.ACTIVE


class _Lane:
    """Chooses the operations of one client according to the servers that it should have."""

    def __init__(
        self,
        number: int,
        chance: random.Random,
        others: Mapping[str, int],
        launches: Mapping[str, int],
        asked: set[str],
        moves: int,
    ) -> None:
        """Start without servers. ``asked`` has the kinds of operations chosen so far, and is shared by all clients;
        ``moves`` is the factor for the weights of moves.
        """
        self._number, self._others, self._launches, self._moves = number, others, launches, moves
        self._chance, self._asked = chance, asked
        self._live: list[_Server] = []

    def next(self, number: int) -> Operation:
        chance = self._chance
        if len(self._live) < 2 or (len(self._live) < MOST_LIVE and chance.random() < 0.35):
            return self._launch(number)
        server = chance.choice(self._live)
        if chance.random() < (0.22 if self._moves == 1 else 0.1) or len(self._live) > MOST_LIVE:
            return self._delete(number, server)
        return self._action(number, server)

    def _launch(self, number: int) -> Operation:
        chance = self._chance
        kind = chance.choices([*self._launches], [*self._launches.values()])[0]
        details: dict[str, Any] = {"flavor": chance.choice(["nano", "nano", "tiny", "small"])}
        count = 1
        if kind == "several":
            count = chance.randint(2, 4)
            details |= {"min_count": count, "max_count": count, "reservation": chance.random() < 0.5}
        elif kind == "at least":
            count = chance.randint(2, 5)
            details |= {"min_count": 1, "max_count": count, "reservation": chance.random() < 0.5}
        elif kind == "grouped":
            count = chance.randint(1, 2)
            details |= {"policy": chance.choice(POLICIES), "min_count": count, "max_count": count}
        elif kind == "repeated":
            return self._repeated(number, details)
        elif kind == "ec2":
            return self._by_ec2(number, details)
        elif kind == "bad":
            details |= {"wrong": chance.choice(_BAD)}
        elif kind == "over quota":
            details |= {"min_count": 90, "max_count": 90}
        elif kind == "too large":
            details |= {"flavor": "large"}
        if kind not in {"bad", "over quota"}:
            self._live.append(_Server(number, count, VmState.ERROR if kind == "too large" else VmState.ACTIVE))
        return Operation(number, self._number, f"launch {kind}", details=details)

    def _repeated(self, number: int, details: dict[str, Any]) -> Operation:
        """Launch with the wizard; the form is sent one to four times and creates one server."""
        self._live.append(_Server(number, 1))
        return Operation(number, self._number, "launch repeated", times=self._chance.randint(1, 4), details=details)

    def _by_ec2(self, number: int, details: dict[str, Any]) -> Operation:
        """Launch with the EC2 API and a client token; the request is sent one to four times."""
        least, more = self._chance.choice(((1, 0), (1, 0), (2, 0), (1, 2)))
        self._live.append(_Server(number, least + more))
        details |= {"min_count": least, "max_count": least + more, **self._cut()}
        return Operation(number, self._number, "launch ec2", times=self._chance.randint(1, 4), details=details)

    def _cut(self) -> dict[str, Any]:
        """Choose whether the client disconnects before the answer, and after how many seconds."""
        return {"cut": self._chance.choice(CUTS)} if self._chance.random() < 0.25 else {}

    def _delete(self, number: int, server: _Server) -> Operation:
        chance = self._chance
        index = chance.randrange(server.count)
        if server.count == 1 or chance.random() < 0.5:
            self._live.remove(server)
        times = chance.choices([1, 2, 5], [7, 2, 1])[0]
        details: dict[str, Any] = {}
        if chance.random() < 0.15:
            details = {"force": True}
        elif chance.random() < 0.3:
            details = {"ec2": True, **self._cut()}
        settled = chance.random() < 0.6
        return Operation(number, self._number, "delete", server.launch, index, times, settled, details)

    def _action(self, number: int, server: _Server) -> Operation:
        chance = self._chance
        state = server.state if chance.random() < 0.9 else chance.choice(STATES)
        kinds = {name: call.weight(state) for name, call in CALLS.items()}
        kinds |= self._others
        kinds |= {name: kinds[name] * self._moves for name in OF_MOVES}
        later = kinds.keys() - set(OF_MOVES) if self._moves > 1 else set()
        weights = [weight * (1 if name in self._asked | later else WAITING) for name, weight in kinds.items()]
        kind = chance.choices([*kinds], weights)[0]
        self._asked.add(kind)
        index = chance.randrange(server.count)
        times = 1 if chance.random() < 0.85 else chance.randint(2, 3)
        settled = chance.random() < 0.75
        details: dict[str, Any] = self._cut() if kind in OF_EC2 else {}
        if kind in CALLS:
            details["body"] = CALLS[kind].body(chance)
            if server.count == 1:
                after = _BY_MOVE.get((kind, server.state))
                server.state = after or CALLS[kind].state_after(server.state, details["body"])
        elif server.count == 1:
            server.state = _BY_EC2.get((kind, server.state), server.state)
        return Operation(number, self._number, kind, server.launch, index, times, settled, details)
