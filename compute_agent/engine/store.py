"""The agent's persistent state: commands, events not yet recorded by the portal, and the subjects on this host
(SQLite).

A transaction takes well under a millisecond. If the store is ``durable``, changes that the agent is about to confirm to
the portal (an acknowledged command, the end of a command) are synced to disk first. Steps are only written to the
write-ahead log, which survives the end of the process but not a power failure. All methods are for one thread, the
event loop's.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from compute_agent.contract.messages import AgentEvent, Command
from compute_agent.engine.outcomes import Outcome
from compute_agent.engine.subjects import Subject, generation_of, subject_of
from compute_agent.engine.timing import Timing

SEQ_LEAP = 1_000
"""Added to event numbers at every start, so that a number lost by a power failure is never used again."""

KEEP_DONE = 24 * 3600.0
"""Seconds for which a finished command is kept, to recognise duplicates."""

KEEP_REMOVED = 30 * 24 * 3600.0
"""Seconds for which the generation of a removed subject is kept, to fence late commands."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS commands (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, body BLOB NOT NULL, begun INTEGER NOT NULL DEFAULT 0,
    done_at REAL
) STRICT;
CREATE INDEX IF NOT EXISTS commands_done ON commands (done_at);
CREATE TABLE IF NOT EXISTS events (seq INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS subjects (
    kind TEXT NOT NULL, id TEXT NOT NULL, generation INTEGER NOT NULL, removed INTEGER NOT NULL DEFAULT -1,
    description BLOB, leftover INTEGER NOT NULL DEFAULT 0, touched_at REAL NOT NULL, PRIMARY KEY (kind, id)
) STRICT;
CREATE TABLE IF NOT EXISTS numbers (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
"""

_command = msgspec.json.Decoder(Command)
_event = msgspec.json.Decoder(AgentEvent)


@dataclass(frozen=True)
class StoredCommand:
    """An accepted command that has not ended. ``begun``: its work may have changed the host."""

    command: Command
    begun: bool
    timing: Timing = field(compare=False)
    """Times in this process; only the portal knows how long the command waited before."""


@dataclass(frozen=True)
class SubjectRecord:
    """The recorded state of a subject: the newest generation seen and the newest one removed (-1: none)."""

    subject: Subject
    generation: int
    removed: int = -1
    leftover: bool = False
    """Whether a failed command left something that must still be removed."""


class StateStore:
    """The agent's state in one SQLite file, or in memory if ``path`` is None."""

    def __init__(self, path: Path | None, *, durable: bool = True) -> None:
        """Open or create the file (mode 0600) and reserve the next block of event numbers.  Raises sqlite3.Error."""
        self._durable = durable
        if path is not None:
            path.touch(mode=0o600, exist_ok=True)
        self._db = sqlite3.connect(":memory:" if path is None else path, isolation_level=None, cached_statements=64)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA cache_size = -256")
        self._db.execute("PRAGMA secure_delete = ON")  # a command's password is erased when the command ends
        self._sync("NORMAL" if durable else "OFF")
        self._db.executescript(_SCHEMA)
        row = self._db.execute("SELECT value FROM numbers WHERE name = 'seq'").fetchone()
        self._seq: int = (
            row[0] if row else int(time.time())
        )  # if the state folder was lost, new numbers are still greater than earlier ones
        with self._transaction(promised=True):
            self._db.execute(
                "INSERT OR REPLACE INTO numbers VALUES ('seq', max(?, (SELECT coalesce(max(seq), 0) FROM events)) + ?)",
                (self._seq, SEQ_LEAP),
            )
        self._ceiling: int = self._db.execute("SELECT value FROM numbers WHERE name = 'seq'").fetchone()[0]
        self._seq = self._ceiling - SEQ_LEAP

    def close(self) -> None:
        """Close the file; the store must not be used afterwards."""
        self._db.close()

    # ----- events ---------------------------------------------------------------------------------------------------

    def next_seq(self) -> int:
        """Return a number greater than all previous ones, even after restarts and power failures."""
        self._seq += 1
        if self._seq >= self._ceiling:
            self._ceiling += SEQ_LEAP
            with self._transaction(promised=True):
                self._db.execute("UPDATE numbers SET value = ? WHERE name = 'seq'", (self._ceiling,))
        return self._seq

    def add_event(self, event: AgentEvent) -> None:
        """Store the event until the portal has recorded it."""
        self._db.execute("INSERT INTO events VALUES (?, ?)", (event.seq, msgspec.json.encode(event)))

    def forget_events(self, seq: int) -> None:
        """Delete the events up to ``seq``, which the portal has recorded."""
        self._db.execute("DELETE FROM events WHERE seq <= ?", (seq,))

    def events(self) -> list[AgentEvent]:
        """Return the events not yet recorded by the portal, in order."""
        return [_event.decode(body) for (body,) in self._db.execute("SELECT body FROM events ORDER BY seq")]

    # ----- commands -------------------------------------------------------------------------------------------------

    def accept(self, command: Command) -> bool:
        """Store the command. It is synced to disk when this returns. Return False for a duplicate."""
        with self._transaction(promised=True):
            added = self._db.execute(
                "INSERT OR IGNORE INTO commands (id, body) VALUES (?, ?)", (command.id, msgspec.json.encode(command))
            ).rowcount
            if added:
                self.see(subject_of(command), generation_of(command))
        return added == 1

    def begin(self, command: Command, *, removes: bool = False) -> None:
        """Record that the work starts. ``removes``: older commands of the subject are superseded from now on."""
        with self._transaction():
            self._db.execute("UPDATE commands SET begun = 1 WHERE id = ?", (command.id,))
            if removes:
                self._mark_removed(subject_of(command), generation_of(command))

    def finish(self, command: Command, event: AgentEvent, outcome: Outcome) -> None:
        """Record the command's end and its last event together, synced to disk before this returns."""
        subject = subject_of(command)
        with self._transaction(promised=True):
            self._db.execute("UPDATE commands SET done_at = ?, body = x'' WHERE id = ?", (time.time(), command.id))
            self.add_event(event)
            if outcome.description is not None:
                self._update(subject, "description = ?", outcome.description)
            if outcome.gone:
                self.delete_spec(subject)
            if outcome.leftover:
                self._update(subject, "leftover = 1")

    def unfinished(self) -> list[StoredCommand]:
        """Return the unfinished commands, in order of arrival."""
        rows = self._db.execute("SELECT body, begun FROM commands WHERE done_at IS NULL ORDER BY number")
        return [StoredCommand(command := _command.decode(body), bool(begun), Timing(command)) for body, begun in rows]

    def fence(self, owned: Mapping[Subject, int], removes: Callable[[Command], bool]) -> int:
        """Supersede unfinished commands that are outdated according to the database. Return their number.

        ``owned``: the newest generation of each subject of this host. Removals of subjects that are not owned stay
        valid.
        """
        stale = 0
        with self._transaction(promised=True):
            for stored in self.unfinished():
                subject, generation = subject_of(stored.command), generation_of(stored.command)
                newest = owned.get(subject)
                if newest is not None and newest > generation:
                    self._update(subject, "generation = max(generation, ?)", newest)
                elif newest is None and not removes(stored.command):
                    self._mark_removed(subject, generation)
                else:
                    continue
                stale += 1
        return stale

    # ----- subjects -------------------------------------------------------------------------------------------------

    def subject(self, subject: Subject) -> SubjectRecord | None:
        """Return the record of the subject; None if this host has never had it."""
        row = self._db.execute(
            "SELECT generation, removed, leftover FROM subjects WHERE kind = ? AND id = ?", subject
        ).fetchone()
        return SubjectRecord(subject, row[0], row[1], bool(row[2])) if row else None

    def adopt(self, subject: Subject, generation: int) -> None:
        """Record a subject that was found on the host, so that older commands for it are fenced."""
        self._db.execute(
            "INSERT INTO subjects (kind, id, generation, touched_at) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (kind, id) DO UPDATE SET generation = max(generation, excluded.generation)",
            (*subject, generation, time.time()),
        )

    def describe(self, subject: Subject, description: bytes) -> None:
        """Store the spec of a subject that is created, or created again. Leftovers of the subject no longer count,
        because they are replaced.
        """
        self._update(subject, "description = ?, leftover = 0", description)

    def delete_spec(self, subject: Subject) -> None:
        """Delete the subject's spec, because this host has no data of the subject any longer."""
        self._update(subject, "description = NULL, leftover = 0")

    def leftovers(self) -> list[SubjectRecord]:
        """Return the subjects with leftovers of failed commands that could not be removed yet."""
        rows = self._db.execute("SELECT kind, id, generation, removed FROM subjects WHERE leftover = 1")
        return [SubjectRecord(Subject(*row[:2]), row[2], row[3], leftover=True) for row in rows]

    def remembered(self, kind: str, most: int) -> list[tuple[SubjectRecord, bytes | None]]:
        """Return the subjects of a kind with their descriptions, most recently touched first, at most ``most``."""
        rows = self._db.execute(
            "SELECT id, generation, removed, description FROM subjects WHERE kind = ? ORDER BY touched_at DESC LIMIT ?",
            (kind, most),
        )
        return [(SubjectRecord(Subject(kind, row[0]), row[1], row[2]), row[3]) for row in rows]

    def mark_removed(self, subject: Subject, generation: int) -> None:
        """Record that a command of that generation has removed the subject."""
        self._mark_removed(subject, generation)
        self.delete_spec(subject)

    def description(self, subject: Subject) -> bytes | None:
        """Return the subject's description, if this host knows it."""
        row = self._db.execute("SELECT description FROM subjects WHERE kind = ? AND id = ?", subject).fetchone()
        return row[0] if row else None

    def descriptions(self, kind: str) -> dict[str, bytes]:
        """Return id → description of the subjects of a kind, as far as this host knows them."""
        return dict(
            self._db.execute("SELECT id, description FROM subjects WHERE kind = ? AND description IS NOT NULL", (kind,))
        )

    def prune(self) -> None:
        """Delete commands and subjects that ended long ago, also from the write-ahead log."""
        now = time.time()
        with self._transaction():
            self._db.execute("DELETE FROM commands WHERE done_at < ?", (now - KEEP_DONE,))
            self._db.execute(
                "DELETE FROM subjects WHERE description IS NULL AND leftover = 0 AND touched_at < ?",
                (now - KEEP_REMOVED,),
            )
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def see(self, subject: Subject, generation: int) -> None:
        """Record the subject, and its generation if that is the newest."""
        self.adopt(subject, generation)
        self._update(subject, "touched_at = ?", time.time())

    def _mark_removed(self, subject: Subject, generation: int) -> None:
        self._update(subject, "removed = max(removed, ?), touched_at = ?", generation, time.time())

    def _update(self, subject: Subject, changes: str, *values: object) -> None:
        self._db.execute(f"UPDATE subjects SET {changes} WHERE kind = ? AND id = ?", (*values, *subject))  # noqa: S608

    # ----- transactions ---------------------------------------------------------------------------------------------

    def _sync(self, level: str) -> None:
        self._db.execute(f"PRAGMA synchronous = {level}")

    @contextmanager
    def _transaction(self, *, promised: bool = False) -> Iterator[None]:
        """Run the statements of the block in a transaction. If it is ``promised`` and the store is durable, this
        transaction and all earlier ones are synced to disk.
        """
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
