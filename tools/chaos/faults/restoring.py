"""Faults that lose records: a copy of the database is restored, or the primary of PostgreSQL is lost."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from django.db import DatabaseError, connections

from provisioning.doctor.finding import Finding
from tools.chaos.checks.journals import Hypervisors
from tools.chaos.checks.losses import Loss, Records
from tools.chaos.clients import moves
from tools.chaos.clients.world import World
from tools.chaos.clouds.cloud import AGENT, Cloud
from tools.chaos.clouds.database import Postgresql
from tools.chaos.faults.recovery import Recovery
from tools.chaos.plan import COPY, FALL_BEHIND, LOSE_PRIMARY, PUT_BACK, Fault

IDLE_WITHIN = 90.0
COPIED_WITHIN = 60.0
POPULATED_WITHIN = 45.0
STOPPED_FIRST, STOPPED_LAST = ("worker",), ("web",)
FOUND_WITHIN = 60.0
"""Seconds within which the portal must find the new primary automatically."""


@dataclass
class Restoring:
    """Carries out the losses of records, and the operator's work after them. ``wrongs`` has the remaining errors."""

    cloud: Cloud
    hypervisors: Hypervisors
    world: World
    note: Callable[[str], None]
    wrongs: list[Finding] = field(default_factory=list)
    _since: float = 0.0
    _ids: object = None

    def make(self, fault: Fault) -> str:
        """Carry out one fault, and return a description of its result."""
        return _MAKE[fault.kind](self, fault)

    @property
    def _copy(self) -> Path:
        return self.cloud.folder.parent / "copy"

    # ----- a copy is put back ---------------------------------------------------------------------------------------

    def _take_copy(self, fault: Fault) -> str:
        """Copy the database and then the files outside it, in the order of the guide."""
        self._populate()
        self._begin()
        self._copy.mkdir()
        deadline = time.monotonic() + COPIED_WITHIN
        while True:
            try:
                self.cloud.database.copy(self._copy / "database")
                break
            except self.cloud.database.errors as error:
                if time.monotonic() > deadline:
                    raise
                self.note(f"once more: {error}")
                self._begin()
                time.sleep(0.5)
        for folder in self.cloud.files:
            if folder.exists():
                shutil.copytree(folder, self._copy / folder.name)
        return "the database was copied, and then the files beside it"

    def _put_back(self, fault: Fault) -> str:
        self._close()
        self.cloud.hold(AGENT, *STOPPED_FIRST, *STOPPED_LAST)
        last, seen, files = self._read(), self.hypervisors.seen(), self.cloud.images_kept()
        self.cloud.database.put_back(self._copy / "database")
        for folder in self.cloud.files:
            _bring_missing(self._copy / folder.name, folder)
        loss = Loss(last, self._read(), seen, files)
        return f"the copy was put back; {self._recover(loss, AGENT)}"

    # ----- the primary is lost --------------------------------------------------------------------------------------

    def _fall_behind(self, fault: Fault) -> str:
        self._populate()
        self._begin()
        self._server.fall_behind()
        return "the standby gets nothing more"

    def _lose_primary(self, fault: Fault) -> str:
        """Kill the primary and promote the standby while the portal is running, and wait until the portal has found the
        standby.
        """
        self._close()
        portal = [*self.cloud.names("web"), *self.cloud.names("worker")]
        for name in portal:
            self.cloud.stop_program(name)
        last, seen, files = self._read(), self.hypervisors.seen(), self.cloud.images_kept()
        self._server.lose_primary()
        for name in portal:
            self.cloud.go_on(name)
        self._server.promote()
        loss = Loss(last, self._read(), seen, files)
        found = self.cloud.answers(FOUND_WITHIN)
        self.cloud.hold(*STOPPED_FIRST, *STOPPED_LAST)
        return f"the standby was promoted, and the portal {found}; {self._recover(loss)}"

    @property
    def _server(self) -> Postgresql:
        assert isinstance(self.cloud.database, Postgresql)  # noqa: S101 - the options were checked
        return self.cloud.database

    # ----- both -----------------------------------------------------------------------------------------------------

    def _populate(self) -> None:
        """Stop the clients for a while, so that the records that will be kept contain servers at rest."""
        self._close()
        until = time.monotonic() + POPULATED_WITHIN
        while time.monotonic() < until:
            with contextlib.suppress(DatabaseError):
                if not any(each.task_state and not each.ends for each in self._read().servers.values()):
                    break
            time.sleep(0.5)
        self.world.gate.open()

    def _begin(self) -> None:
        """Record the time from which records may be lost."""
        self._since, self._ids = time.time(), self.world.ids.copy()

    def _close(self) -> None:
        if not self.world.gate.close(IDLE_WITHIN):
            raise LookupError("the clients do not come to an end")

    @staticmethod
    def _read() -> Records:
        try:
            return Records.read()
        finally:
            connections.close_all()

    def _recover(self, loss: Loss, *held: str) -> str:
        """Run the command of the guide, start the cloud, and let the operator resolve all differences. The records
        may show hosts as forced down that are on again.
        """
        output = self.cloud.command("after_restore")
        self.note(output)
        self.cloud.release(loss.kept.usable)
        moves.unfence(self.world, self.cloud.hosts)
        self.world.lost.append((self._since, time.time()))
        self.world.ids.put_back(self._ids)  # type: ignore[arg-type]
        began = time.monotonic()
        recovery = Recovery(self.cloud, self.hypervisors, self.world.operator, loss, self.note)
        self.wrongs += recovery.wrongs()
        return f"{loss.size()}; all agrees after {time.monotonic() - began:.0f} s"


_MAKE: dict[str, Callable[[Restoring, Fault], str]] = {
    COPY: Restoring._take_copy,
    PUT_BACK: Restoring._put_back,
    FALL_BEHIND: Restoring._fall_behind,
    LOSE_PRIMARY: Restoring._lose_primary,
}


def _bring_missing(copy: Path, folder: Path) -> None:
    """Copy the files that are missing in ``folder`` from ``copy``."""
    for path in copy.rglob("*"):
        there = folder / path.relative_to(copy)
        if path.is_file() and not there.exists():
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, there)
