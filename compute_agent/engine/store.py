"""What an agent must not forget: commands, events not yet recorded by the portal, and the instances of this host
(SQLite).

A transaction costs well under a millisecond.  What was promised to the other side (an acknowledged command, the end of
a command) is synced to the disk before it is promised when the store is ``durable``; steps are left to the write-ahead
log, which outlives the process but not a power failure.  All methods are for one thread, the event loop's.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from compute_agent.contract.build import InstanceSpec, image_refs
from compute_agent.contract.commands import (
    AttachInterfaceRequest,
    BuildRequest,
    DestroyRequest,
    RebuildRequest,
    spec_of,
)
from compute_agent.contract.messages import AgentEvent, Command

SEQ_LEAP = 1_000
"""At every start the event numbers leap ahead, so that a number lost with the power is never given to another event."""

KEEP_DONE = 24 * 3600.0
"""Seconds a finished command is remembered, to recognise one that is delivered again."""

KEEP_DESTROYED = 30 * 24 * 3600.0
"""Seconds the attempt number of a destroyed instance is remembered, to fence late builds."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS commands (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, instance_id TEXT NOT NULL, body BLOB NOT NULL,
    begun INTEGER NOT NULL DEFAULT 0, done_at REAL
) STRICT;
CREATE INDEX IF NOT EXISTS commands_done ON commands (done_at);
CREATE TABLE IF NOT EXISTS events (seq INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS instances (
    uuid TEXT PRIMARY KEY, attempt INTEGER NOT NULL, destroyed INTEGER NOT NULL DEFAULT -1, spec BLOB,
    leftover INTEGER NOT NULL DEFAULT 0, touched_at REAL NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS numbers (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
"""

_command = msgspec.json.Decoder(Command)
_event = msgspec.json.Decoder(AgentEvent)
_spec = msgspec.json.Decoder(InstanceSpec)


@dataclass(frozen=True)
class StoredCommand:
    """A command that was accepted and has not ended; ``begun`` when its work may have left traces on the host."""

    command: Command
    begun: bool


@dataclass(frozen=True)
class InstanceRecord:
    """What this host remembers of an instance: the newest attempt seen and the newest attempt destroyed (-1: none)."""

    uuid: str
    attempt: int
    destroyed: int = -1
    leftover: bool = False


def _kept(spec: InstanceSpec) -> bytes:
    """Return a description as it is kept: without the password, which only the seed needs."""
    return msgspec.json.encode(msgspec.structs.replace(spec, admin_password=None))


class StateStore:
    """The agent's memory in one SQLite file, or in RAM when ``path`` is None."""

    def __init__(self, path: Path | None, *, durable: bool = True) -> None:
        """Open or create the file (mode 0600) and take the next block of event numbers.  Raises sqlite3.Error."""
        self._durable = durable
        if path is not None:
            path.touch(mode=0o600, exist_ok=True)
        self._db = sqlite3.connect(":memory:" if path is None else path, isolation_level=None, cached_statements=64)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA cache_size = -256")
        self._sync("NORMAL" if durable else "OFF")
        self._db.executescript(_SCHEMA)
        row = self._db.execute("SELECT value FROM numbers WHERE name = 'seq'").fetchone()
        self._seq: int = (
            row[0] if row else int(time.time())
        )  # a new folder of an old host goes on above the old one's numbers
        with self._transaction(promised=True):
            self._db.execute(
                "INSERT OR REPLACE INTO numbers VALUES ('seq', max(?, (SELECT coalesce(max(seq), 0) FROM events)) + ?)",
                (self._seq, SEQ_LEAP),
            )
        self._ceiling: int = self._db.execute("SELECT value FROM numbers WHERE name = 'seq'").fetchone()[0]
        self._seq = self._ceiling - SEQ_LEAP

    def close(self) -> None:
        """Close the file; the store is not used again."""
        self._db.close()

    # ----- events ---------------------------------------------------------------------------------------------------

    def next_seq(self) -> int:
        """Return a number greater than all before it, also over restarts and power failures."""
        self._seq += 1
        if self._seq >= self._ceiling:
            self._ceiling += SEQ_LEAP
            with self._transaction(promised=True):
                self._db.execute("UPDATE numbers SET value = ? WHERE name = 'seq'", (self._ceiling,))
        return self._seq

    def add_event(self, event: AgentEvent) -> None:
        """Keep the event until the portal has recorded it."""
        self._db.execute("INSERT INTO events VALUES (?, ?)", (event.seq, msgspec.json.encode(event)))

    def forget_events(self, seq: int) -> None:
        """Drop everything up to ``seq``: the portal has it."""
        self._db.execute("DELETE FROM events WHERE seq <= ?", (seq,))

    def events(self) -> list[AgentEvent]:
        """Return the events not yet recorded by the portal, in order."""
        return [_event.decode(body) for (body,) in self._db.execute("SELECT body FROM events ORDER BY seq")]

    # ----- commands -------------------------------------------------------------------------------------------------

    def accept(self, command: Command) -> bool:
        """Keep the command; False when it is known already.  On the disk before this returns."""
        with self._transaction(promised=True):
            added = self._db.execute(
                "INSERT OR IGNORE INTO commands (id, instance_id, body) VALUES (?, ?, ?)",
                (command.id, command.instance_id, msgspec.json.encode(command)),
            ).rowcount
            if added:
                self._see(command)
        return added == 1

    def _see(self, command: Command) -> None:
        self._db.execute(
            "INSERT INTO instances (uuid, attempt, touched_at) VALUES (?, ?, ?) ON CONFLICT (uuid) DO UPDATE SET"
            " attempt = max(attempt, excluded.attempt), touched_at = excluded.touched_at",
            (command.instance_id, command.attempt, time.time()),
        )

    def begin(self, command: Command) -> None:
        """Note that the command's work starts, and for a build what the guest is made of."""
        with self._transaction():
            self._db.execute("UPDATE commands SET begun = 1 WHERE id = ?", (command.id,))
            if isinstance(command.body, BuildRequest):
                self._db.execute(
                    "UPDATE instances SET spec = ?, leftover = 0 WHERE uuid = ?",
                    (_kept(command.body.instance), command.instance_id),
                )

    def describe(self, command: Command) -> None:
        """Note what the guest is made of now that an order is carried out; kept with the order's end."""
        spec = spec_of(command.body)
        if spec is not None:
            known = self.specs({command.instance_id}).get(command.instance_id)
            if known is not None and not isinstance(command.body, RebuildRequest):
                spec = msgspec.structs.replace(spec, image=known.image)  # what its disk is laid upon is what it was
            self._db.execute("UPDATE instances SET spec = ? WHERE uuid = ?", (_kept(spec), command.instance_id))

    def finish(self, command: Command, event: AgentEvent, *, gone: bool = False, leftover: bool = False) -> None:
        """Record the command's end and its last event together, on the disk before this returns.

        ``gone``: nothing of the instance is left here; ``leftover``: something is, and must be removed later.
        """
        now = time.time()
        with self._transaction(promised=True):
            self._db.execute("UPDATE commands SET done_at = ?, body = x'' WHERE id = ?", (now, command.id))
            self.add_event(event)
            if gone:
                self.mark_gone(command.instance_id)
            if leftover:
                self._db.execute("UPDATE instances SET leftover = 1 WHERE uuid = ?", (command.instance_id,))

    def unfinished(self) -> list[StoredCommand]:
        """Return the commands that have not ended, in the order in which they came."""
        rows = self._db.execute("SELECT body, begun FROM commands WHERE done_at IS NULL ORDER BY number")
        return [StoredCommand(_command.decode(body), bool(begun)) for body, begun in rows]

    def coming(self) -> dict[str, InstanceSpec]:
        """Return guests with the cards that an earlier process may have plugged in, by orders that have not ended."""
        begun = [stored.command for stored in self.unfinished() if stored.begun]
        return {
            command.instance_id: command.body.instance
            for command in begun
            if isinstance(command.body, AttachInterfaceRequest)
        }

    def fence(self, owned: Mapping[str, int]) -> int:
        """Outdate the orders that have not ended and that the records mean no more: ``owned`` is the newest attempt of
        each instance of this host.  A destroy of an instance that is not owned is as good as ever.  Returns how many.
        """
        stale = 0
        with self._transaction(promised=True):
            for stored in self.unfinished():
                command = stored.command
                newest = owned.get(command.instance_id)
                if newest is not None and newest > command.attempt:
                    self._db.execute(
                        "UPDATE instances SET attempt = max(attempt, ?) WHERE uuid = ?", (newest, command.instance_id)
                    )
                elif newest is None and not isinstance(command.body, DestroyRequest):
                    self.mark_destroyed(command.instance_id, command.attempt)
                else:
                    continue
                stale += 1
        return stale

    # ----- instances ------------------------------------------------------------------------------------------------

    def instance(self, uuid: str) -> InstanceRecord | None:
        """Return what is remembered of the instance."""
        row = self._db.execute("SELECT attempt, destroyed, leftover FROM instances WHERE uuid = ?", (uuid,)).fetchone()
        return InstanceRecord(uuid, row[0], row[1], bool(row[2])) if row else None

    def adopt(self, uuid: str, attempt: int) -> None:
        """Remember a guest that the hypervisor has, so that older orders for it are fenced."""
        self._db.execute(
            "INSERT INTO instances (uuid, attempt, touched_at) VALUES (?, ?, ?)"
            " ON CONFLICT (uuid) DO UPDATE SET attempt = max(attempt, excluded.attempt)",
            (uuid, attempt, time.time()),
        )

    def mark_destroyed(self, uuid: str, attempt: int) -> None:
        """Remember that builds of the instance up to ``attempt`` come too late."""
        self._db.execute(
            "UPDATE instances SET destroyed = max(destroyed, ?), touched_at = ? WHERE uuid = ?",
            (attempt, time.time(), uuid),
        )

    def mark_gone(self, uuid: str) -> None:
        """Forget what the guest was made of: nothing of it is left on this host."""
        self._db.execute("UPDATE instances SET spec = NULL, leftover = 0 WHERE uuid = ?", (uuid,))

    def leftovers(self) -> list[InstanceRecord]:
        """Return the instances of failed builds of which something could not be removed yet."""
        rows = self._db.execute("SELECT uuid, attempt, destroyed FROM instances WHERE leftover = 1")
        return [InstanceRecord(uuid, attempt, destroyed, leftover=True) for uuid, attempt, destroyed in rows]

    def specs(self, uuids: set[str]) -> dict[str, InstanceSpec]:
        """Return what the given guests are made of, as far as this host knows."""
        rows = self._db.execute("SELECT uuid, spec FROM instances WHERE spec IS NOT NULL")
        return {uuid: _spec.decode(spec) for uuid, spec in rows if uuid in uuids}

    def described(self) -> set[str]:
        """Return the guests of which this host knows what they are made of."""
        return {uuid for (uuid,) in self._db.execute("SELECT uuid FROM instances WHERE spec IS NOT NULL")}

    def images(self) -> set[str]:
        """Return the ids of the images that guests of this host are made of, or boot from."""
        rows = self._db.execute("SELECT spec FROM instances WHERE spec IS NOT NULL")
        return {image.id for (spec,) in rows for image in image_refs(_spec.decode(spec))}

    def prune(self) -> None:
        """Forget commands and instances that ended long ago."""
        now = time.time()
        with self._transaction():
            self._db.execute("DELETE FROM commands WHERE done_at < ?", (now - KEEP_DONE,))
            self._db.execute(
                "DELETE FROM instances WHERE spec IS NULL AND leftover = 0 AND touched_at < ?", (now - KEEP_DESTROYED,)
            )

    # ----- transactions ---------------------------------------------------------------------------------------------

    def _sync(self, level: str) -> None:
        self._db.execute(f"PRAGMA synchronous = {level}")

    @contextmanager
    def _transaction(self, *, promised: bool = False) -> Iterator[None]:
        """Group statements; a ``promised`` transaction is synced to the disk, and everything before it with it."""
        fsync = promised and self._durable
        if fsync:
            self._sync("FULL")
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        else:
            self._db.execute("COMMIT")
        finally:
            if fsync:
                self._sync("NORMAL")
