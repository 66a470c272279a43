"""Reads along in the journals of the simulated hypervisors: which domains there are, and whether one was ever twice."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

JOURNAL = "fake-hypervisor.jsonl"
LOOK_EVERY = 0.02


@dataclass
class Journal:
    """What one host's hypervisor has, as far as its journal was read."""

    path: Path
    guests: dict[str, dict[str, Any]] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    """Instances of which it has anything, a disk without a domain too."""
    _inode: int = 0
    _offset: int = 0

    def read(self) -> set[str]:
        """Read on, or a journal that was written anew whole; returns the instances that the new lines speak of."""
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
            return ""  # cut short by a kill, and never answered
        uuid = plain(entry["uuid"])
        if entry.get("guest"):
            self.guests[uuid] = entry["guest"]
        else:
            self.guests.pop(uuid, None)
        (self.kept.add if entry.get("guest") or entry.get("disk") else self.kept.discard)(uuid)
        return uuid


def plain(uuid: str) -> str:
    """Return an id without hyphens, as every part of a run writes it."""
    return uuid.replace("-", "")


class Hypervisors:
    """All journals, followed in a thread."""

    def __init__(self, folder: Path, hosts: list[str]) -> None:
        """Follow the hosts whose state folders are in ``folder``."""
        self.journals = {host: Journal(folder / host / JOURNAL) for host in hosts}
        self.twice: dict[str, str] = {}
        """Instances that had domains on two hosts at one moment, and where."""
        self.seen = 0
        """Changes of domains that were read."""
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="journals", daemon=True)

    def start(self) -> None:
        """Read along from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Read to the end, and no more."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(10)
        self.look()

    def _follow(self) -> None:
        while not self._stop.wait(LOOK_EVERY):
            self.look()

    def look(self) -> None:
        """Read what is new, and compare the hosts."""
        with self._lock:
            changed = set[str]()
            for journal in self.journals.values():
                changed |= journal.read()
            self.seen += len(changed)
            for uuid in changed:
                self._compare(uuid)

    def _compare(self, uuid: str) -> None:
        """Note a second domain; what was read first is read again, because a domain may just have moved."""
        if len(self._where(uuid)) > 1:
            for journal in self.journals.values():
                journal.read()
            hosts = self._where(uuid)
            if len(hosts) > 1 and uuid not in self.twice:
                self.twice[uuid] = f"{' and '.join(hosts)} at {time.strftime('%H:%M:%S')}"

    def _where(self, uuid: str) -> list[str]:
        return [host for host, journal in self.journals.items() if uuid in journal.guests]

    def domains(self) -> dict[str, tuple[str, Mapping[str, Any]]]:
        """Return each domain by instance: its host, and what its journal says."""
        with self._lock:
            return {
                uuid: (host, guest) for host, journal in self.journals.items() for uuid, guest in journal.guests.items()
            }

    def kept(self) -> dict[str, str]:
        """Return of which instances anything is left, and where."""
        with self._lock:
            return {uuid: host for host, journal in self.journals.items() for uuid in journal.kept}
