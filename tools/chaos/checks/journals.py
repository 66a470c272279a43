"""Follows the journals of the simulated hypervisors: which domains exist, and whether one ever ran on two hosts at the
same time.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from compute_agent.contract.power import PowerState
from compute_agent.network.state.documents import TYPES, Document, Documents
from compute_agent.virt.fake.state import read_state

JOURNAL = "fake-hypervisor.jsonl"
POOL = "volumes/pool.json"
"""The file of a simulated host's pool, within the host's state folder."""
LOOK_EVERY = 0.02

Domain = Mapping[str, Any]
"""A domain in a journal: attempt, power state, sizes, MAC addresses of its interfaces, volumes."""


@dataclass
class Journal:
    """The content of one host's journal so far."""

    path: Path
    guests: dict[str, dict[str, Any]] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    """Ids of instances with a domain or a disk on the host."""
    _inode: int = 0
    _offset: int = 0

    def read(self) -> set[str]:
        """Read the new lines, or the complete journal if it was rewritten. Returns the ids of the instances in these
        lines.
        """
        try:
            with self.path.open("rb") as file:
                found = (self.path.stat().st_ino, self.path.stat().st_size)
                if found[0] != self._inode or found[1] < self._offset:
                    self._inode, self._offset = found[0], 0
                    self.guests, self.kept = {}, set()
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return set()
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return {self._take(line) for line in whole.splitlines()} - {""}

    def _take(self, line: bytes) -> str:
        try:
            entry = json.loads(line)
        except ValueError:
            return ""  # truncated by a kill, and never acknowledged
        uuid = str(entry["uuid"])
        if entry.get("guest"):
            self.guests[uuid] = entry["guest"]
        else:
            self.guests.pop(uuid, None)
        (self.kept.add if entry.get("guest") or entry.get("disk") else self.kept.discard)(uuid)
        return uuid


@dataclass
class Overlap:
    """A time during which the guest of a server ran on two hosts."""

    hosts: Sequence[str]
    """By attempt, the oldest one first."""
    began: float
    silence: float
    """Seconds since the last heartbeat of the oldest guest's host at the beginning; 0: unknown."""
    has_volumes: bool
    ended: float | None = None

    def __str__(self) -> str:
        return f"{' and '.join(self.hosts)} at {time.strftime('%H:%M:%S', time.localtime(self.began))}"


@dataclass(frozen=True)
class Seen:
    """The guests, networks and pools of all simulated hosts. The id of a guest is the id of its server."""

    domains: Mapping[str, tuple[str, Domain]]
    """Server → name of the host, and the domain. If both hosts of a move have a domain, the domain of the newest
    attempt.
    """
    kept: Mapping[str, str]
    """Server → a host that has a domain or a disk of it."""
    twice: Mapping[str, Sequence[Overlap]]
    """Servers whose guests ran on two hosts at the same time."""
    reported: Mapping[str, Mapping[tuple[str, str], Document]] = field(default_factory=dict)
    """Name of a host → the networks, routers, floating IPs and groups it has received, by kind and id."""
    shared: Mapping[str, str] = field(default_factory=dict)
    """Volumes that are not shareable but that two running guests had at the same time, with servers and time."""
    pools: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Pool → volume → its size in bytes, snapshots and clients."""
    holders: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Server → all hosts that have a domain or a disk of it."""


class Hypervisors:
    """The journals of all hosts, followed by a thread."""

    def __init__(self, folder: Path, hosts: list[str], silence: Callable[[str], float] = lambda _: 0.0) -> None:
        """Follow the hosts whose state folders are in ``folder``. ``silence``: returns the seconds since the last
        heartbeat of a host; 0: unknown.
        """
        self._silence = silence
        self.journals = {host: Journal(folder / host / JOURNAL) for host in hosts}
        self.twice: dict[str, list[Overlap]] = {}
        """Instances whose guests ran on two hosts at the same time."""
        self.shared: dict[str, str] = {}
        """Volumes that are not shareable but that two running guests had at the same time, with servers and time."""
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="journals", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Read to the end, then stop the thread."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(10)
        self.look()

    def _follow(self) -> None:
        while not self._stop.wait(LOOK_EVERY):
            self.look()

    def look(self) -> None:
        """Read the new lines of all journals, and compare the hosts."""
        with self._lock:
            changed = set[str]()
            for journal in self.journals.values():
                changed |= journal.read()
            for uuid in changed:
                self._compare(uuid)
            if any(self._disks(uuid) for uuid in changed):
                self._compare_disks()

    def _compare(self, uuid: str) -> None:
        """Record a guest that runs on two hosts, and when that ends. All journals are read again before, because the
        guest may just have moved.
        """
        known = self.twice.get(uuid, [])
        last = known[-1] if known and known[-1].ended is None else None
        if len(self._running(uuid)) > 1:
            for journal in self.journals.values():
                journal.read()
        hosts = self._running(uuid)
        if len(hosts) < 2:
            if last is not None:
                last.ended = time.time()
        elif last is None:
            volumes = any(guest.get("volumes") for _, guest in self._newest_last(uuid))
            new = Overlap(hosts, time.time(), self._silence(hosts[0]), volumes)
            self.twice.setdefault(uuid, []).append(new)

    def _disks(self, uuid: str) -> list[str]:
        """Return the volumes of a server that are not shareable and to which its guest can write.

        A guest that lost its power may have a volume that was detached while its host was forced down.
        """
        guests = [guest for _, guest in self._newest_last(uuid)[-1:] if runs(guest)]
        return [disk["id"] for guest in guests for disk in guest.get("volumes", []) if not disk.get("shareable")]

    def _compare_disks(self) -> None:
        """Record volumes that are not shareable but are attached to two servers. All journals are read again before,
        because a volume may just have moved.
        """
        if not self._had_twice():
            return
        for journal in self.journals.values():
            journal.read()
        for volume, servers in self._had_twice().items():
            self.shared.setdefault(volume, f"{' and '.join(servers)} at {time.strftime('%H:%M:%S')}")

    def _had_twice(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for uuid in {uuid for journal in self.journals.values() for uuid in journal.guests}:
            for volume in self._disks(uuid):
                found.setdefault(volume, []).append(uuid)
        return {volume: sorted(servers) for volume, servers in found.items() if len(servers) > 1}

    def _newest_last(self, uuid: str) -> list[tuple[str, dict[str, Any]]]:
        """Return the hosts that have a domain of a server, and the domains, by attempt."""
        found = [(host, journal.guests[uuid]) for host, journal in self.journals.items() if uuid in journal.guests]
        return sorted(found, key=lambda one: int(one[1].get("attempt", 0)))

    def _running(self, uuid: str) -> list[str]:
        return [host for host, guest in self._newest_last(uuid) if runs(guest)]

    def seen(self) -> Seen:
        """Read the new lines of all journals, and return the complete state."""
        self.look()
        with self._lock:
            journals = self.journals.items()
            holders: dict[str, set[str]] = {}
            for host, journal in journals:
                for uuid in journal.kept:
                    holders.setdefault(uuid, set()).add(host)
            return Seen(
                {uuid: self._newest_last(uuid)[-1] for _, journal in journals for uuid in journal.guests},
                {uuid: host for host, journal in journals for uuid in journal.kept},
                dict(self.twice),
                {host: _sent(journal.path.parent / "network" / "documents") for host, journal in journals},
                dict(self.shared),
                dict(_pools(journal.path.parent / POOL for _, journal in journals)),
                {uuid: frozenset(hosts) for uuid, hosts in holders.items()},
            )


def switch_off(path: Path) -> None:
    """Let all guests in a journal lose their power, while no agent writes to it."""
    if not path.exists():
        return
    text = path.read_bytes()
    state = read_state(text)
    lines = [b"" if not text or text.endswith(b"\n") else b"\n"]
    for uuid, guest in state.guests.items():
        if guest.power != PowerState.SHUTDOWN:
            guest.power, guest.leaving, guest.was = PowerState.SHUTDOWN, False, 0
            guest.boots = [(began, ended or time.time()) for began, ended in guest.boots]
            lines.append(msgspec.json.encode(state.entry(uuid)) + b"\n")
    with path.open("ab") as journal:
        journal.write(b"".join(lines))


def runs(guest: Domain) -> bool:
    """Whether a domain can write to its disks. A domain that leaves by a live migration is paused until its host knows
    whether the other host has it.
    """
    return guest.get("power") in {PowerState.RUNNING, PowerState.PAUSED} and not guest.get("leaving")


def _pools(paths: Iterable[Path]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for path in paths:
        try:
            kept = json.loads(path.read_bytes())
        except FileNotFoundError:
            continue
        yield kept["id"], kept["volumes"]


def _sent(folder: Path) -> dict[tuple[str, str], Document]:
    kept = Documents(folder)
    return {(kind, key): found for kind, made_of in TYPES.items() for key, found in kept.of(made_of).items()}
